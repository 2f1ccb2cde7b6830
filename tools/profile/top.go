package profile

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"maps"
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
	topWorks   = 8  // kinds of native work listed
	topRuntime = 5  // rows for what V8 does below a function
)

// A row is one function, regardless of its callers and tiers, or a group of
// stacks without any of the program's functions.
type row struct {
	frame  symbolize.Frame
	group  bool
	self   uint64 // the value of stacks whose leaf it is
	native uint64 // of stacks with only native frames, if any, from it to the leaf
	total  uint64 // of stacks that it is on, each counted once

	runtime map[symbolize.Frame]uint64 // of native: what V8 does, if Runtime has put that in
}

// does adds what V8 does in a stack that is in r's native value.
func (r *row) does(s Stack) {
	if f := s.frames()[0]; f.Kind == symbolize.Runtime {
		if r.runtime == nil {
			r.runtime = map[symbolize.Frame]uint64{}
		}
		r.runtime[f] += s.Value
	}
}

// writeTop writes a table of the program's functions with the native work that
// each causes, the one with the most of both first; or of all functions, if the
// options say so or the program has none, the one with the most self samples
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

// A counter counts rows.
type counter struct {
	rows  []row
	last  []int // by row: the stack, from 1, that was last counted in its total
	index map[symbolize.Frame]int
}

// row returns the row of f. The pointer is valid until the next call.
func (c *counter) row(f symbolize.Frame) *row {
	n, ok := c.index[f]
	if !ok {
		n = len(c.rows)
		c.index[f] = n
		c.rows, c.last = append(c.rows, row{frame: f}), append(c.last, 0)
	}
	return &c.rows[n]
}

// count adds the i-th stack to the totals of the functions on it.
func (c *counter) count(i int, value uint64, f symbolize.Frame) {
	r := c.row(f)
	if n := c.index[f]; c.last[n] != i+1 {
		r.total += value
		c.last[n] = i + 1
	}
}

// functions counts the functions of stacks, most self samples first.
func functions(stacks []Stack) []row {
	c := counter{index: map[symbolize.Frame]int{}}
	for i, s := range stacks {
		frames := s.frames()
		for _, f := range frames {
			c.count(i, s.Value, function(f))
		}
		c.row(function(frames[0])).self += s.Value
	}
	slices.SortFunc(c.rows, func(a, b row) int {
		return cmp.Or(cmp.Compare(b.self, a.self), cmp.Compare(b.total, a.total), compareFrames(a.frame, b.frame))
	})
	return c.rows
}

// programs counts the program's functions of stacks, and groups of stacks
// without any: each stack is in the native value of exactly one row. Those with
// the most come first.
func programs(stacks []Stack) []row {
	c, known := counter{index: map[symbolize.Frame]int{}}, classifier{}
	for i, s := range stacks {
		frames := s.frames()
		n := nativeRun(frames)
		if n == len(frames) {
			r := c.row(known.group(frames))
			r.group = true
			r.native, r.total = r.native+s.Value, r.total+s.Value
			r.does(s)
			continue
		}
		for _, f := range frames {
			if ofProgram(f) {
				c.count(i, s.Value, function(f))
			}
		}
		r := c.row(function(frames[n]))
		r.native += s.Value
		r.does(s)
		if n == 0 {
			r.self += s.Value
		}
	}
	slices.SortFunc(c.rows, func(a, b row) int {
		return cmp.Or(cmp.Compare(b.native, a.native), cmp.Compare(b.total, a.total), compareFrames(a.frame, b.frame))
	})
	return c.rows
}

// nativeWork returns a line with the most common kinds of work that native code does
// for the program's functions; it is empty if there is none.
func (t table) nativeWork(stacks []Stack) string {
	values, known := map[string]uint64{}, classifier{}
	for _, s := range stacks {
		if n := nativeRun(s.Frames); n > 0 && n < len(s.Frames) {
			values[shortName(known.work(s.Frames[:n]))] += s.Value
		}
	}
	labels := slices.SortedFunc(maps.Keys(values), func(a, b string) int {
		return cmp.Or(cmp.Compare(values[b], values[a]), cmp.Compare(a, b))
	})
	var line strings.Builder
	for _, label := range labels[:min(len(labels), topWorks)] {
		next := fmt.Sprintf("  %s %.1f%%", label, percent(values[label], t.total))
		if utf8.RuneCountInString(line.String()+next) > t.columns()-len(worksHeading) {
			break
		}
		line.WriteString(next)
	}
	if line.Len() == 0 {
		return ""
	}
	return worksHeading + line.String()
}

const worksHeading = "Native:"

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
	all   bool // functions; only the program's otherwise
	rows  []row
	total uint64
	value ValueType
	files map[string]string // as they are shown
}

func newTable(b *bufio.Writer, p *Profile, o Options) table {
	all, count := o.Native || p.jsOnly || !p.hasProgram(), programs
	if all {
		count = functions
	}
	rows := count(p.Stacks)
	return table{b, o, all, rows, p.Total, p.ValueType, shortFiles(rows)}
}

func (t table) columns() int { return cmp.Or(t.o.Width, topColumns) }

// functions draws the rows of p's functions.
func (t table) functions(p *Profile) {
	room := cmp.Or(t.o.Rows, topRows)
	if room < 0 {
		room = len(t.rows)
	}
	shown := slices.DeleteFunc(slices.Clone(t.rows), func(r row) bool {
		if r.group || percent(r.total, t.total) < t.o.MinPercent {
			return !r.group
		}
		room--
		return room < 0
	})
	fmt.Fprintln(t)
	fmt.Fprintln(t, t.paint(dim, t.header()))
	for _, r := range shown {
		t.row(r)
		t.runtime(r)
	}
	t.footing(p, t.rows, shown)
}

func (t table) heading(p *Profile) {
	fmt.Fprintln(t, t.paint(bold, p.summary()))
	if !p.jsOnly {
		fmt.Fprintln(t, byCategory(p))
	}
	if line := t.nativeWork(p.Stacks); !t.all && line != "" {
		fmt.Fprintln(t, line)
	}
}

func (t table) header() string {
	if t.all {
		return fmt.Sprintf("%8s %6s %9s %6s  %s", "SELF", "", "TOTAL", "", "FUNCTION")
	}
	return fmt.Sprintf("%7s %16s %7s  %s", "SELF", "SELF+NATIVE", "TOTAL", "FUNCTION")
}

// numbers returns what is left of a row's name, topNumbers columns.
func (t table) numbers(r row) string {
	if t.all {
		return fmt.Sprintf("%8s %5.1f%% %9s %5.1f%%  ",
			t.value.short(r.self), percent(r.self, t.total), t.value.short(r.total), percent(r.total, t.total))
	}
	self := ""
	if !r.group {
		self = fmt.Sprintf("%.1f%%", percent(r.self, t.total))
	}
	return fmt.Sprintf("%7s %9s %5.1f%% %6.1f%%  ", self, t.value.short(r.native), percent(r.native, t.total), percent(r.total, t.total))
}

func (t table) row(r row) {
	fmt.Fprint(t, t.numbers(r))
	t.name(r.frame, topNumbers)
}

// name ends a line with a function's name and place, behind that many columns.
func (t table) name(f symbolize.Frame, numbers int) {
	width := max(topName, t.columns()-numbers)
	name, place := shortName(f), t.place(f)
	if room := width - 2 - min(utf8.RuneCountInString(name), topName); place != "" && room > 0 {
		place = cutFront(place, room)
		name = cutFront(name, width-2-utf8.RuneCountInString(place))
		fmt.Fprintf(t, "%s  %s\n", t.paint(kindColors[f.Kind], name), t.paint(dim, place))
		return
	}
	fmt.Fprintln(t, t.paint(kindColors[f.Kind], cutFront(name, width)))
}

// runtime draws a row for each thing that V8 does for r, with its part of SELF+NATIVE.
func (t table) runtime(r row) {
	frames := slices.SortedFunc(maps.Keys(r.runtime), func(a, b symbolize.Frame) int {
		return cmp.Or(cmp.Compare(r.runtime[b], r.runtime[a]), compareFrames(a, b))
	})
	for _, f := range frames[:min(len(frames), topRuntime)] {
		value := r.runtime[f]
		if percent(value, t.total) < t.o.MinPercent {
			return
		}
		fmt.Fprintf(t, "%7s %9s %5.1f%% %7s    %s\n", "", t.value.short(value), percent(value, t.total), "",
			t.paint(kindColors[f.Kind], cut(name(f), t.columns()-topNumbers)))
	}
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

// share returns the value of which all rows together have the profile's total.
func (t table) share(r row) uint64 {
	if t.all {
		return r.self
	}
	return r.native
}

func (t table) footing(p *Profile, rows, shown []row) {
	var sum uint64
	for _, r := range shown {
		sum += t.share(r)
	}
	inside := "in themselves"
	if !t.all {
		inside += " and native code"
	}
	hidden, losses := len(rows)-len(shown), p.losses()
	if hidden > 0 || losses != "" {
		fmt.Fprintln(t)
	}
	if hidden > 0 {
		fmt.Fprintf(t, "%s not shown, with %.1f%% of the %s %s\n",
			plural(uint64(hidden), "function"), percent(t.total-sum, t.total), t.value.noun(), inside)
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
	symbolize.Wasm: "95", symbolize.RegExp: "31", symbolize.Runtime: "34",
}

func (t table) paint(attribute, text string) string {
	if !t.o.Color || attribute == "" {
		return text
	}
	return "\x1b[" + attribute + "m" + text + "\x1b[0m"
}
