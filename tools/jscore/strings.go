package jscore

import (
	"bufio"
	"context"
	"fmt"
	"io"

	"ustack/symbolize/v8"
	"ustack/symbolize/v8/census"
)

// StringOptions say which strings to report.
type StringOptions = census.StringOptions

// Texts are a process's strings.
type Texts struct{ *census.StringCensus }

// Strings returns which strings exist, and how many of each. Once ctx is done it returns
// at once, with those found so far.
func (g *Graph) Strings(ctx context.Context, o StringOptions) *Texts {
	return &Texts{census.Strings(ctx, g.Graph, o)}
}

// WriteText writes a table.
func (t *Texts) WriteText(w io.Writer) error {
	out := bufio.NewWriter(w)
	fmt.Fprintf(out, "%16s %9s %12s %10s %s\n", "STRING", "#STRINGS", "BYTES", "LENGTH", "TEXT")
	for _, s := range t.Texts {
		text := v8.QuoteExact(string(s.Text))
		if s.Length > census.ShownText {
			text += "…"
		}
		fmt.Fprintf(out, "%16s %9d %12d %10d %s\n", s.Address, s.Count, s.Bytes, s.Length, text)
	}
	fmt.Fprintf(out, "%16s %9d %12d\n", "total", t.Count, t.Bytes)
	if t.More > 0 {
		fmt.Fprintf(out, "and %d more texts\n", t.More)
	}
	writeDoubts(out, t.Doubts)
	return out.Flush()
}

// Addresses returns the address of one string of each text.
func (t *Texts) Addresses() []v8.Value {
	addresses := make([]v8.Value, len(t.Texts))
	for i, s := range t.Texts {
		addresses[i] = v8.Value(s.Address)
	}
	return addresses
}
