package value

import (
	"errors"
	"fmt"
	"strings"

	"ustack/symbolize/v8"
)

// Lookup follows a path of the names of properties, indices and keys of Maps: "a.b.0",
// "list[3].name", `map["a key"]`, "o[Symbol.iterator]", "o.__proto__". Quotes may be left out.
// A lone surrogate is an escape sequence: `["\ud800"]`. An empty path leads to the value itself.
func Lookup(h *v8.Heap, s Slot, path string) (Slot, error) {
	for _, name := range splitPath(path) {
		if !s.HasValue() || !s.Value.IsObject() {
			return Slot{}, fmt.Errorf("find %s: what it would be in has no members", name)
		}
		o, err := h.Object(s.Value)
		if err != nil {
			return Slot{}, fmt.Errorf("find %s: %w", name, err)
		}
		if s, err = lookup(h, o, name); err != nil {
			return Slot{}, err
		}
	}
	return s, nil
}

// lookup returns the member of that name: a property or an element, or else an entry of a Map
// with that key, the length or the prototype.
func lookup(h *v8.Heap, o v8.Object, name string) (Slot, error) {
	if !h.IsReceiver(o) {
		return Slot{}, fmt.Errorf("find %s: %s has no members", name, o.Map.Kind)
	}
	all := members(h, o)
	for _, exact := range []string{v8.UnescapeSurrogates(name), name} {
		if slot, ok := all.named(h, exact); ok {
			return slot, nil
		}
	}
	if length, ok := h.Length(o); ok && name == "length" {
		return Slot{Number: float64(length), IsNumber: true}, nil
	}
	if name == "__proto__" {
		return Slot{Value: o.Map.Prototype}, nil
	}
	if all.err != nil {
		return Slot{}, fmt.Errorf("find %s: %w", name, all.err)
	}
	return Slot{}, fmt.Errorf("find %s: %w", name, ErrNoMember)
}

// named returns the property, or else the entry of a Map with a key, of that exact name.
func (c *contents) named(h *v8.Heap, name string) (Slot, bool) {
	for _, m := range c.members {
		if m.kind != "entry" && m.name == name && !m.getter {
			return m.slot, true
		}
	}
	for _, m := range c.members {
		if m.key != nil && KeyText(h, *m.key) == name {
			return m.slot, true
		}
	}
	return Slot{}, false
}

// ErrNoMember reports that an object has no such property, or only a getter for it.
var ErrNoMember = errors.New("no such property")

// KeyText returns a Map's key as a path has it: the text of a string, a number or a symbol; ""
// for another object.
func KeyText(h *v8.Heap, key Slot) string {
	if !key.HasValue() {
		return ""
	}
	if n := Describe(h, key, Options{}); n.Type != "function" && n.Type != "object" && n.Type != "array" {
		return n.Text
	}
	return ""
}

// splitPath returns the names in `a.b[0]["c.d"]`. What is between brackets is one name, without
// the quotes around it.
func splitPath(path string) []string {
	names := []string{}
	for path != "" {
		if path[0] != '[' {
			end := strings.IndexAny(path, ".[")
			if end < 0 {
				end = len(path)
			}
			if end > 0 {
				names = append(names, path[:end])
			}
			path = strings.TrimPrefix(path[end:], ".")
			continue
		}
		var name string
		name, path = bracketed(path[1:])
		if name != "" {
			names = append(names, name)
		}
	}
	return names
}

// bracketed returns the name that ends at a bracket, and what follows the bracket. Between
// quotes, a bracket is part of the name.
func bracketed(text string) (name, rest string) {
	for _, quote := range []string{`"`, "'"} {
		if inner, ok := strings.CutPrefix(text, quote); ok {
			if name, rest, ok := strings.Cut(inner, quote+"]"); ok {
				return name, rest
			}
		}
	}
	name, rest, _ = strings.Cut(text, "]")
	return name, rest
}
