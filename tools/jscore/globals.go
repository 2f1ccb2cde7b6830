package jscore

import (
	"fmt"
	"io"
	"strings"

	"ustack/symbolize/nodejs"
	"ustack/symbolize/v8"
	"ustack/symbolize/v8/value"
)

// Globals are the global variables that the program has added.
type Globals struct {
	Globals []Global `json:"globals"`
}

// A Global is one of them.
type Global struct {
	Name     string  `json:"name"`
	Symbol   bool    `json:"symbol,omitempty"`
	Kind     string  `json:"kind"` // "property" of the global object, or "script": declared by let, const or class
	In       Address `json:"in"`   // the global object, or the Context
	Value    *Brief  `json:"value,omitempty"`
	Accessor bool    `json:"accessor,omitempty"`
	Replaces bool    `json:"replaces,omitempty"` // what Node.js or V8 had defined
	Unset    bool    `json:"unset,omitempty"`    // its declaration has not run
}

// Globals finds the global variables that the program has added.
func (d *Dump) Globals(g *Graph) *Globals {
	list := &Globals{Globals: []Global{}}
	for _, v := range nodejs.Globals(g.Graph) {
		shown := Global{Name: v.Name, Symbol: v.Symbol, Kind: "property", In: Address(v.In), Accessor: v.Accessor, Replaces: v.Replaces}
		if v.Script {
			shown.Kind = "script"
			shown.Unset = g.heap.Oddball(v.Value) == "hole"
		}
		if !v.Accessor && !shown.Unset {
			brief := value.BriefOf(g.heap, v.Value)
			shown.Value = &brief
		}
		list.Globals = append(list.Globals, shown)
	}
	return list
}

// WriteText writes a line for each variable.
func (l *Globals) WriteText(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%16s %-8s %s\n", "VALUE", "KIND", "NAME")
	for _, v := range l.Globals {
		name, address, what := v.Name, "", "<accessor>"
		if v.Symbol {
			name = "[Symbol(" + name + ")]"
		}
		switch {
		case v.Value != nil:
			address, what = v.Value.Address.String(), v.Value.String()
		case v.Unset:
			what = "<not initialized>"
		}
		if v.Replaces {
			what += ", instead of Node.js's own"
		}
		fmt.Fprintf(&b, "%16s %-8s %s: %s\n", address, v.Kind, name, what)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Addresses returns the values.
func (l *Globals) Addresses() []v8.Value {
	var values []v8.Value
	for _, v := range l.Globals {
		if v.Value != nil {
			values = append(values, v8.Value(v.Value.Address))
		}
	}
	return values
}
