package profile

import (
	"strings"
	"testing"

	"ustack/symbolize"
)

// TestMarkdownKeepsTextInItsPlace has names that would end a cell or its code.
func TestMarkdownKeepsTextInItsPlace(t *testing.T) {
	p := &Profile{Total: 1, Stacks: []Stack{{Value: 1, PID: 1, Frames: []symbolize.Frame{
		{Kind: symbolize.JS, Name: "a`b|c``d", File: "/app/e|f.js", Line: 3, Column: 1, ExecutingLine: 4},
	}}}}
	got := write(t, "markdown", p, Options{})
	for _, want := range []string{
		"| 1, 100.0% | 100.0% | 100.0% | ``` a`b\\|c``d ``` | `e\\|f.js:3:1` |\n",
		"| 1, 100.0% | `/app/e\\|f.js:4` | ``` a`b\\|c``d ``` |\n",
		"1. 1, 100.0%: ``` a`b|c``d ```\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("report has no line %q:\n%s", want, got)
		}
	}
}

// TestMarkdownHasPartsForProcesses has two processes, and native functions too.
func TestMarkdownHasPartsForProcesses(t *testing.T) {
	p := &Profile{Total: 4, ValueType: ValueType{"page-faults", "count"}, Processes: []Process{{PID: 1, Title: "node 1 a.js"}, {PID: 2, Title: "node 2 b.js"}}}
	for i, value := range []uint64{3, 1} {
		p.Stacks = append(p.Stacks, Stack{Value: value, PID: i + 1, Frames: []symbolize.Frame{{Name: "memcpy"}, {Kind: symbolize.JS, Name: "copy"}}})
	}
	got := write(t, "markdown", p, Options{Native: true, Rows: 1})
	for _, want := range []string{
		"# Profile of page-faults\n", "4 page-faults", "\n## `node 1 a.js`: 75.0%\n", "\n## `node 2 b.js`: 25.0%\n",
		"### Functions\n\n| self | total |", "| 3, 75.0% | 75.0% | `memcpy` |  |\n\n1 function not shown.\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("report has no %q:\n%s", want, got)
		}
	}
}
