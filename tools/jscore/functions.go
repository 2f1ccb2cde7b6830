package jscore

import (
	"bufio"
	"context"
	"fmt"
	"io"

	"ustack/symbolize/v8"
	"ustack/symbolize/v8/census"
	"ustack/symbolize/v8/heap"
)

// FunctionOptions say which closures to count.
type FunctionOptions = census.FunctionOptions

// Functions are closures grouped by where they are defined.
type Functions struct {
	Definitions []*census.Definition `json:"definitions"` // most closures first
	Doubts      heap.Doubts          `json:"doubts"`
}

// Functions counts closures. Once ctx is done it returns at once, with those counted
// so far.
func (g *Graph) Functions(ctx context.Context, o FunctionOptions) *Functions {
	return &Functions{census.Functions(ctx, g.Graph, o, g.dump.Named), g.Doubts}
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
