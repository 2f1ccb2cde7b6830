package census

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"ustack/symbolize"
	"ustack/symbolize/v8"
	"ustack/symbolize/v8/heap"
	"ustack/symbolize/v8/value"
)

// FunctionOptions say which closures to count. The zero value counts all.
type FunctionOptions struct {
	Name string // only those whose name contains this
	File string // only those whose script's name contains this
	Live bool   // only those that are live
}

// A Definition is a function in a program's text. Any number of closures may share it.
type Definition struct {
	Name   string `json:"name"`
	File   string `json:"file,omitempty"` // empty for V8's own and an embedder's functions
	Line   int    `json:"line,omitempty"`
	Column int    `json:"column,omitempty"`
	Tally         // of closures
}

// Functions counts closures, most first; named returns where a function is defined. Once
// ctx is done it returns at once, with those counted so far.
func Functions(ctx context.Context, g *heap.Graph, o FunctionOptions, named func(v8.Function) symbolize.Frame) []*Definition {
	at, _ := g.Heap().Offset("JSFunction", "shared") // every V8 has it
	byShared := make(map[v8.Value]*Definition)
	for id := range g.All(ctx) {
		if !g.Heap().IsFunction(v8.Object{Map: g.Map(id)}) || o.Live && !g.IsLive(id) {
			continue
		}
		shared, err := g.Heap().Field(g.Object(id), at)
		if err != nil {
			continue // in a part that is not in the core
		}
		d, ok := byShared[shared]
		if !ok {
			d = &Definition{}
			byShared[shared] = d
		}
		d.add(g, id)
	}
	var definitions []*Definition
	for _, d := range byShared {
		d.define(g, named)
		if strings.Contains(d.Name, o.Name) && strings.Contains(d.File, o.File) {
			definitions = append(definitions, d)
		}
	}
	slices.SortFunc(definitions, func(a, b *Definition) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Address, b.Address))
	})
	return definitions
}

// define fills in the name and location of d's function.
func (d *Definition) define(g *heap.Graph, named func(v8.Function) symbolize.Frame) {
	o := g.Object(d.Object)
	d.Address = value.Address(o.Ref())
	f, err := g.Heap().Function(o)
	if err != nil {
		d.Name = "<bad>"
		return
	}
	d.Name = f.String()
	frame := named(f)
	d.File, d.Line, d.Column = frame.File, frame.Line, frame.Column
}
