package jscore

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"ustack/symbolize"
	"ustack/symbolize/v8"
	"ustack/symbolize/v8/stack"
	"ustack/symbolize/v8/value"
	"ustack/tools/profile"
)

// StackOptions say what to show of a stack.
type StackOptions struct {
	All      bool   // V8's own frames too, and every frame with its address
	Verbose  bool   // each JavaScript function's arguments and source
	Calls    bool   // receivers and arguments of inlined functions, too; implied by Verbose
	Lines    int    // of source before and after the executing line, if Verbose
	Tiers    bool   // the tier of each JavaScript function's code
	Function string // only JavaScript functions whose names contain this; empty: everything
}

// A StackText is a thread's stack, as jsstack shows it.
type StackText struct {
	TID       int          `json:"tid"`
	Frames    []*FrameText `json:"frames"`             // leaf first
	Awaiting  []*FrameText `json:"awaiting,omitempty"` // what awaits the function in which the stack began, nearest first
	Truncated bool         `json:"truncated,omitempty"`
	Broken    bool         `json:"broken,omitempty"` // it ended where no thread begins

	options StackOptions
}

// A FrameText is a frame of a stack.
type FrameText struct {
	symbolize.Frame // Line and Column are those that execute, if Executing

	FP        Address `json:"fp,omitempty"`
	PC        Address `json:"pc,omitempty"`
	Function  Address `json:"function,omitempty"` // JSFunction
	Executing bool    `json:"executing,omitempty"`
	// Where the function is defined, if Executing.
	DefinedLine   int `json:"defined_line,omitempty"`
	DefinedColumn int `json:"defined_column,omitempty"`

	Construct bool            `json:"construct,omitempty"` // called by new or super
	This      *Brief          `json:"this,omitempty"`
	Arguments []Brief         `json:"arguments,omitempty"`
	Count     int             `json:"argument_count,omitempty"` // as passed by the caller
	Variables []FrameVariable `json:"variables,omitempty"`      // if Verbose
	Source    []Line          `json:"source,omitempty"`
	Trouble   string          `json:"trouble,omitempty"`

	named int // parameters among the variables; those arguments need no number
}

// JSStack returns the stack of a thread.
func (d *Dump) JSStack(t stack.Thread, o StackOptions) *StackText {
	stack := d.Stack(t)
	s := &StackText{TID: t.TID, Truncated: stack.Truncated, Broken: stack.Broken, options: o}
	s.Frames, s.Awaiting = d.frameTexts(stack.Frames, o), d.frameTexts(stack.Awaiting, o)
	return s
}

func (d *Dump) frameTexts(frames []stack.Frame, o StackOptions) []*FrameText {
	texts := []*FrameText{}
	for _, f := range frames {
		if o.Function == "" || f.Kind == symbolize.JS && strings.Contains(f.Name, o.Function) {
			texts = append(texts, d.frameText(f, o))
		}
	}
	return texts
}

// A StackList is the stacks of several threads.
type StackList []*StackText

// JSStacks returns the stacks of all threads.
func (d *Dump) JSStacks(o StackOptions) StackList {
	stacks := StackList{}
	for _, t := range d.selectedThreads() {
		stacks = append(stacks, d.JSStack(t, o))
	}
	return stacks
}

// WriteText writes the stacks, each below its thread's number.
func (l StackList) WriteText(w io.Writer) error {
	for _, s := range l {
		if _, err := fmt.Fprintf(w, "thread %d:\n", s.TID); err != nil {
			return err
		}
		if err := s.WriteText(w); err != nil {
			return err
		}
	}
	return nil
}

// Addresses returns the functions that are shown.
func (l StackList) Addresses() []v8.Value {
	var values []v8.Value
	for _, s := range l {
		values = append(values, s.Addresses()...)
	}
	return values
}

func (d *Dump) frameText(f stack.Frame, o StackOptions) *FrameText {
	t := &FrameText{
		Frame: f.Frame, FP: Address(f.FP), PC: Address(f.PC), Function: Address(f.Call.Function),
		Construct: f.Construct,
	}
	if f.ExecutingLine > 0 {
		t.DefinedLine, t.DefinedColumn = t.Line, t.Column
		t.Line, t.Column, t.Executing = f.ExecutingLine, f.ExecutingColumn, true
	}
	if f.Trouble != nil {
		t.Trouble = strings.ReplaceAll(f.Trouble.Error(), "\n", "; ")
	}
	if f.HasCall && d.v8.Heap != nil {
		t.This, t.Count = d.this(f), f.Call.Count
		for _, argument := range f.Call.Arguments {
			t.Arguments = append(t.Arguments, value.BriefOf(d.v8.Heap, argument))
		}
	}
	if (o.Verbose || o.Calls) && f.Inlined && d.v8.Heap != nil {
		t.addCall(d, f)
	}
	if o.Verbose && f.Generator != 0 && d.v8.Heap != nil {
		t.This = d.this(f)
	}
	if o.Verbose {
		t.Variables, t.named = d.frameVariables(f)
		t.Source = d.sourceAround(f, t.scriptLine(), o.Lines)
	}
	return t
}

// scriptLine returns the frame's line in the script itself; 0 if not known.
func (f *FrameText) scriptLine() int {
	return cmp.Or(f.GeneratedExecutingLine, f.GeneratedLine, f.Line)
}

// sourceAround returns the lines around a line of the frame's script.
func (d *Dump) sourceAround(f stack.Frame, line, around int) []Line {
	if f.Script == 0 || around <= 0 || d.v8.Heap == nil || line == 0 {
		return nil
	}
	function, err := d.Function(f.Call.Function)
	if err != nil || function.Script != uint64(f.Script) { // an inlined one has no function on the stack
		if function, err = d.Heap().FunctionOf(f.Shared); err != nil {
			return nil
		}
	}
	lines, err := d.scriptLines(function)
	script := d.Script(function)
	if err != nil || script.Source == nil {
		return nil
	}
	first, _ := script.Source.Position(0)
	var near []Line
	for i, text := range lines {
		if n := first + i; n >= line-around && n <= line+around {
			near = append(near, Line{n, text})
		}
	}
	return near
}

// WriteText writes the frames, leaf first.
func (s *StackText) WriteText(w io.Writer) error {
	var b strings.Builder
	elided := 0
	end := func() {
		switch {
		case elided == 1:
			b.WriteString("        (1 internal frame elided)\n")
		case elided > 1:
			fmt.Fprintf(&b, "        (%d internal frames elided)\n", elided)
		}
		elided = 0
	}
	for _, f := range s.Frames {
		if f.Kind == symbolize.Typed && !s.options.All {
			elided++
			continue
		}
		end()
		kind := f.Kind
		if kind == symbolize.Builtin {
			kind = symbolize.JS
		}
		f.write(&b, kind.String(), s.options)
	}
	end()
	for _, f := range s.Awaiting {
		f.write(&b, "await", s.options)
	}
	switch {
	case s.Truncated:
		b.WriteString("        (more frames than are followed)\n")
	case s.Broken:
		b.WriteString("        (the stack cannot be followed further)\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// write writes the frame's line, after what it is, and the requested details.
func (f *FrameText) write(b *strings.Builder, what string, o StackOptions) {
	const width = 80
	line := fmt.Sprintf("%-7s %s", what+":", f.title(o))
	if o.All {
		line = fmt.Sprintf("%12s %12s %s", f.FP, f.PC, f.title(o))
		if f.Function != 0 {
			line += fmt.Sprintf(" (%s)", f.Function)
		}
	} else if f.Kind == symbolize.Native {
		line = shortened(line, width)
	}
	b.WriteString(line + "\n")
	if f.Trouble != "" {
		fmt.Fprintf(b, "          <bad>: %s\n", f.Trouble)
	}
	if o.Verbose {
		f.writeDetails(b)
	}
}

// title names the frame.
func (f *FrameText) title(o StackOptions) string {
	name := f.Name
	if f.Construct {
		name = "new " + name
	}
	var notes []string
	if f.Inlined {
		notes = append(notes, "inlined")
	}
	if o.Tiers && f.Tier != symbolize.NoTier {
		notes = append(notes, f.Tier.String())
	}
	switch f.Kind {
	case symbolize.JS:
		file := cmp.Or(f.File, "evaluated code")
		if name += " at " + file; f.Line > 0 {
			name += " line " + f.line()
		}
	case symbolize.Builtin:
		notes = append(notes, "builtin")
	case symbolize.Typed:
	default:
		if name = profile.Qualified(f.Frame); f.Name != "" && f.Module != "" {
			name += fmt.Sprintf("+%#x", f.Offset)
		}
	}
	if len(notes) > 0 {
		name += " (" + strings.Join(notes, ", ") + ")"
	}
	return name
}

// line returns the frame's line, with ~ if it is the nearest one that is known.
func (f *FrameText) line() string { return symbolize.LineText(f.Line, f.Executing && f.Nearest) }

// writeDetails writes arguments and source, as mdb_v8 does.
func (f *FrameText) writeDetails(b *strings.Builder) {
	const margin = "          "
	if f.Kind == symbolize.JS && f.Line > 0 {
		what := "posn"
		if !f.Executing {
			what = "defined"
		}
		fmt.Fprintf(b, "%sfile: %s\n%s%s: line %s column %d\n", margin, f.File, margin, what, f.line(), f.Column)
		if f.Executing && f.DefinedLine > 0 {
			fmt.Fprintf(b, "%sdefined: line %d column %d\n", margin, f.DefinedLine, f.DefinedColumn)
		}
		if f.GeneratedFile != "" {
			fmt.Fprintf(b, "%sscript: %s line %d column %d\n", margin, f.GeneratedFile, f.scriptLine(), cmp.Or(f.GeneratedExecutingColumn, f.GeneratedColumn))
		}
	}
	if f.This != nil {
		fmt.Fprintf(b, "%sthis: %s (%v)\n", margin, f.This.Address, *f.This)
	}
	f.writeVariables(b, margin)
	for i, argument := range f.Arguments {
		if i < f.named {
			continue
		}
		fmt.Fprintf(b, "%sarg%d: %s\n", margin, i+1, addressed(argument))
	}
	if f.Count > len(f.Arguments) {
		fmt.Fprintf(b, "%s(%d more arguments)\n", margin, f.Count-len(f.Arguments))
	}
	if len(f.Source) > 0 {
		b.WriteByte('\n')
	}
	for _, l := range f.Source {
		mark := " "
		if l.Number == f.scriptLine() {
			mark = ">"
		}
		b.WriteString(strings.TrimRight(fmt.Sprintf("%s%s%5d %s", margin, mark, l.Number, l.Text), " ") + "\n")
	}
	if len(f.Source) > 0 {
		b.WriteByte('\n')
	}
}

// Addresses returns the functions that are shown.
func (s *StackText) Addresses() []v8.Value {
	var values []v8.Value
	for _, f := range slices.Concat(s.Frames, s.Awaiting) {
		if f.Function != 0 {
			values = append(values, v8.Value(f.Function))
		}
	}
	return values
}
