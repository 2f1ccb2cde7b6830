package flamegraph

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"slices"
	"unicode/utf8"

	"ustack/symbolize"
)

const (
	topRows    = 30
	topColumns = 80
	topNumbers = 34 // columns before a function's name
	topName    = 16 // columns that a name keeps beside a long place
)

// A row is one function, whatever called it and whatever tier it ran in.
type row struct {
	frame       symbolize.Frame
	self, total uint64 // total counts a stack once, however often the function is on it
}

// writeTop writes a table of functions, the one with most samples of its own first.
func writeTop(w io.Writer, p *Profile, o Options) error {
	rows, total := functions(p.Stacks), p.total()
	shown := slices.DeleteFunc(slices.Clone(rows), func(r row) bool {
		return percent(r.total, total) < o.MinPercent
	})
	if limit := cmp.Or(o.Rows, topRows); limit > 0 && len(shown) > limit {
		shown = shown[:limit]
	}
	return lines(w, func(b *bufio.Writer) {
		t := table{b, o, total}
		t.heading(p)
		for _, r := range shown {
			t.row(r)
		}
		t.footing(p, rows, shown)
	})
}

// functions counts the functions of stacks, most self samples first.
func functions(stacks []Stack) []row {
	index := map[symbolize.Frame]int{}
	var rows []row
	var last []int // by row: the stack, from 1, that was last counted in its total
	for i, s := range stacks {
		for depth, f := range s.frames() {
			f = function(f)
			n, ok := index[f]
			if !ok {
				n = len(rows)
				index[f] = n
				rows, last = append(rows, row{frame: f}), append(last, 0)
			}
			if depth == 0 {
				rows[n].self += s.Count
			}
			if last[n] != i+1 {
				rows[n].total += s.Count
				last[n] = i + 1
			}
		}
	}
	slices.SortFunc(rows, func(a, b row) int {
		return cmp.Or(cmp.Compare(b.self, a.self), cmp.Compare(b.total, a.total), compareFrames(a.frame, b.frame))
	})
	return rows
}

// A table draws rows; total is what shares are of.
type table struct {
	*bufio.Writer
	o     Options
	total uint64
}

func (t table) heading(p *Profile) {
	fmt.Fprintln(t, t.paint(bold, p.summary()))
	fmt.Fprintln(t)
	fmt.Fprintln(t, t.paint(dim, fmt.Sprintf("%8s %6s %9s %6s  %s", "SELF", "", "TOTAL", "", "FUNCTION")))
}

func (t table) row(r row) {
	fmt.Fprintf(t, "%8d %5.1f%% %9d %5.1f%%  ",
		r.self, percent(r.self, t.total), r.total, percent(r.total, t.total))
	width := max(topName, cmp.Or(t.o.Width, topColumns)-topNumbers)
	name, place := name(r.frame), shortPlace(r.frame)
	if r.frame.Kind == symbolize.Builtin {
		place = "builtin"
	}
	if r.frame.Name == "" && r.frame.Kind != symbolize.JS {
		place = "" // the name is the module and an address in it
	}
	beside := utf8.RuneCountInString(place) + 2
	if place != "" && beside+min(utf8.RuneCountInString(name), topName) <= width {
		name = cut(name, width-beside)
		fmt.Fprintf(t, "%s  %s\n", t.paint(kindColors[r.frame.Kind], name), t.paint(dim, place))
		return
	}
	fmt.Fprintln(t, t.paint(kindColors[r.frame.Kind], cut(name, width)))
}

func (t table) footing(p *Profile, rows, shown []row) {
	var self uint64
	for _, r := range shown {
		self += r.self
	}
	hidden, losses := len(rows)-len(shown), p.losses()
	if hidden > 0 || losses != "" {
		fmt.Fprintln(t)
	}
	if hidden > 0 {
		fmt.Fprintf(t, "%s not shown, with %.1f%% of the samples in themselves\n",
			plural(uint64(hidden), "function"), percent(t.total-self, t.total))
	}
	if losses != "" {
		fmt.Fprintln(t, t.paint(warn, losses))
	}
}

// Terminal attributes (ECMA-48, SGR).
const (
	bold = "1"
	dim  = "2"
	warn = "33"
)

var kindColors = map[symbolize.Kind]string{
	symbolize.JS: "36", symbolize.Builtin: "32", symbolize.Typed: "2", symbolize.Kernel: "35",
}

func (t table) paint(attribute, text string) string {
	if !t.o.Color || attribute == "" {
		return text
	}
	return "\x1b[" + attribute + "m" + text + "\x1b[0m"
}
