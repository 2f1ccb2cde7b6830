package nodesnoop

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"syscall"
	"testing"
	"time"

	"ustack/testdata/nodetest"
	"ustack/tools/trace"
)

// collections are how many there were, and how long they took in all.
type collections struct {
	Count int
	MS    float64
}

// TestCollectionsAreThoseOfPerfHooks compares the number of collections of each kind, and
// the sum of their lengths, with what node's own observer has seen.
func TestCollectionsAreThoseOfPerfHooks(t *testing.T) {
	eachVersion(t, func(t *testing.T, node string) {
		// The thread may lose its CPU between the two places where the time is taken.
		const attempts = 3
		for attempt := 1; ; attempt++ {
			got, want := collect(t, node)
			t.Logf("seen %v, observed %v", got, want)
			apart := ""
			for _, kind := range []string{"scavenge", "mark-compact"} {
				g, o := got[kind], want[kind]
				if g.Count == 0 || g.Count != o.Count {
					t.Fatalf("%s: %d collections, want %d", kind, g.Count, o.Count)
				}
				if math.Abs(g.MS-o.MS) > 0.02*o.MS+0.05*float64(g.Count) {
					apart = fmt.Sprintf("%s: %.3f ms, want %.3f", kind, g.MS, o.MS)
				}
			}
			if apart == "" {
				return
			}
			if attempt == attempts {
				t.Fatalf("in each of %d attempts, lengths differ: %s", attempts, apart)
			}
		}
	})
}

// collect has a program collect garbage, and returns the collections by kind: those that were seen,
// and those that node's own observer has seen.
func collect(t *testing.T, node string) (got, observed map[string]collections) {
	t.Helper()
	target := nodetest.Start(t, node, nodetest.Options{Script: "collects.js", Flags: []string{"--expose-gc"}})
	w := begin(t, Options{Selection: trace.Selection{PIDs: []int{target.PID}}, Kinds: Kinds{GC: true}})
	target.Signal(syscall.SIGUSR2)
	text, _ := strings.CutPrefix(target.Line(), "collected")
	var said struct{ Seen map[string]collections }
	if err := json.Unmarshal([]byte(text), &said); err != nil {
		t.Fatal(err)
	}
	got = make(map[string]collections)
	for _, e := range w.end() {
		s := got[e.Collection]
		s.Count++
		s.MS += float64(e.Latency) / float64(time.Millisecond)
		got[e.Collection] = s
	}
	return got, said.Seen
}

// TestLongIterationsAreSeen has a program block its event loop, on the main thread and on a
// worker, and wait in between.
func TestLongIterationsAreSeen(t *testing.T) {
	eachVersion(t, func(t *testing.T, node string) { testIterations(t, node, Options{}) })
}

// TestCopiesOfProgramsSeeNoIterationTwice runs the programs as where threads are preempted in them.
func TestCopiesOfProgramsSeeNoIterationTwice(t *testing.T) {
	testIterations(t, prepare(t, anyVersion), Options{preempted: true})
}

func testIterations(t *testing.T, node string, o Options) {
	target := nodetest.Start(t, node, nodetest.Options{Script: "blocks.js"})
	o.PIDs, o.Kinds, o.Slower = []int{target.PID}, Kinds{Loop: true}, 300*time.Millisecond
	w := begin(t, o)
	target.Signal(syscall.SIGUSR2)
	if line := target.Line(); line != "blocked" {
		t.Fatalf("line = %q, want blocked", line)
	}
	threads := make(map[int]int)
	begun := make(map[time.Duration]int) // threads, by when they began an iteration
	for _, e := range w.end() {
		if e.Kind != LoopRun || e.PID != target.PID || e.Latency < 300*time.Millisecond {
			t.Errorf("event = %+v, want a long iteration", e)
		}
		if begun[e.Monotonic] == e.TID {
			t.Errorf("event = %+v, the second of an iteration", e)
		}
		begun[e.Monotonic] = e.TID
		threads[e.TID]++
	}
	if len(threads) != 2 || threads[target.PID] < 3 {
		t.Errorf("iterations by thread = %v, want 3 or more of %d and of another", threads, target.PID)
	}
}
