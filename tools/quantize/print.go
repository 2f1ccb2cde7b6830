package quantize

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
)

// An Entry is a distribution with its key.
type Entry struct {
	Key          string
	Stack        []string // frames, leaf first, that are part of the key; may be empty
	Distribution Distribution

	// Parts are drawn instead of the Distribution, each below its title; the
	// Distribution then only determines the entry's position.
	Parts []Part
}

// A Part is a distribution with its title.
type Part struct {
	Title        string
	Distribution Distribution
}

// Widths that DTrace uses: of its bars, and the indent of its stacks.
const (
	barWidth    = 40
	stackIndent = 14
)

// Print writes entries as DTrace prints an aggregation when its script ends: in
// ascending order of value, and then by key.
func Print(w io.Writer, unit Unit, entries []Entry) error {
	var out bytes.Buffer
	for _, entry := range slices.SortedFunc(slices.Values(entries), compare) {
		printKey(&out, entry)
		if len(entry.Parts) == 0 {
			Draw(&out, unit, entry.Distribution)
		}
		for _, part := range entry.Parts {
			fmt.Fprintf(&out, "\n  %s", part.Title)
			Draw(&out, unit, part.Distribution)
		}
		out.WriteByte('\n')
	}
	if _, err := w.Write(out.Bytes()); err != nil {
		return fmt.Errorf("write distributions: %w", err)
	}
	return nil
}

func compare(a, b Entry) int {
	return cmp.Or(
		cmp.Compare(a.Distribution.weight(), b.Distribution.weight()),
		cmp.Compare(a.Distribution.zeros(), b.Distribution.zeros()),
		strings.Compare(a.Key, b.Key),
		slices.Compare(a.Stack, b.Stack),
	)
}

func printKey(out *bytes.Buffer, entry Entry) {
	if entry.Key != "" {
		fmt.Fprintf(out, "  %-50s", entry.Key)
	}
	if len(entry.Stack) == 0 {
		return
	}
	out.WriteByte('\n')
	for _, frame := range entry.Stack {
		fmt.Fprintf(out, "%*s%s\n", stackIndent, "", frame)
	}
}

// Draw appends to out the bars of d below DTrace's heading for them.
func Draw(out *bytes.Buffer, unit Unit, d Distribution) {
	rows := d.rows(unit)
	var total float64
	for _, r := range rows {
		total += float64(r.count)
	}
	const heading = "------------- Distribution -------------"
	fmt.Fprintf(out, "\n%16s %41s %-9s\n", "value", heading, "count")
	for _, r := range rows {
		length := 0
		if total > 0 {
			length = int(float64(r.count)*barWidth/total + 0.5)
		}
		fmt.Fprintf(out, "%16s |%-*s %-9d\n", r.label, barWidth, strings.Repeat("@", length), r.count)
	}
}
