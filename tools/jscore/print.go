package jscore

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"ustack/symbolize/v8"
	"ustack/symbolize/v8/value"
)

// Defaults of PrintOptions in jsprint.
const (
	DefaultDepth   = 2 // levels of members, as mdb_v8 shows
	DefaultMembers = 100
)

// PrintOptions are the options of jsprint.
type PrintOptions struct {
	value.Options
	value.TextOptions
	Base    bool     // before each value, the address of the object it belongs to
	Storage bool     // after each object, where V8 keeps its properties
	Paths   []string // of the members to print; none: the object itself
}

// Printed is a value, or some of its members, as jsprint shows it.
type Printed struct {
	Base   Address
	Values []PrintedValue

	options value.TextOptions
	base    bool
}

// A PrintedValue is a member that was requested by its path, or the object itself,
// which has no path.
type PrintedValue struct {
	Path string
	Node *value.Node

	value v8.Value // 0: it has none
}

// Print describes v, or those of its members that options name. If none of them exists
// it fails with value.ErrNoMember.
func Print(h *v8.Heap, v v8.Value, o PrintOptions) (*Printed, error) {
	p := &Printed{Base: Address(v.Strong()), options: o.TextOptions, base: o.Base}
	paths := o.Paths
	if len(paths) == 0 {
		paths = []string{""}
	}
	var all error
	for _, path := range paths {
		slot, err := value.Lookup(h, value.Slot{Value: v}, path)
		if err != nil {
			all = errors.Join(all, err)
			continue
		}
		p.Values = append(p.Values, printedValue(h, path, slot, o))
	}
	if len(p.Values) == 0 {
		return nil, all
	}
	return p, nil
}

// printedValue describes what a path leads to.
func printedValue(h *v8.Heap, path string, slot value.Slot, o PrintOptions) PrintedValue {
	p := PrintedValue{Path: path, Node: value.Describe(h, slot, o.Options)}
	if slot.HasValue() {
		p.value = slot.Value
	}
	if o.Storage && p.value.IsObject() {
		p.Node.Storage = storageOf(h, p.value)
	}
	return p
}

// storageOf returns where an object's properties are, in mdb_v8's words; nil if it has none.
func storageOf(h *v8.Heap, v v8.Value) []string {
	o, err := h.Object(v)
	if err != nil || !h.IsReceiver(o) {
		return nil
	}
	s, _ := h.Storage(o) // what cannot be read is reported with the members
	var words []string
	for _, kind := range []struct {
		is   bool
		word string
	}{
		{s.Elements, "numeric-named"},
		{s.Dictionary, "dictionary"},
		{s.InObject, "in-object"},
		{s.Array, `"properties" array`},
		{s.Map, "map"},
	} {
		if kind.is {
			words = append(words, kind.word)
		}
	}
	return words
}

// WriteText writes each value on separate lines, with the paths of members if several
// were requested.
func (p *Printed) WriteText(w io.Writer) error {
	for _, v := range p.Values {
		if p.base {
			if _, err := fmt.Fprintf(w, "%s: ", p.Base); err != nil {
				return err
			}
		}
		if len(p.Values) > 1 {
			if _, err := fmt.Fprintf(w, "%s: ", v.Path); err != nil {
				return err
			}
		}
		if err := v.Node.Render(w, p.options); err != nil {
			return err
		}
		if len(v.Node.Storage) > 0 {
			if _, err := fmt.Fprintln(w, "property kind:", strings.Join(v.Node.Storage, " ")); err != nil {
				return err
			}
		}
	}
	return nil
}

// Addresses returns the addresses of the values.
func (p *Printed) Addresses() []v8.Value {
	var values []v8.Value
	for _, v := range p.Values {
		if v.value.IsObject() {
			values = append(values, v.value)
		}
	}
	return values
}

// MarshalJSON writes the value itself, or the members by their paths.
func (p *Printed) MarshalJSON() ([]byte, error) {
	if len(p.Values) == 1 && p.Values[0].Path == "" {
		return json.Marshal(p.Values[0].Node)
	}
	byPath := map[string]*value.Node{}
	for _, v := range p.Values {
		byPath[v.Path] = v.Node
	}
	return json.Marshal(struct {
		Address Address                `json:"address"`
		Members map[string]*value.Node `json:"members"`
	}{p.Base, byPath})
}
