package jsprof

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"ustack/symbolize"
	"ustack/testdata/nodetest"
	"ustack/testdata/nodetest/calls"
	"ustack/tools/trace"
)

// TestCalleeIsInnermostWhileItsFrameIsBuilt profiles a program that calls a tiny function
// all the time. V8's builtin builds the frame of each call: the function is the innermost
// from its first instruction on, and on the stack once.
func TestCalleeIsInnermostWhileItsFrameIsBuilt(t *testing.T) {
	nodetest.Root(t)
	versions := []string{"20.20.2", "24.21.0"}
	if matrix() {
		versions = nodetest.Versions
	}
	for _, version := range versions {
		t.Run(fmt.Sprintf("node%d", nodetest.Major(version)), func(t *testing.T) {
			nodetest.NothingLeft(t, programs...)
			flags := []string{"--sparkplug", "--always-sparkplug", "--no-opt"}
			if nodetest.Major(version) >= 20 {
				flags = append(flags, "--no-maglev")
			}
			target := calls.StartSource(t, version, `
function tiny(n) { return n + 1; }
function outer() { // is called once, so that only tiny's frames are built
  for (let i = 0; ;) i = tiny(i) & 0xffff;
}
console.log('ready');
outer();`, flags...)
			p := profileUntil(t, Options{Selection: trace.Selection{PIDs: []int{target.PID}}, Hz: 9973, Duration: time.Minute}, 20_000)
			var all, inside uint64
			wrong := make(map[string]uint64)
			for _, s := range p.Stacks {
				if s.TID != target.PID {
					continue
				}
				all += s.Value
				names := functionsOf(s.Frames)
				isInside := strings.Contains(s.Frames[0].Name, "BaselineOutOfLinePrologue")
				if isInside {
					inside += s.Value
				}
				if isInside && !slices.Equal(names, []string{"tiny", "outer"}) || len(names) > 2 {
					wrong[text(s.Frames)] += s.Value
				}
			}
			t.Logf("%d of %d samples are in the builtin", inside, all)
			if inside < 100 {
				t.Errorf("%d samples are in the builtin, want 100 or more", inside)
			}
			for stack, n := range wrong {
				t.Errorf("%d samples of\n%s", n, stack)
			}
		})
	}
}

// functionsOf returns which of the program's two functions are on a stack, leaf first.
func functionsOf(frames []symbolize.Frame) []string {
	var names []string
	for _, f := range frames {
		if f.Kind == symbolize.JS && (f.Name == "tiny" || f.Name == "outer") {
			names = append(names, f.Name)
		}
	}
	return names
}
