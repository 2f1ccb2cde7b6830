package nodesnoop

import (
	"slices"
	"syscall"
	"testing"
	"time"

	"ustack/symbolize"
	"ustack/testdata/nodetest"
	"ustack/tools/trace"
)

// runs reports whether a function is on a stack.
func runs(frames []symbolize.Frame, function string) bool {
	return slices.ContainsFunc(frames, func(f symbolize.Frame) bool { return f.Name == function })
}

// TestCollectionsHaveTheStackTheyInterrupt has one function allocate nearly everything. V8 also
// collects in tasks of its own, while no JavaScript runs.
func TestCollectionsHaveTheStackTheyInterrupt(t *testing.T) {
	const task = "node::PerIsolatePlatformData::RunForegroundTask"
	eachVersion(t, func(t *testing.T, node string) {
		target := nodetest.Start(t, node, nodetest.Options{Script: "collects.js", Flags: []string{"--expose-gc"}})
		w := begin(t, Options{Selection: trace.Selection{PIDs: []int{target.PID}}, Kinds: Kinds{GC: true}, Stacks: true})
		target.Signal(syscall.SIGUSR2)
		target.Line()
		by, others := make(map[string]int), 0
		for _, e := range w.end() {
			switch {
			case runs(e.Frames, "churn"):
				by[e.Collection]++
			case !runs(e.Frames, task):
				others++
				t.Logf("%s: %v", e.Collection, e.Frames)
			}
		}
		if by["scavenge"] == 0 || by["mark-compact"] == 0 || others > 1 { // the program's end allocates, too
			t.Errorf("collections by churn = %v, with another stack %d, want some of each kind and no more than one", by, others)
		}
	})
}

// TestLongIterationsHaveAStack has a function block event loops, on the main thread and on a worker.
func TestLongIterationsHaveAStack(t *testing.T) {
	eachVersion(t, func(t *testing.T, node string) {
		nodetest.NothingLeft(t, "on_loop_tick")
		target := nodetest.Start(t, node, nodetest.Options{Script: "blocks.js"})
		w := begin(t, Options{
			Selection: trace.Selection{PIDs: []int{target.PID}}, Kinds: Kinds{Loop: true}, Slower: 300 * time.Millisecond, Stacks: true,
		})
		target.Signal(syscall.SIGUSR2)
		target.Line()
		all, by := 0, 0
		for _, e := range w.end() {
			all++
			if runs(e.Frames, "block") {
				by++
			}
		}
		// An iteration that ends just when it is long, between two ticks, has none.
		if all < 4 || by*2 < all {
			t.Errorf("block is on %d of %d stacks, want most", by, all)
		}
		t.Logf("%d of %d", by, all)
	})
}
