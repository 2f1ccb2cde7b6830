package quantize

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// A Table sums histograms up: a line for each key, and in it a group of columns
// for each part of what was measured.
type Table struct {
	Unit  Unit     // Nanoseconds if zero
	Parts []string // the groups' titles
	Rows  []TableRow
}

// A TableRow holds one key's histograms, one for each of the table's parts.
type TableRow struct {
	Key        string
	Histograms []*Histogram
}

// Write writes the table in the order of its rows. Cells hold Unit's numbers.
func (t *Table) Write(w io.Writer) error {
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	const columns = "count\tmean\tp50\tp90\tp99\tmax\t"
	fmt.Fprintf(out, "%s\t\n", strings.Join(t.Parts, strings.Repeat("\t", strings.Count(columns, "\t"))))
	fmt.Fprintf(out, "%s  %v\n", strings.Repeat(columns, len(t.Parts)), t.unit())
	for _, row := range t.Rows {
		for _, h := range row.Histograms {
			fmt.Fprintf(out, "%d\t", h.Count)
			for _, ns := range []uint64{h.Mean(), h.Percentile(50), h.Percentile(90), h.Percentile(99), h.Max} {
				fmt.Fprintf(out, "%s\t", t.cell(ns))
			}
		}
		fmt.Fprintf(out, "  %s\n", row.Key)
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("write table: %w", err)
	}
	return nil
}

func (t *Table) unit() Unit {
	if t.Unit == 0 {
		return Nanoseconds
	}
	return t.Unit
}

// cell rounds to three digits behind the point where there is one.
func (t *Table) cell(ns uint64) string {
	unit := t.unit()
	if unit == Nanoseconds {
		return fmt.Sprint(ns)
	}
	return fmt.Sprintf("%.3f", float64(ns)/float64(unit))
}
