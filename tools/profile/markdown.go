package profile

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"ustack/symbolize"
	"ustack/tools/printable"
)

// What a report lists by default, and how long a path may be.
const (
	reportRows = 20 // functions
	reportTops = 10 // lines, and paths
	pathFrames = 12
	cellWidth  = 80 // characters of a name
)

// writeMarkdown writes a report: a summary, and for each process the functions with the
// most samples, their lines, and the paths to them.
func writeMarkdown(w io.Writer, p *Profile, o Options) error {
	return lines(w, func(b *bufio.Writer) {
		m := report{b, o, o.Native || p.jsOnly || !p.hasProgram(), p.Total, p.ValueType}
		fmt.Fprintf(m, "# %s\n\n%s\n", o.title(p), p.summary())
		if !p.jsOnly {
			fmt.Fprintf(m, "\n%s\n", strings.Join(strings.Fields(byCategory(p)), " "))
		}
		if losses := p.losses(); losses != "" {
			fmt.Fprintf(m, "\nIncomplete: %s\n", losses)
		}
		parts := p.processes()
		if len(parts) < 2 {
			m.sections("##", p.Stacks)
			return
		}
		for _, part := range parts {
			fmt.Fprintf(m, "\n## %s: %.1f%%\n", code(part.Process.String()), percent(part.total, p.Total))
			m.sections("###", part.stacks)
		}
	})
}

// A report writes Markdown; total is what percentages refer to.
type report struct {
	*bufio.Writer
	o     Options
	all   bool // functions; only the program's otherwise
	total uint64
	value ValueType
}

// sections writes what there is to say about the stacks of one process.
func (m report) sections(level string, stacks []Stack) {
	m.functions(level, stacks)
	m.lines(level, stacks)
	m.paths(level, stacks)
}

// functions writes a table of functions like that of writeTop.
func (m report) functions(level string, stacks []Stack) {
	title, count := "self + native | self", programs
	if m.all {
		title, count = "self", functions
	}
	rows := count(stacks)
	files := shortFiles(rows)
	fmt.Fprintf(m, "\n%s Functions\n\n| %s | total | function | defined at |\n|%s--:|:--|:--|\n", level, title, strings.Repeat("--:|", strings.Count(title, "|")+1))
	shown := slices.DeleteFunc(slices.Clone(rows), func(r row) bool { return percent(r.total, m.total) < m.o.MinPercent })
	shown = first(shown, cmp.Or(m.o.Rows, reportRows))
	for _, r := range shown {
		fmt.Fprintf(m, "| %s | %.1f%% | %s | %s |\n", m.values(r), percent(r.total, m.total), cell(shortName(r.frame)), cell(definedAt(files, r.frame)))
	}
	if hidden := len(rows) - len(shown); hidden > 0 {
		fmt.Fprintf(m, "\n%s not shown.\n", plural(uint64(hidden), "function"))
	}
}

// values returns the cells of a row before that of its total.
func (m report) values(r row) string {
	switch {
	case m.all:
		return m.amount(r.self)
	case r.group:
		return m.amount(r.native) + " | "
	}
	return fmt.Sprintf("%s | %.1f%%", m.amount(r.native), percent(r.self, m.total))
}

// amount returns a value and its share.
func (m report) amount(n uint64) string {
	return fmt.Sprintf("%s, %.1f%%", m.value.short(n), percent(n, m.total))
}

// lines writes the lines that execute most, in the functions that native code works for too.
func (m report) lines(level string, stacks []Stack) {
	values := map[symbolize.Frame]uint64{}
	for _, s := range stacks {
		if n := nativeRun(s.Frames); n < len(s.Frames) && s.Frames[n].ExecutingLine > 0 {
			f := function(s.Frames[n])
			f.ExecutingLine, f.Nearest = s.Frames[n].ExecutingLine, s.Frames[n].Nearest
			values[f] += s.Value
		}
	}
	if len(values) == 0 {
		return
	}
	hottest := slices.SortedFunc(maps.Keys(values), func(a, b symbolize.Frame) int {
		return cmp.Or(cmp.Compare(values[b], values[a]), compareFrames(a, b), cmp.Compare(a.ExecutingLine, b.ExecutingLine))
	})
	fmt.Fprintf(m, "\n%s Lines\n\n| self + native | line | in function |\n|--:|:--|:--|\n", level)
	for _, f := range first(hottest, reportTops) {
		line := printable.String(f.File) + ":" + symbolize.LineText(f.ExecutingLine, f.Nearest)
		fmt.Fprintf(m, "| %s | %s | %s |\n", m.amount(values[f]), cell(line), cell(shortName(f)))
	}
}

// paths writes the call paths with the most samples, from the thread's start on, with one
// word for native work.
func (m report) paths(level string, stacks []Stack) {
	values, c := map[string]uint64{}, classifier{}
	for _, s := range stacks {
		values[callPath(c.fold(s.frames()))] += s.Value
	}
	hottest := slices.SortedFunc(maps.Keys(values), func(a, b string) int {
		return cmp.Or(cmp.Compare(values[b], values[a]), cmp.Compare(a, b))
	})
	fmt.Fprintf(m, "\n%s Paths\n\n", level)
	for i, p := range first(hottest, reportTops) {
		fmt.Fprintf(m, "%d. %s: %s\n", i+1, m.amount(values[p]), code(p))
	}
}

// callPath returns the names of frames, caller first; of a long one, the innermost.
func callPath(frames []symbolize.Frame) string {
	var names []string
	if len(frames) > pathFrames {
		frames, names = frames[:pathFrames], []string{"…"}
	}
	for _, f := range slices.Backward(frames) {
		names = append(names, cutFront(shortName(f), cellWidth))
	}
	return strings.Join(names, " → ")
}

// definedAt returns where a function is defined; empty if that is not known.
func definedAt(files map[string]string, f symbolize.Frame) string {
	if f.Kind == symbolize.JS && f.File != "" {
		return printable.String(files[f.File]) + position(f)
	}
	return ""
}

// first returns the first elements of a list, all if limit is negative.
func first[T any](list []T, limit int) []T {
	if limit < 0 {
		return list
	}
	return list[:min(len(list), limit)]
}

// cell returns text as code in a table, where a bar would end it.
func cell(text string) string {
	return strings.ReplaceAll(code(cutFront(text, cellWidth)), "|", `\|`)
}

// code returns text as Markdown shows code: its fences are longer than any in the text.
func code(text string) string {
	if text == "" {
		return ""
	}
	fence := "`"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	if len(fence) > 1 || strings.HasPrefix(text, " ") {
		return fence + " " + text + " " + fence
	}
	return fence + text + fence
}
