package quantize

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// Limits on a table's lines.
const (
	tableWidth = 100 // columns
	leastKey   = 12  // columns of a key, however wide the numbers are
)

// A Table summarizes histograms: for each key it has a line for each part of
// what was measured.
type Table struct {
	Unit  Unit     // Nanoseconds if zero
	Parts []string // the parts' names
	Rows  []TableRow
}

// A TableRow holds one key's histograms, one for each of the table's parts.
type TableRow struct {
	Prefix     string // printed before the key, and never cut
	Key        string
	Histograms []*Histogram
}

// Write writes the table in the order of its rows, the key first on each line.
// A line has at most 100 columns: a longer key is cut at the front, since the
// end of a name is what distinguishes it. Cells are numbers of Unit.
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

// columns returns the column widths for lines; the first column gets at most
// the room that the others leave.
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

// pad fills a cell with blanks: on the left, or on the right if width is
// negative.
func pad(cell string, width int) string { return fmt.Sprintf("%*s", width, cell) }

// cutFront cuts the front of text that is longer than width.
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

// cell rounds to three digits after the decimal point, or to none if many
// precede it.
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
