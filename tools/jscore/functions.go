package jscore

import (
	"bufio"
	"context"
	"fmt"
	"io"

	"ustack/symbolize/v8"
	"ustack/symbolize/v8/census"
	"ustack/symbolize/v8/heap"
	"ustack/symbolize/v8/value"
)

// FunctionOptions say which closures to count.
type FunctionOptions = census.FunctionOptions

// Functions are closures grouped by where they are defined.
type Functions struct {
	Definitions []*Definition `json:"definitions"` // most closures first
	Doubts      heap.Doubts   `json:"doubts"`

	Ranges bool `json:"-"` // WriteText prints where the instructions are

	graph *Graph
}

// A Definition is a function with the number of its closures.
type Definition struct {
	*census.Definition
	Instructions *Instructions `json:"instructions,omitempty"` // nil until AddInstructions, and if they were not found
}

// Functions counts closures. Once ctx is done it returns at once, with those counted
// so far.
func (g *Graph) Functions(ctx context.Context, o FunctionOptions) *Functions {
	f := &Functions{Definitions: []*Definition{}, Doubts: g.Doubts, graph: g}
	for _, d := range census.Functions(ctx, g.Graph, o, g.dump.Named) {
		f.Definitions = append(f.Definitions, &Definition{Definition: d})
	}
	return f
}

// WriteText writes a table like that of mdb_v8's jsfunctions.
func (f *Functions) WriteText(w io.Writer) error {
	out := bufio.NewWriter(w)
	fmt.Fprintf(out, "%16s %8s %8s %s%-40s %s\n", "FUNC", "#FUNCS", "#LIVE", f.rangeText(nil), "NAME", "FROM")
	for _, d := range f.Definitions {
		from := d.File
		if d.Line > 0 {
			from = fmt.Sprintf("%s line %d", d.File, d.Line)
		}
		fmt.Fprintf(out, "%16s %8d %8d %s%-40s %s\n", d.Address, d.Count, d.Live, f.rangeText(d), d.Name, from)
	}
	writeDoubts(out, f.Doubts)
	return out.Flush()
}

// rangeText returns the columns that say where d's instructions are, or the titles of
// these for nil.
func (f *Functions) rangeText(d *Definition) string {
	const columns = "%12s %12s %-11s "
	switch {
	case !f.Ranges:
		return ""
	case d == nil:
		return fmt.Sprintf(columns, "START", "END", "TIER")
	case d.Instructions == nil:
		return fmt.Sprintf(columns, "?", "?", "?")
	}
	return fmt.Sprintf(columns, d.Instructions.Start, d.Instructions.End, d.Instructions.Tier)
}

// Representatives lists one closure of each definition.
func (f *Functions) Representatives() *Values {
	list := &Values{Values: make([]Indexed, len(f.Definitions))}
	for i, d := range f.Definitions {
		list.Values[i] = Indexed{i, Brief{Address: d.Address, Kind: "JSFunction", Text: value.Text(d.Name)}}
	}
	return list
}

// Addresses returns the address of one closure of each definition.
func (f *Functions) Addresses() []v8.Value {
	addresses := make([]v8.Value, len(f.Definitions))
	for i, d := range f.Definitions {
		addresses[i] = v8.Value(d.Address)
	}
	return addresses
}
