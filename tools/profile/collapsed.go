package profile

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"ustack/symbolize"
)

// writeCollapsed writes a line for each distinct stack: its Labels from root to
// leaf, and its value, as in "main;outer;inner 42". Kernel functions end in "_[k]", as in
// perf's tools. A semicolon within a Label becomes a colon.
func writeCollapsed(w io.Writer, p *Profile, _ Options) error {
	return collapse(w, p, folding{separator: ";", instead: ":"})
}

// writeStackvis writes the same with commas, at which npm's stackvis splits
// collapsed stacks. A comma within a Label becomes a semicolon.
func writeStackvis(w io.Writer, p *Profile, _ Options) error {
	return collapse(w, p, folding{separator: ",", instead: ";"})
}

// A folding says what separates the frames of a line, and what replaces the
// separator within a frame.
type folding struct{ separator, instead string }

func collapse(w io.Writer, p *Profile, fold folding) error {
	counts := map[string]uint64{}
	for _, s := range p.rooted().Stacks {
		var labels []string
		for _, f := range slices.Backward(s.frames()) {
			labels = append(labels, strings.ReplaceAll(foldedLabel(f), fold.separator, fold.instead))
		}
		counts[strings.Join(labels, fold.separator)] += s.Value
	}
	return lines(w, func(b *bufio.Writer) {
		for _, stack := range slices.Sorted(maps.Keys(counts)) {
			fmt.Fprintf(b, "%s %d\n", stack, counts[stack])
		}
	})
}

func foldedLabel(f symbolize.Frame) string {
	if f.Kind == symbolize.Kernel {
		return Label(f) + "_[k]"
	}
	return Label(f)
}
