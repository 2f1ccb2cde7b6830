package profile

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"ustack/symbolize"
	"ustack/tools/printable"
)

const (
	topRows    = 30
	leastRows  = 5 // for each of several processes
	topColumns = 80
	topNumbers = 34 // columns before a function's name
	topName    = 16 // columns reserved for a name beside a long place
)

// A row is one function, regardless of its callers and tiers.
type row struct {
	frame       symbolize.Frame
	self, total uint64 // total counts a stack once, however often the function is on it
}

// writeTop writes a table of functions, the one with the most self samples
// first. With several processes, each has its own table.
func writeTop(w io.Writer, p *Profile, o Options) error {
	parts := p.processes()
	if len(parts) < 2 {
		return lines(w, func(b *bufio.Writer) {
			t := newTable(b, p, o)
			t.heading(p)
			t.functions(p)
		})
	}
	if limit := cmp.Or(o.Rows, topRows); limit > 0 {
		o.Rows = max(leastRows, limit/len(parts))
	}
	return lines(w, func(b *bufio.Writer) {
		whole := newTable(b, p, o)
		whole.heading(p)
		for _, part := range parts {
			alone := *p
			alone.Stacks, alone.Total, alone.UnknownFrames, alone.Truncated, alone.Throttled, alone.Lost = part.stacks, part.total, 0, 0, 0, 0
			fmt.Fprintf(b, "\n%s\n", whole.paint(bold, fmt.Sprintf("%.1f%%  %v", percent(part.total, whole.total), part.Process)))
			newTable(b, &alone, o).functions(&alone)
		}
		if losses := p.losses(); losses != "" {
			fmt.Fprintf(b, "\n%s\n", whole.paint(warn, losses))
		}
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
				rows[n].self += s.Value
			}
			if last[n] != i+1 {
				rows[n].total += s.Value
				last[n] = i + 1
			}
		}
	}
	slices.SortFunc(rows, func(a, b row) int {
		return cmp.Or(cmp.Compare(b.self, a.self), cmp.Compare(b.total, a.total), compareFrames(a.frame, b.frame))
	})
	return rows
}

// shortFiles returns the shortest end of each file's path that distinguishes it
// from all others. The name index.js alone would say nothing.
func shortFiles(rows []row) map[string]string {
	short, names := map[string]string{}, map[string]int{}
	for parts := 1; ; parts++ {
		clear(names)
		for _, r := range rows {
			if file := r.frame.File; file != "" && short[file] == "" {
				short[file] = lastParts(file, parts)
				names[short[file]]++
			}
		}
		if len(names) == 0 {
			return short
		}
		for file, name := range short { // longer ones for files that share a short one
			if (names[name] > 1 || strings.HasPrefix(name, "index.")) && name != file {
				delete(short, file)
			}
		}
	}
}

// lastParts returns the last elements of a path. It returns a URL or the name
// of a Node.js built-in whole, and a path that has no more elements than that.
func lastParts(path string, parts int) string {
	at := len(path)
	for range parts {
		if at = strings.LastIndexByte(path[:at], '/'); at < 0 || strings.Contains(path, ":") {
			return path
		}
	}
	return path[at+1:]
}

// A table draws rows; total is what percentages refer to.
type table struct {
	*bufio.Writer
	o     Options
	rows  []row
	total uint64
	value ValueType
	files map[string]string // as they are shown
}

func newTable(b *bufio.Writer, p *Profile, o Options) table {
	rows := functions(p.Stacks)
	return table{b, o, rows, p.Total, p.ValueType, shortFiles(rows)}
}

// functions draws the rows of p's functions.
func (t table) functions(p *Profile) {
	shown := slices.DeleteFunc(slices.Clone(t.rows), func(r row) bool {
		return percent(r.total, t.total) < t.o.MinPercent
	})
	if limit := cmp.Or(t.o.Rows, topRows); limit > 0 && len(shown) > limit {
		shown = shown[:limit]
	}
	fmt.Fprintln(t)
	fmt.Fprintln(t, t.paint(dim, fmt.Sprintf("%8s %6s %9s %6s  %s", "SELF", "", "TOTAL", "", "FUNCTION")))
	for _, r := range shown {
		t.row(r)
	}
	t.footing(p, t.rows, shown)
}

func (t table) heading(p *Profile) {
	fmt.Fprintln(t, t.paint(bold, p.summary()))
	if !p.jsOnly {
		fmt.Fprintln(t, byCategory(p))
	}
}

func (t table) row(r row) {
	fmt.Fprintf(t, "%8s %5.1f%% %9s %5.1f%%  ",
		t.value.short(r.self), percent(r.self, t.total), t.value.short(r.total), percent(r.total, t.total))
	width := max(topName, cmp.Or(t.o.Width, topColumns)-topNumbers)
	name, place := name(r.frame), t.place(r.frame)
	if room := width - 2 - min(utf8.RuneCountInString(name), topName); place != "" && room > 0 {
		place = cutFront(place, room)
		name = cutFront(name, width-2-utf8.RuneCountInString(place))
		fmt.Fprintf(t, "%s  %s\n", t.paint(kindColors[r.frame.Kind], name), t.paint(dim, place))
		return
	}
	fmt.Fprintln(t, t.paint(kindColors[r.frame.Kind], cutFront(name, width)))
}

// place says where a function is, as briefly as possible without ambiguity.
func (t table) place(f symbolize.Frame) string {
	switch {
	case f.Kind == symbolize.Builtin:
		return "builtin"
	case f.Kind == symbolize.JS && f.File != "":
		return printable.String(t.files[f.File]) + position(f)
	case f.Kind == symbolize.JS || f.Name == "": // without a name it is the module and an address in it
		return ""
	}
	return shortPlace(f)
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
		fmt.Fprintf(t, "%s not shown, with %.1f%% of the %s in themselves\n",
			plural(uint64(hidden), "function"), percent(t.total-self, t.total), t.value.noun())
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
	symbolize.Wasm: "95", symbolize.RegExp: "31",
}

func (t table) paint(attribute, text string) string {
	if !t.o.Color || attribute == "" {
		return text
	}
	return "\x1b[" + attribute + "m" + text + "\x1b[0m"
}
