package quantize

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// What a table's lines may take.
const (
	tableWidth = 100 // columns
	leastKey   = 12  // columns of a key, however wide the numbers are
)

// A Table sums histograms up: for each key a line for each part of what was
// measured.
type Table struct {
	Unit  Unit     // Nanoseconds if zero
	Parts []string // the parts' names
	Rows  []TableRow
}

// A TableRow holds one key's histograms, one for each of the table's parts.
type TableRow struct {
	Prefix     string // before the key, and never cut
	Key        string
	Histograms []*Histogram
}

// Write writes the table in the order of its rows, the key first on each line. A
// line has 100 columns at most: a longer key loses its beginning, for names end in
// what tells them apart. Cells hold Unit's numbers.
func (t *Table) Write(w io.Writer) error {
	lines := [][]string{{"KEY", "", "count", "mean", "p50", "p90", "p99", "max"}}
	prefixes := []string{""}
	for _, row := range t.Rows {
		for i, h := range row.Histograms {
			line := []string{row.Prefix + row.Key, t.Parts[i], fmt.Sprint(h.Count)}
			for _, ns := range []uint64{h.Mean(), h.Percentile(50), h.Percentile(90), h.Percentile(99), h.Max} {
				line = append(line, t.cell(ns))
			}
			lines, prefixes = append(lines, line), append(prefixes, row.Prefix)
		}
	}
	unit := "  " + t.unit().String()
	widths := columns(lines, tableWidth-len(unit))
	var out strings.Builder
	for i, line := range lines {
		key := prefixes[i] + cutFront(line[0][len(prefixes[i]):], widths[0]-len(prefixes[i]))
		out.WriteString(pad(key, -widths[0]) + "  " + pad(line[1], -widths[1]))
		for c, cell := range line[2:] {
			out.WriteString("  " + pad(cell, widths[2+c]))
		}
		if i == 0 {
			out.WriteString(unit)
		}
		out.WriteByte('\n')
	}
	if _, err := io.WriteString(w, out.String()); err != nil {
		return fmt.Errorf("write table: %w", err)
	}
	return nil
}

// columns returns the widths of lines' columns, of which the first takes no more
// than the others leave of room.
func columns(lines [][]string, room int) []int {
	widths := make([]int, len(lines[0]))
	for _, line := range lines {
		for c, cell := range line {
			widths[c] = max(widths[c], utf8.RuneCountInString(cell))
		}
	}
	for _, width := range widths[1:] {
		room -= 2 + width
	}
	widths[0] = min(widths[0], max(room, leastKey))
	return widths
}

// pad fills a cell up with blanks: on its left, or on its right where width is negative.
func pad(cell string, width int) string { return fmt.Sprintf("%*s", width, cell) }

// cutFront takes the beginning of what is longer than width.
func cutFront(text string, width int) string {
	runes := []rune(text)
	if len(runes) <= width {
		return text
	}
	return "…" + string(runes[min(len(runes), len(runes)-width+1):])
}

func (t *Table) unit() Unit {
	if t.Unit == 0 {
		return Nanoseconds
	}
	return t.Unit
}

// cell rounds to three digits behind the point, or to none where there are many
// before it.
func (t *Table) cell(ns uint64) string {
	const many = 1_000_000
	unit := t.unit()
	switch value := float64(ns) / float64(unit); {
	case unit == Nanoseconds:
		return fmt.Sprint(ns)
	case value >= many:
		return fmt.Sprintf("%.0f", value)
	default:
		return fmt.Sprintf("%.3f", value)
	}
}
