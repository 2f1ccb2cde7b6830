package profile

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"

	"ustack/symbolize"
	"ustack/tools/printable"
)

// dtraceIndent is the blanks that DTrace prints before each frame of a stack.
const dtraceIndent = 14

// writeDTrace writes what DTrace prints for
//
//	profile-97 { @[jstack()] = count(); } tick-10s { exit(0); }
//
// or, of other values than samples, for sum(). Stacks are in order of their
// values, the largest last, frames leaf first:
//
//	JavaScript     name at file line 12
//	WebAssembly    name at url
//	native         module`name+0x1c
//	without name   module`0x7a1c
//	typed          << entry >>
//
// Readers such as stackvis skip the three lines of the heading, cut a frame at
// "+", and at "(" or "<" behind its second character. So that a JavaScript frame
// and a regular expression stay whole, "+" in it becomes "_", and those brackets "[" and "]".
func writeDTrace(w io.Writer, p *Profile, _ Options) error {
	counts := map[string]uint64{}
	for _, s := range p.Stacks {
		var stack strings.Builder
		for _, f := range s.frames() {
			fmt.Fprintf(&stack, "%*s%s\n", dtraceIndent, "", dtraceFrame(f))
		}
		counts[stack.String()] += s.Value
	}
	stacks := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[a], counts[b]), strings.Compare(a, b))
	})
	return lines(w, func(b *bufio.Writer) {
		seconds := max(1, int(p.Duration.Seconds()+0.5))
		fmt.Fprintf(b, "%3s %6s %32s\n", "CPU", "ID", "FUNCTION:NAME")
		fmt.Fprintf(b, "%3d %6d %32s \n\n", 0, 1, fmt.Sprintf(":tick-%ds", seconds))
		for _, stack := range stacks {
			fmt.Fprintf(b, "\n%s %16d\n", stack, counts[stack])
		}
	})
}

func dtraceFrame(f symbolize.Frame) string {
	if f.Module != "" {
		f.Module = strings.Trim(path.Base(f.Module), "[]")
	}
	switch {
	case f.Kind == symbolize.JS, f.Kind == symbolize.Wasm && f.File != "":
		return uncut(name(f) + " at " + dtracePlace(f))
	case f.Kind == symbolize.Typed:
		return "<< " + strings.Trim(name(f), "<> ") + " >>"
	case f.Kind == symbolize.RegExp, f.Kind == symbolize.Runtime:
		return uncut(name(f))
	case f.Module == "":
		return name(f)
	case f.Name == "":
		return fmt.Sprintf("%s`%#x", printable.String(f.Module), f.Offset)
	case f.Offset == 0:
		return Qualified(f)
	}
	return fmt.Sprintf("%s+%#x", Qualified(f), f.Offset)
}

func dtracePlace(f symbolize.Frame) string {
	switch {
	case f.File == "":
		return "[no file]"
	case f.Line <= 0:
		return printable.String(f.File)
	}
	return fmt.Sprintf("%s line %d", printable.String(f.File), f.Line)
}

// uncut replaces what a reader would cut a frame at. A closing bracket is
// replaced if its opening one was.
func uncut(frame string) string {
	b := []byte(frame)
	open := 0
	for i, c := range b {
		switch {
		case c == '+':
			b[i] = '_'
		case (c == '(' || c == '<') && i >= 2:
			b[i] = '['
			open++
		case (c == ')' || c == '>') && open > 0:
			b[i] = ']'
			open--
		}
	}
	return string(b)
}
