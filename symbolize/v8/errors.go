package v8

import (
	"fmt"
	"strings"
)

// Bounds on what one error has.
const (
	maxMessage = 1 << 16 // characters of a message or a stack that are read
	maxSites   = 1 << 10 // calls of a stack; a program raises V8's limit of 10 at its own cost
)

// An Error is what an object tells that was made by new Error, or that
// Error.captureStackTrace was called with.
type Error struct {
	Name, Message string
	Stack         string     // as a program would read it; empty if there is none
	Sites         []CallSite // what Stack was made of here; none if V8 had made it already
	Cause         Value
	HasCause      bool
}

// Error reads an error. V8 makes the text of a stack when a program first asks for
// it; before that it is made here, from the calls that V8 has noted.
func (h *Heap) Error(o Object) (Error, error) {
	if !h.IsReceiver(o) || o.Map.Kind == "JSProxy" {
		return Error{}, fmt.Errorf("read error at %#x: it is a %s", o.Address, o.Map.Kind)
	}
	var e Error
	var err error
	if e.Name, err = h.textProperty(o, "name", "Error"); err != nil {
		return e, err
	}
	if e.Message, err = h.textProperty(o, "message", ""); err != nil {
		return e, err
	}
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
		if found, err := h.stackOf(p.Value, &e); found || err != nil {
			return e, err
		}
	}
	return e, nil
}

// stackOf reads an error's stack from what V8 keeps by a symbol of its own, one of
// several without a name, which it is known by.
func (h *Heap) stackOf(v Value, e *Error) (found bool, err error) {
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
		if text == e.Message { // V8 13 and later keep that, too
			return false, err
		}
		e.Stack = text
		return true, err
	case o.Map.Kind == "FixedArray":
		if e.Sites, err = h.callSites(v); err != nil || len(e.Sites) == 0 {
			return false, err
		}
		e.Stack = h.stackText(e)
		return true, nil
	}
	return false, nil
}

// stackText returns the text that V8 would make of an error's stack.
func (h *Heap) stackText(e *Error) string {
	var b strings.Builder
	switch {
	case e.Message == "":
		b.WriteString(e.Name)
	case e.Name == "":
		b.WriteString(e.Message)
	default:
		b.WriteString(e.Name + ": " + e.Message)
	}
	w := &siteWriter{heap: h, sources: map[uint64]*Source{}}
	for _, site := range e.Sites {
		b.WriteString("\n    at ")
		b.WriteString(w.text(site))
	}
	return b.String()
}

// textProperty returns the string that o or its prototypes have by a name, or
// missing where they have none.
func (h *Heap) textProperty(o Object, name, missing string) (string, error) {
	p, ok := h.lookup(o, name)
	if !ok || p.Accessor {
		return missing, nil
	}
	v, err := h.Object(p.Value)
	if err != nil || !h.IsString(v) {
		return missing, nil
	}
	text, _, err := h.Text(p.Value, maxMessage)
	return text, err
}

// lookup finds the property of a name that o has itself or by its prototypes.
func (h *Heap) lookup(o Object, name string) (Property, bool) {
	for range prototypesToSeek {
		if p, ok := h.own(o, name); ok {
			return p, true
		}
		next, err := h.Object(o.Map.Prototype)
		if err != nil || !h.IsReceiver(next) || next.Map.Kind == "JSProxy" {
			break
		}
		o = next
	}
	return Property{}, false
}

// own finds o's own property of a name, be it an accessor.
func (h *Heap) own(o Object, name string) (Property, bool) {
	properties, _ := h.Properties(o) // what can be read of them
	for _, p := range properties {
		if p.Name == name && !p.Symbol {
			return p, true
		}
	}
	return Property{}, false
}
