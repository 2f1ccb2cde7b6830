package jscore

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"ustack/symbolize/v8"
	"ustack/symbolize/v8/heap"
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

// Functions are closures grouped by where they are defined.
type Functions struct {
	Definitions []*Definition `json:"definitions"` // most closures first
	Doubts      heap.Doubts   `json:"doubts"`
}

// Functions counts closures. Once ctx is done it returns at once, with those counted
// so far.
func (g *Graph) Functions(ctx context.Context, o FunctionOptions) *Functions {
	at, _ := g.heap.Offset("JSFunction", "shared") // every V8 has it
	byShared := make(map[v8.Value]*Definition)
	for id := range g.All(ctx) {
		if !g.heap.IsFunction(v8.Object{Map: g.Map(id)}) || o.Live && !g.IsLive(id) {
			continue
		}
		shared, err := g.heap.Field(g.Object(id), at)
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
	f := &Functions{Doubts: g.Doubts}
	for _, d := range byShared {
		g.define(d)
		if strings.Contains(d.Name, o.Name) && strings.Contains(d.File, o.File) {
			f.Definitions = append(f.Definitions, d)
		}
	}
	slices.SortFunc(f.Definitions, func(a, b *Definition) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Address, b.Address))
	})
	return f
}

// define fills in the name and location of d's function.
func (g *Graph) define(d *Definition) {
	o := g.Object(d.object)
	d.Address = Address(o.Ref())
	f, err := g.heap.Function(o)
	if err != nil {
		d.Name = "<bad>"
		return
	}
	d.Name = f.String()
	frame := g.dump.Named(f)
	d.File, d.Line, d.Column = frame.File, frame.Line, frame.Column
}

// WriteText writes a table like that of mdb_v8's jsfunctions.
func (f *Functions) WriteText(w io.Writer) error {
	out := bufio.NewWriter(w)
	fmt.Fprintf(out, "%16s %8s %8s %-40s %s\n", "FUNC", "#FUNCS", "#LIVE", "NAME", "FROM")
	for _, d := range f.Definitions {
		from := d.File
		if d.Line > 0 {
			from = fmt.Sprintf("%s line %d", d.File, d.Line)
		}
		fmt.Fprintf(out, "%16s %8d %8d %-40s %s\n", d.Address, d.Count, d.Live, d.Name, from)
	}
	writeDoubts(out, f.Doubts)
	return out.Flush()
}

// Addresses returns the address of one closure of each definition.
func (f *Functions) Addresses() []v8.Value {
	addresses := make([]v8.Value, len(f.Definitions))
	for i, d := range f.Definitions {
		addresses[i] = v8.Value(d.Address)
	}
	return addresses
}
