package value

import (
	"fmt"
	"iter"
	"strings"

	"ustack/symbolize/v8"
	"ustack/symbolize/v8/code"
)

// Bounds on what one error has.
const (
	maxMessage = 1 << 16 // characters of a message or a stack that are read
	maxScripts = 1 << 6  // of a stack's calls, whose lines are read
	maxSought  = 1 << 20 // properties that are searched for names
	maxChain   = 1 << 7  // prototypes of one object that are searched
	maxEvals   = 8       // nested evals that are written
)

// An Error describes an object made by new Error, or passed to
// Error.captureStackTrace.
type Error struct {
	Name, Message string
	Stack         string          // as a program would read it; empty if it has none
	Sites         []code.CallSite // the calls that Stack was made from here; none if V8 had already made it
	Cause         v8.Value
	HasCause      bool
}

// ReadError reads an error. V8 makes the text of a stack when a program first asks
// for it; before that, ReadError makes it from the calls that V8 has recorded.
func ReadError(h *v8.Heap, o v8.Object) (Error, error) {
	if !h.IsReceiver(o) || o.Map.Kind == "JSProxy" {
		return Error{}, fmt.Errorf("read error at %#x: it is a %s", o.Address, o.Map.Kind)
	}
	r := &errorReader{heap: h, sources: map[uint64]*code.Source{}, left: maxSought}
	e := Error{Name: r.textProperty(o, "name", "Error"), Message: r.textProperty(o, "message", "")}
	properties, err := h.Properties(o)
	if err != nil {
		return e, err
	}
	for _, p := range properties {
		if p.Name == "cause" && !p.Symbol && !p.Accessor {
			e.Cause, e.HasCause = p.Value, true
		}
	}
	for _, p := range properties {
		if !p.Symbol || p.Name != "" || p.Accessor {
			continue
		}
		if found, err := r.stackOf(p.Value, &e); found || err != nil {
			return e, err
		}
	}
	return e, nil
}

// An errorReader reads one error.
type errorReader struct {
	heap    *v8.Heap
	sources map[uint64]*code.Source // by their scripts' addresses
	left    int                     // properties that may still be searched
}

// stackOf reads an error's stack from the property that V8 keeps under a private
// symbol. Several such symbols have no name, so the property is recognized by its
// value.
func (r *errorReader) stackOf(v v8.Value, e *Error) (found bool, err error) {
	h := r.heap
	o, err := h.Object(v)
	if err != nil {
		return false, nil
	}
	if o.Map.Kind == "ErrorStackData" {
		if v, err = h.FieldOf(o, "ErrorStackData", "formatted"); err != nil {
			return false, err
		}
		if o, err = h.Object(v); err != nil {
			return false, err
		}
	}
	switch {
	case h.IsString(o):
		text, _, err := h.Text(v, maxMessage)
		if text == e.Message { // V8 13 and later keep the message too
			return false, err
		}
		e.Stack = text
		return true, err
	case o.Map.Kind == "FixedArray":
		if e.Sites, err = code.CallSites(h, v); err != nil || len(e.Sites) == 0 {
			return false, err
		}
		e.Stack = r.stackText(e)
		return true, nil
	}
	return false, nil
}

// stackText returns the text that V8 would make from an error's stack.
func (r *errorReader) stackText(e *Error) string {
	var b strings.Builder
	switch {
	case e.Message == "":
		b.WriteString(e.Name)
	case e.Name == "":
		b.WriteString(e.Message)
	default:
		b.WriteString(e.Name + ": " + e.Message)
	}
	for _, site := range e.Sites {
		b.WriteString("\n    at ")
		b.WriteString(r.call(site))
	}
	return b.String()
}

// textProperty returns the text of the property that o or its prototypes have under a
// name, or missing if they have none, if it is undefined, or if only the program's code
// could tell its text: a getter, an object's methods.
func (r *errorReader) textProperty(o v8.Object, name, missing string) string {
	p, ok := r.lookup(o, name)
	if !ok || p.Accessor {
		return missing
	}
	if text, ok := converted(r.heap, p.Value); ok {
		return text
	}
	return missing
}

// converted returns the text to which JavaScript's ToString converts v. ok is false for
// undefined, a symbol, which ToString refuses, and an object, whose methods it calls.
func converted(h *v8.Heap, v v8.Value) (text string, ok bool) {
	if number, ok := h.Number(v); ok {
		if number == 0 {
			return "0", true // -0 too
		}
		return FormatNumber(number), true
	}
	o, err := h.Object(v)
	switch {
	case err != nil:
	case h.IsString(o):
		text, _, err = h.Text(v, maxMessage)
		return text, err == nil
	case o.Map.Kind == "BigInt":
		text, err = h.BigInt(o)
		return text, err == nil
	}
	text = h.Oddball(v)
	return text, text == "null" || text == "true" || text == "false"
}

// lookup finds the property of a name on o or its prototypes.
func (r *errorReader) lookup(o v8.Object, name string) (p v8.Property, ok bool) {
	for _, properties := range r.chain(o) {
		for _, p := range properties {
			if p.Name == name && !p.Symbol {
				return p, true
			}
		}
	}
	return v8.Property{}, false
}

// chain yields the properties of o and of each of its prototypes in turn, as far
// as they can be read and up to the limit on properties.
func (r *errorReader) chain(o v8.Object) iter.Seq2[v8.Object, []v8.Property] {
	return func(yield func(v8.Object, []v8.Property) bool) {
		for range maxChain {
			if !r.heap.IsReceiver(o) || o.Map.Kind == "JSProxy" || r.left <= 0 {
				return
			}
			properties, _ := r.heap.Properties(o)
			r.left -= len(properties) + 1
			if !yield(o, properties) {
				return
			}
			var err error
			if o, err = r.heap.Object(o.Map.Prototype); err != nil {
				return
			}
		}
	}
}
