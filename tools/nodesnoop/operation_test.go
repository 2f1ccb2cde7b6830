package nodesnoop

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ustack/testdata/nodetest"
	"ustack/tools/trace"
)

// operated is an operation as operations.js itself has seen it.
type operated struct {
	What, On, Error string
	Begin           int64 `json:",string"`
	End             int64 `json:",string"`
}

// TestEveryOperationIsSeen has a program wait for one of each kind, of which some fail.
func TestEveryOperationIsSeen(t *testing.T) {
	eachVersion(t, func(t *testing.T, node string) {
		checkOperations(t, node, func(w *watch) []Event { return w.end() }, func(method string) bool { return method == "zlib" })
	})
}

// TestEveryOperationOfStrippedBuildsIsSeen: only zlib has no name there.
func TestEveryOperationOfStrippedBuildsIsSeen(t *testing.T) {
	nodetest.Root(t)
	builds := nodetest.StrippedFew
	if os.Getenv("USTACK_MATRIX") != "" {
		builds = nodetest.Stripped
	}
	for _, build := range builds {
		t.Run(build.Name, func(t *testing.T) {
			nodetest.NothingLeft(t, programs...)
			node, _ := build.Node(t)
			end := func(w *watch) []Event { return w.endWarned("is stripped of symbols, so some names will be missing") }
			checkOperations(t, node, end, func(method string) bool { return strings.HasSuffix(method, "`node::ThreadPoolWork::ScheduleWork") })
		})
	}
}

// checkOperations compares what is seen with what the program itself has seen. isZlib reports whether
// work that is called so is zlib's.
func checkOperations(t *testing.T, node string, end func(*watch) []Event, isZlib func(method string) bool) {
	t.Helper()
	target := nodetest.Start(t, node, nodetest.Options{Script: "operations.js", Args: []string{t.TempDir()}})
	w := begin(t, Options{Selection: trace.Selection{PIDs: []int{target.PID}}, Kinds: Kinds{IO: true}})
	target.Signal(syscall.SIGUSR2)
	text, _ := strings.CutPrefix(target.Line(), "operated")
	var log []operated
	if err := json.Unmarshal([]byte(text), &log); err != nil {
		t.Fatal(err)
	}
	events := slices.CompactFunc(end(w), func(a, b Event) bool { return isZlib(a.Method) && isZlib(b.Method) }) // the last writes nothing
	var got, want []string
	for _, l := range log {
		want = append(want, fmt.Sprintf("%s %q %s", l.What, l.On, l.Error))
	}
	for _, e := range events {
		method := e.Method
		if isZlib(method) {
			method = "zlib"
		}
		got = append(got, fmt.Sprintf("%s %q %s", method, e.URL, e.Failure))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("operations (-want +got):\n%s", diff)
	}
	for i, e := range events {
		begun, ended := int64(e.Monotonic), int64(e.Monotonic+e.Latency)
		if e.Kind != IO || e.PID != target.PID || begun < log[i].Begin || ended > log[i].End {
			t.Errorf("%s: %v of %d from %d to %d, want io of %d from %d to %d", got[i], e.Kind, e.PID, begun, ended, target.PID, log[i].Begin, log[i].End)
		}
		if isZlib(e.Method) != (e.Outcome == Unknown) && !strings.HasPrefix(e.Method, "crypto.") && e.Method != "random" {
			t.Errorf("%s: outcome %v", got[i], e.Outcome)
		}
		isRemote := e.Method == "connect" || strings.HasPrefix(e.Method, "dns.re")
		if isRemote == (e.Run > 0) || e.Wait+e.Run > e.Latency {
			t.Errorf("%s: waited %v and ran %v of %v", got[i], e.Wait, e.Run, e.Latency)
		}
	}
}

// TestWorkOfAddonsIsNamed has add-ons give work to libuv, themselves and through Node-API.
func TestWorkOfAddonsIsNamed(t *testing.T) {
	node := prepare(t, anyVersion)
	const count = 31
	plan := nodetest.Plan{Addons: make(map[string]string), Stay: true}
	for _, source := range []string{"napi.c", "rawuv.cc"} {
		plan.Addons[source] = nodetest.Addon(t, node, source, nodetest.FramePointers)
		plan.Steps = append(plan.Steps, nodetest.Step{Addon: source, Call: "sleep", Micros: 2000, Count: count})
	}
	target := nodetest.StartJobs(t, node, plan)
	w := begin(t, Options{Selection: trace.Selection{PIDs: []int{target.PID}}, Kinds: Kinds{IO: true}})
	target.Begin()
	target.Done()
	got := make(map[string]int)
	for _, e := range w.end() {
		module, _, _ := strings.Cut(e.Method, "`")
		got[module]++
		if e.Run < 2*time.Millisecond {
			t.Errorf("%s ran for %v, want 2 ms or more", e.Method, e.Run)
		}
	}
	if diff := cmp.Diff(map[string]int{"napi_c.node": count, "rawuv_cc.node": count}, got); diff != "" {
		t.Errorf("work by add-on (-want +got):\n%s", diff)
	}
}
