package v8

import (
	"fmt"
	"slices"
)

// awaitGenerator is the offset of the generator in an AwaitContext, where other
// contexts have their extension.
const awaitGenerator = arrayFirst + 2*wordSize

// maxReactions bounds the reactions of one promise.
const maxReactions = 1 << 16

// A PromiseState is the state of a promise.
type PromiseState int

// States of promises, in V8's own numbers.
const (
	Pending PromiseState = iota
	Fulfilled
	Rejected
)

func (s PromiseState) String() string {
	switch s {
	case Pending:
		return "pending"
	case Fulfilled:
		return "fulfilled"
	case Rejected:
		return "rejected"
	}
	return fmt.Sprintf("PromiseState(%d)", int(s))
}

// A promise's flags: two bits for its state, one bit that says it has a handler.
const (
	promiseState   = 3
	promiseHandled = 4
)

// A Promise is the content of a JSPromise.
type Promise struct {
	State     PromiseState
	Value     Value      // or the reason; 0 while it is pending
	Handled   bool       // the promise has a handler
	Reactions []Reaction // what waits for it, oldest first
}

// A Reaction is what happens once a promise is settled.
type Reaction struct {
	Fulfill, Reject Value // functions; undefined if then was not given one
	Promise         Value // the one that then returned, or a PromiseCapability; undefined for an await
	Generator       Value // the async function or generator that is resumed; 0 if none
}

// Promise reads a JSPromise.
func (h *Heap) Promise(o Object) (Promise, error) {
	if o.Map.Kind != "JSPromise" {
		return Promise{}, fmt.Errorf("read promise at %#x: it is a %s", o.Address, o.Map.Kind)
	}
	result, err := h.FieldOf(o, "JSPromise", "reactions_or_result")
	if err != nil {
		return Promise{}, err
	}
	flags, err := h.FieldOf(o, "JSPromise", "flags")
	if err != nil {
		return Promise{}, err
	}
	bits, ok := flags.Smi()
	if !ok || PromiseState(bits&promiseState) > Rejected {
		return Promise{}, fmt.Errorf("read promise at %#x: flags %#x", o.Address, uint64(flags))
	}
	p := Promise{State: PromiseState(bits & promiseState), Handled: bits&promiseHandled != 0}
	if p.State != Pending {
		p.Value = result
		return p, nil
	}
	p.Reactions, err = h.reactions(result)
	return p, err
}

// reactions reads a list of PromiseReactions, the newest first, which ends with a
// Smi.
func (h *Heap) reactions(next Value) ([]Reaction, error) {
	var list []Reaction
	var earlier Value // an earlier one, to detect cycles
	for next.IsObject() && len(list) < maxReactions {
		if next == earlier {
			return list, fmt.Errorf("read reactions at %#x: they go in a circle", next.Address())
		}
		if n := len(list); n&(n-1) == 0 {
			earlier = next
		}
		o, err := h.Object(next)
		if err != nil {
			return list, err
		}
		if o.Map.Kind != "PromiseReaction" {
			return list, fmt.Errorf("read reaction at %#x: it is a %s", o.Address, o.Map.Kind)
		}
		r, err := h.reaction(o)
		if err != nil {
			return list, err
		}
		list = append(list, r)
		if next, err = h.FieldOf(o, "PromiseReaction", "next"); err != nil {
			return list, err
		}
	}
	slices.Reverse(list)
	return list, nil
}

func (h *Heap) reaction(o Object) (Reaction, error) {
	var r Reaction
	err := h.Fields(o, "PromiseReaction", map[string]*Value{
		"fulfill_handler": &r.Fulfill, "reject_handler": &r.Reject, "promise_or_capability": &r.Promise,
	})
	if err == nil {
		r.Generator = h.awaiting(r.Fulfill)
	}
	return r, err
}

// Fields reads several fields of o by their names.
func (h *Heap) Fields(o Object, class string, into map[string]*Value) error {
	for field, v := range into {
		var err error
		if *v, err = h.FieldOf(o, class, field); err != nil {
			return err
		}
	}
	return nil
}

// awaiting returns the generator that an await's handler resumes, 0 if handler is
// not an await's: its context holds only the generator, as its extension.
func (h *Heap) awaiting(handler Value) Value {
	fn, err := h.Object(handler)
	if err != nil || !h.IsFunction(fn) {
		return 0
	}
	v, err := h.FieldOf(fn, "JSFunction", "context")
	if err != nil {
		return 0
	}
	context, err := h.Object(v)
	if err != nil || context.Map.Kind != "AwaitContext" {
		return 0
	}
	generator, err := h.Field(context, awaitGenerator)
	if err != nil {
		return 0
	}
	if o, err := h.Object(generator); err != nil || !isGenerator(o) {
		return 0
	}
	return generator
}
