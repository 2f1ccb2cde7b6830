// Package live keeps what a profiler that is still running has sampled in the last seconds,
// as tables of functions, with their callers and callees, and what the event loop was doing.
package live

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"ustack/symbolize"
	"ustack/tools/profile"
)

// A Function is what samples are counted by.
type Function struct {
	Kind         symbolize.Kind
	Name, File   string
	Line, Column int
	Module       string
	Offset       uint64 // of code without a name
}

// of returns the function of a frame.
func of(f symbolize.Frame) Function {
	function := Function{Kind: f.Kind, Name: f.Name, File: f.File, Line: f.Line, Column: f.Column, Module: f.Module}
	if f.Name == "" {
		function.Offset = f.Offset
	}
	return function
}

// Frame returns the function as a frame, to be labelled.
func (f Function) Frame() symbolize.Frame {
	return symbolize.Frame{Kind: f.Kind, Name: f.Name, File: f.File, Line: f.Line, Column: f.Column, Module: f.Module, Offset: f.Offset}
}

// maxFunctions bounds the functions that a Window numbers: beyond, it begins again.
const maxFunctions = 1 << 16

// A Window is the samples of the last seconds.
type Window struct {
	span      time.Duration
	functions []Function
	numbers   map[Function]int
	parts     []part
}

// A part is the samples of one interval.
type part struct {
	start  time.Time
	length time.Duration
	all    []stack // without V8's typed frames
	js     []stack // with the program's own functions only
}

// A stack is numbers of functions, leaf first, with how often it was sampled.
type stack struct {
	functions []int
	count     uint64
}

// NewWindow returns a Window of that many seconds, or a little more.
func NewWindow(span time.Duration) *Window {
	return &Window{span: span, numbers: make(map[Function]int)}
}

// Add adds the samples of an interval, and drops those that are too old.
func (w *Window) Add(p *profile.Profile) {
	if len(w.functions) > maxFunctions {
		w.functions, w.numbers, w.parts = nil, make(map[Function]int), nil
	}
	added := part{start: p.Start, length: p.Duration}
	added.all = w.numbered(p.WithoutTyped())
	added.js = w.numbered(p.JSOnly())
	w.parts = append(w.parts, added)
	end := p.Start.Add(p.Duration)
	w.parts = slices.DeleteFunc(w.parts, func(old part) bool { return end.Sub(old.start.Add(old.length)) >= w.span })
}

func (w *Window) numbered(p *profile.Profile) []stack {
	stacks := make([]stack, len(p.Stacks))
	for i, s := range p.Stacks {
		functions := make([]int, len(s.Frames))
		for j, f := range s.Frames {
			functions[j] = w.number(of(f))
		}
		stacks[i] = stack{functions, s.Value}
	}
	return stacks
}

func (w *Window) number(f Function) int {
	n, ok := w.numbers[f]
	if !ok {
		n = len(w.functions)
		w.numbers[f] = n
		w.functions = append(w.functions, f)
	}
	return n
}

// Span returns the time that the samples are of.
func (w *Window) Span() time.Duration {
	var all time.Duration
	for _, p := range w.parts {
		all += p.length
	}
	return all
}

// A View says what a table has.
type View struct {
	JavaScript bool   // only the program's own functions, with the native code that they call
	BySelf     bool   // the functions with the most samples as the leaf first, not of all stacks
	Filter     string // only functions whose name or file has this, in any case
}

// A Row is a function with its samples.
type Row struct {
	Function
	Self, Total uint64
}

// A Table is functions with their samples.
type Table struct {
	Total uint64 // samples, of all functions
	Rows  []Row
}

// each calls f for each stack that a view has.
func (w *Window) each(v View, f func(stack)) {
	for _, p := range w.parts {
		stacks := p.all
		if v.JavaScript {
			stacks = p.js
		}
		for _, s := range stacks {
			f(s)
		}
	}
}

// Table returns the functions.
func (w *Window) Table(v View) Table {
	t := newTally(w)
	w.each(v, func(s stack) {
		t.table.Total += s.count
		t.stacks++
		for i, n := range s.functions {
			if i == 0 {
				t.row(n).Self += s.count
			}
			t.once(n, s.count)
		}
	})
	return t.done(v)
}

// Around returns a function's callers and callees. A caller's Total is the samples of the
// function that it called; a callee's those in which the function called it, of which it was
// the leaf in Self.
func (w *Window) Around(f Function, v View) (callers, callees Table) {
	n, ok := w.numbers[f]
	if !ok {
		return Table{}, Table{}
	}
	above, below := newTally(w), newTally(w)
	w.each(v, func(s stack) {
		if !slices.Contains(s.functions, n) {
			return
		}
		above.table.Total += s.count
		below.table.Total += s.count
		above.stacks++
		below.stacks++
		for i, at := range s.functions {
			if at != n {
				continue
			}
			if i+1 < len(s.functions) && s.functions[i+1] != n {
				above.once(s.functions[i+1], s.count)
			}
			if i > 0 && s.functions[i-1] != n {
				below.once(s.functions[i-1], s.count)
				if i == 1 {
					below.row(s.functions[0]).Self += s.count
				}
			}
		}
	})
	v.Filter, v.BySelf = "", false
	return above.done(v), below.done(v)
}

// A tally counts functions.
type tally struct {
	window *Window
	table  Table
	at     []int // in the table's rows, by the function's number, plus 1
	last   []int // the stack in which it was counted last
	stacks int
}

func newTally(w *Window) *tally {
	return &tally{window: w, at: make([]int, len(w.functions)), last: make([]int, len(w.functions))}
}

func (t *tally) row(n int) *Row {
	if t.at[n] == 0 {
		t.table.Rows = append(t.table.Rows, Row{Function: t.window.functions[n]})
		t.at[n] = len(t.table.Rows)
	}
	return &t.table.Rows[t.at[n]-1]
}

// once adds to a function's total, once for each stack.
func (t *tally) once(n int, count uint64) {
	if t.last[n] != t.stacks {
		t.last[n] = t.stacks
		t.row(n).Total += count
	}
}

// done returns the table as a view has it.
func (t *tally) done(v View) Table {
	rows := t.table.Rows
	if v.Filter != "" {
		wanted := strings.ToLower(v.Filter)
		rows = slices.DeleteFunc(rows, func(r Row) bool {
			return !strings.Contains(strings.ToLower(r.Name), wanted) && !strings.Contains(strings.ToLower(r.File+r.Module), wanted)
		})
	}
	slices.SortFunc(rows, func(a, b Row) int {
		first, second := cmp.Compare(b.Total, a.Total), cmp.Compare(b.Self, a.Self)
		if v.BySelf {
			first, second = second, first
		}
		return cmp.Or(first, second, cmp.Compare(a.Name, b.Name), cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line),
			cmp.Compare(a.Column, b.Column), cmp.Compare(a.Module, b.Module), cmp.Compare(a.Offset, b.Offset), cmp.Compare(a.Kind, b.Kind))
	})
	t.table.Rows = rows
	return t.table
}
