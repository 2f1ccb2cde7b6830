package jscore

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"ustack/testdata/nodetest"
	"ustack/testdata/nodetest/calls"
	"ustack/tools/core"
)

// someVersions are an old and a new Node.js; all of them under USTACK_MATRIX=1.
func someVersions() []string {
	if os.Getenv("USTACK_MATRIX") == "1" {
		return nodetest.Versions
	}
	return []string{"18.20.8", "26.10.0"}
}

// isolatesProgram has two workers, each with more Things, timers and sockets than the last.
const isolatesProgram = `const { Worker, isMainThread, parentPort, workerData } = require('worker_threads');
class Thing { constructor(i) { this.i = i; } }
const n = isMainThread ? 100 : workerData;
globalThis.kept = Array.from({ length: n }, (_, i) => new Thing(i));
setInterval(function tick() {}, 1e8 + n);
const server = require('net').createServer().listen(0, '127.0.0.1', () => {
  if (!isMainThread) return parentPort.postMessage('listens');
  let left = 2;
  for (const workerData of [2000, 30000]) {
    new Worker(__filename, { workerData }).on('message', () => --left || console.log('ready'));
  }
});
process.on('SIGTERM', () => process.exit());`

// TestIsolatesAreDistinguished counts what each of three isolates has: in all of the process, and
// in each isolate selected alone.
func TestIsolatesAreDistinguished(t *testing.T) {
	for _, version := range someVersions() {
		t.Run(fmt.Sprintf("node%d", nodetest.Major(version)), func(t *testing.T) {
			pid := calls.StartSource(t, version, isolatesProgram).PID
			path := filepath.Join(t.TempDir(), "core")
			if _, err := core.Write(t.Context(), pid, path, core.Options{}); err != nil {
				t.Fatal(err)
			}
			d := opened(t, path, Options{})
			isolates := d.V8Isolates()
			if len(isolates) != 3 || !d.Several() {
				t.Fatalf("isolates = %+v, want 3", isolates)
			}
			g, err := d.Graph(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			counts := g.isolateCounts(t)
			if got := slices.Sorted(slices.Values(counts)); !slices.Equal(got, []int{100, 2000, 30000}) {
				t.Fatalf("Things by isolate = %v, want 100, 2000 and 30000", counts)
			}
			for number, isolate := range isolates {
				if main := counts[number] == 100; isolate.Number != number || isolate.Main != main || slices.Contains(isolate.Threads, pid) != main {
					t.Errorf("isolate %d = %+v, want main = %v", number, isolate, main)
				}
				checkSelected(t, path, isolate, selectedWant{counts[number], g.Doubts.Collecting})
			}
			text := textOf(t, d.Status(), nil)
			if got := strings.Count(text, "\nisolate:  "); got != 3 || !strings.Contains(text, fmt.Sprintf("(main, thread %d)", pid)) {
				t.Errorf("status has %d isolates:\n%s", got, text)
			}
		})
	}
}

// isolateCounts returns how many Things each isolate has.
func (g *Graph) isolateCounts(t *testing.T) []int {
	t.Helper()
	d := g.dump
	counts := make([]int, len(d.Isolates()))
	for _, group := range g.Census(t.Context(), CensusOptions{Class: "Thing", ByHeap: true}).Groups {
		if group.Isolate == nil || group.Live != group.Count {
			t.Fatalf("group = %+v, want live objects of an isolate", group)
		}
		counts[*group.Isolate] += group.Count
	}
	handles, err := d.Handles(g)
	if err != nil {
		t.Fatal(err)
	}
	timers := d.Timers(g).Timers
	for number, count := range counts {
		if got := countOf(handles.Objects, number, func(o NodeObject) *int { return o.Isolate }); got == 0 {
			t.Errorf("isolate %d has no handles, want its server", number)
		}
		at := slices.IndexFunc(timers, func(t Timer) bool { return t.Isolate != nil && *t.Isolate == number })
		if at < 0 || timers[at].After != float64(1e8+count) {
			t.Errorf("timers = %+v, want one after %d ms of isolate %d", timers, int(1e8)+count, number)
		}
	}
	return counts
}

func countOf[T any](list []T, number int, isolate func(T) *int) (count int) {
	for _, element := range list {
		if n := isolate(element); n != nil && *n == number {
			count++
		}
	}
	return count
}

// A selectedWant is what a selected isolate should have.
type selectedWant struct {
	things     int
	collecting bool // so is another isolate, perhaps
}

// checkSelected selects an isolate by each of its names.
func checkSelected(t *testing.T, path string, isolate V8Isolate, want selectedWant) {
	t.Helper()
	names := []string{strconv.Itoa(isolate.Number), strconv.Itoa(isolate.Threads[0])}
	if isolate.Main {
		names = append(names, "main")
	}
	for _, name := range names {
		d := opened(t, path, Options{})
		if err := d.SelectIsolate(name); err != nil {
			t.Fatalf("select isolate %s: %v", name, err)
		}
		g, err := d.Graph(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		c := g.Census(t.Context(), CensusOptions{Class: "Thing"})
		if c.Count != want.things || c.Live != want.things || c.Isolates != nil || c.Doubts.Collecting && !want.collecting {
			t.Errorf("isolate %s: %d Things, %d live, doubts %+v, want %d", name, c.Count, c.Live, c.Doubts, want.things)
		}
		if timers := d.Timers(g).Timers; len(timers) != 1 || timers[0].After != float64(1e8+want.things) || timers[0].Isolate != nil {
			t.Errorf("isolate %s: timers = %+v, want one after %d ms", name, timers, int(1e8)+want.things)
		}
		if s := d.Status(); len(s.Isolates) != 1 || s.Isolates[0].Number != isolate.Number || s.Stack.TID != isolate.Threads[0] {
			t.Errorf("isolate %s: status of %+v and the stack of thread %d", name, s.Isolates, s.Stack.TID)
		}
	}
}

// TestUnknownIsolateIsAnError names isolates that a process does not have.
func TestUnknownIsolateIsAnError(t *testing.T) {
	d := attached(t, calls.StartSource(t, anyVersion, "console.log('ready'); setInterval(() => {}, 1e8)").PID)
	for _, name := range []string{"", "x", "-1", "1", "99999999"} {
		if err := d.SelectIsolate(name); err == nil || d.selected != nil {
			t.Errorf("select isolate %q: %v, want an error", name, err)
		}
	}
}
