package profile

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"ustack/tools/printable"
)

const (
	annotateColumns = 160
	annotateNumbers = 50 // columns before the source
	annotateBefore  = 20 // characters shown before the executing column of a long line
	annotateRows    = 10 // functions shown
)

// Annotated returns the form of the formats top and json that has, instead of all of the
// profile, the source of the functions that match a pattern, with the values of each line:
// of the function itself there, with the native work that it called there, and of all
// stacks on which it is there. It is an error to write if no function matches.
func (f Format) Annotated(pattern *Pattern) (Format, error) {
	write, ok := map[string]func(io.Writer, *Profile, []*listing, Options) error{"top": writeListings, "json": writeJSONListings}[f.Name]
	if !ok {
		return Format{}, fmt.Errorf("the format %s has no place for source text (use top or json)", f.Name)
	}
	f.positions, f.tiers = true, true // they have no effect
	f.write = func(w io.Writer, p *Profile, o Options) error {
		all, err := p.annotated(pattern)
		if err != nil {
			return err
		}
		return write(w, p, all, o)
	}
	return f, nil
}

func writeListings(w io.Writer, p *Profile, all []*listing, o Options) error {
	shown := all
	if limit := cmp.Or(o.Rows, annotateRows); limit > 0 && len(all) > limit {
		shown = all[:limit]
	}
	return lines(w, func(b *bufio.Writer) {
		t := table{Writer: b, o: o, total: p.Total, value: p.ValueType}
		fmt.Fprintln(t, t.paint(bold, p.summary()))
		for _, l := range shown {
			t.listing(l)
		}
		if hidden := len(all) - len(shown); hidden > 0 {
			fmt.Fprintf(t, "\n%d more of the functions that match are not shown (name one of them: FILE:FUNCTION or FILE:LINE)\n", hidden)
		}
		if losses := p.losses(); losses != "" {
			fmt.Fprintf(t, "\n%s\n", t.paint(warn, losses))
		}
	})
}

func (t table) listing(l *listing) {
	fmt.Fprintf(t, "\n%s  %s\n", t.paint(bold, name(l.frame)), place(l.frame))
	fmt.Fprintln(t, t.paint(dim, l.about()))
	fmt.Fprintln(t, t.paint(dim, fmt.Sprintf("%13s %14s %14s %6s  %s", "SELF", "SELF+NATIVE", "TOTAL", "LINE", "SOURCE")))
	fmt.Fprintf(t, "%s %6s\n", t.counts(l.all), "all")
	if line := l.lines[0]; line != nil {
		fmt.Fprintf(t, "%s %6s  %s\n", t.counts(line.count), "?", "(the line is not known)")
	}
	most := l.most()
	last := l.frame.Line
	for _, number := range l.shown(t.o.Context) {
		if number > last+1 {
			fmt.Fprintf(t, "%*s...\n", annotateNumbers+2, "")
		}
		last = number
		t.listingLine(l, number, number == most)
	}
}

// about says in one line where the text of a function is from, or why there is none.
func (l *listing) about() string {
	var parts []string
	switch {
	case l.source.Text != nil:
		parts = append(parts, "source from "+l.source.Text.From)
		if l.outside() {
			parts = append(parts, "which has changed: it has not all the lines")
		}
	case l.source.Err != nil:
		parts = append(parts, "no source: "+strings.ReplaceAll(printable.String(l.source.Err.Error()), "\n", "; "))
	default:
		parts = append(parts, "no source")
	}
	if l.inlined > 0 {
		parts = append(parts, fmt.Sprintf("inlined in %.1f%% of its samples", percent(l.inlined, l.all.total)))
	}
	return strings.Join(parts, ", ")
}

// outside reports whether samples are in lines that the text does not have.
func (l *listing) outside() bool {
	for number := range l.lines {
		if _, ok := l.source.Text.line(number); number > 0 && !ok {
			return true
		}
	}
	return false
}

// most returns the line with the most in itself and in native code; 0 if there is none.
func (l *listing) most() int {
	best := 0
	for number, line := range l.lines {
		if number > 0 && (best == 0 || line.native > l.lines[best].native || line.native == l.lines[best].native && number < best) {
			best = number
		}
	}
	return best
}

// counts returns the first three columns.
func (t table) counts(c count) string {
	return fmt.Sprintf("%s %s %s", t.cell(c.self, 13), t.cell(c.native, 14), t.cell(c.total, 14))
}

// cell returns a value and its share in so many columns; a dot for nothing.
func (t table) cell(value uint64, width int) string {
	if value == 0 {
		return fmt.Sprintf("%*s", width, ".")
	}
	return fmt.Sprintf("%*s %5.1f%%", width-7, t.value.short(value), percent(value, t.total))
}

func (t table) listingLine(l *listing, number int, most bool) {
	var c lineCount
	attribute := dim
	if line := l.lines[number]; line != nil {
		c, attribute = *line, ""
	}
	if most {
		attribute = bold
	}
	text, _ := l.source.Text.line(number)
	room := max(cmp.Or(t.o.Width, annotateColumns)-annotateNumbers-2, topName)
	text = printable.String(excerpt(text, c.column(), room))
	line := strings.TrimRight(fmt.Sprintf("%s %6d  %s", t.counts(c.count), number, text), " ")
	fmt.Fprintln(t, t.paint(attribute, line))
}

// excerpt returns at most limit characters of a line. Of a longer one, as in a minified
// script, it is the part in which a column, from 1 in UTF-16 units, is.
func excerpt(line string, column, limit int) string {
	if utf8.RuneCountInString(line) <= limit {
		return line
	}
	start := afterUnits(line, column-1-annotateBefore)
	text := cut(line[start:min(len(line), start+utf8.UTFMax*(limit+1))], limit)
	if start > 0 {
		return "…" + text
	}
	return text
}

// afterUnits returns the offset in a text after so many UTF-16 units.
func afterUnits(text string, units int) int {
	for i, r := range text {
		if units <= 0 {
			return i
		}
		units -= max(1, utf16.RuneLen(r))
	}
	return len(text)
}
