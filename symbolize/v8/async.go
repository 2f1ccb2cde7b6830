package v8

import (
	"slices"
	"strings"
)

// Resumes returns the generator, or the call of an async function, that one of
// V8's internal functions resumes once the awaited value is settled; 0 if handler
// is not such a function.
func (h *Heap) Resumes(handler Value) Value { return h.awaiting(handler) }

// Awaits returns the promise that g's caller received: from an async function, or
// from the oldest call of next of an async generator; 0 if it has none.
func (h *Heap) Awaits(o Object, g Generator) Value {
	if g.Promise != 0 {
		return g.Promise
	}
	if o.Map.Kind != "JSAsyncGeneratorObject" {
		return 0
	}
	queue, err := h.FieldOf(o, "JSAsyncGeneratorObject", "queue")
	if err != nil {
		return 0
	}
	request, err := h.Object(queue)
	if err != nil || request.Map.Kind != "AsyncGeneratorRequest" {
		return 0
	}
	promise, err := h.FieldOf(request, "AsyncGeneratorRequest", "promise")
	if err != nil {
		return 0
	}
	return promise
}

// maxOwnSlots bounds the slots of a context of V8's internal functions; they have
// 5.
const maxOwnSlots = 8

// Settles returns the promise that r settles: the one that then returned, or the
// one that an internal function of V8 holds, such as Promise.all's; 0 if it
// settles none.
func (h *Heap) Settles(r Reaction) Value {
	if promise := h.promiseOf(r.Promise); promise != 0 {
		return promise
	}
	fn, err := h.Object(r.Fulfill)
	if err != nil || !h.IsFunction(fn) {
		return 0
	}
	if f, err := h.Function(fn); err != nil || f.Script != 0 {
		return 0
	}
	v, err := h.FieldOf(fn, "JSFunction", "context")
	if err != nil {
		return 0
	}
	context, err := h.Object(v)
	if err != nil {
		return 0
	}
	length, err := h.SmiField(context, arrayLength)
	if err != nil || length < contextSlots || !strings.HasSuffix(context.Map.Kind, "Context") {
		return 0
	}
	slots, err := h.words(context.Address+arrayFirst, min(length, maxOwnSlots))
	if err != nil {
		return 0
	}
	at := slices.IndexFunc(slots[contextSlots:], func(v Value) bool { return h.promiseOf(v) != 0 })
	if at < 0 {
		return 0
	}
	return h.promiseOf(slots[contextSlots+at])
}

// promiseOf returns the promise that v is, or that v is the capability of; 0 if
// none.
func (h *Heap) promiseOf(v Value) Value {
	o, err := h.Object(v)
	if err != nil {
		return 0
	}
	switch o.Map.Kind {
	case "JSPromise":
		return v
	case "PromiseCapability":
		promise, err := h.FieldOf(o, "PromiseCapability", "promise")
		if err == nil {
			return h.promiseOfCapability(promise)
		}
	}
	return 0
}

// promiseOfCapability is promiseOf for the content of a capability: a promise or
// an instance of a program's own class.
func (h *Heap) promiseOfCapability(v Value) Value {
	if o, err := h.Object(v); err == nil && o.Map.Kind == "JSPromise" {
		return v
	}
	return 0
}
