package stopon

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ustack/bpf"
	"ustack/symbolize"
	"ustack/testdata/nodetest"
	"ustack/tools/event"
)

// TestMain makes the test binary a supervisor, or a stopon that is attacked, when
// it is started as one.
func TestMain(m *testing.M) {
	Supervise()
	if what := os.Getenv(childVariable); what != "" {
		beChild(what)
		return
	}
	os.Exit(m.Run())
}

// programs are the kernel's names of ours.
var programs = []string{
	"on_system_call", "on_system_call_end", "on_call_in_loop", "on_signal", "on_entry", "on_call", "on_return", "on_exit", "on_tick", "on_signal_sent", "on_throw",
	"on_uncaught", "on_owner_end",
}

// A run is stopon at work in a test.
type run struct {
	t      *testing.T
	cancel func()
	done   chan struct{}
	seen   chan struct{} // has an element after hits that end has not seen yet

	mutex  sync.Mutex
	hits   []*Hit
	result *Result
	err    error
}

// watch starts to watch a target; it returns when all is attached. A warning
// fails the test.
func watch(t *testing.T, target *nodetest.Target, o Options) *run {
	t.Helper()
	return watchWarned(t, target, o, func(err error) { t.Errorf("warning: %v", err) })
}

func watchWarned(t *testing.T, target *nodetest.Target, o Options, warn func(error)) *run {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r := &run{t: t, cancel: cancel, done: make(chan struct{}), seen: make(chan struct{}, 1)}
	started := make(chan struct{})
	o.PIDs = []int{target.PID}
	o.Started = func() { close(started) }
	o.Warn = warn
	report := o.Report
	o.Report = func(h *Hit) error {
		r.mutex.Lock()
		r.hits = append(r.hits, h)
		r.mutex.Unlock()
		select {
		case r.seen <- struct{}{}:
		default:
		}
		if report != nil {
			return report(h)
		}
		return nil
	}
	go func() {
		defer close(r.done)
		r.result, r.err = Run(ctx, o)
	}()
	t.Cleanup(func() {
		cancel()
		<-r.done
	})
	select {
	case <-started:
	case <-r.done:
		t.Fatalf("run: %v", r.err)
	}
	return r
}

// end ends the run, once it has taken in so many hits, and returns these.
func (r *run) end(want int) []*Hit {
	r.t.Helper()
	return r.endWhen(func(hits []*Hit) bool { return len(hits) >= want })
}

// endWhen is end for hits of which enough have come.
func (r *run) endWhen(enough func([]*Hit) bool) []*Hit {
	r.t.Helper()
	deadline := time.After(hitLimit)
	for late := false; !r.have(enough) && !late; {
		select {
		case <-r.seen:
		case <-deadline:
			late = true
		}
	}
	r.cancel()
	<-r.done
	if r.err != nil {
		r.t.Fatalf("run: %v", r.err)
	}
	return r.hits
}

const (
	hitLimit = 20 * time.Second
	look     = 10 * time.Millisecond // between two checks for events that are not announced
)

func (r *run) have(enough func([]*Hit) bool) bool {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return enough(r.hits)
}

// facts are what trouble.js says of a scenario.
type facts struct {
	Events  int
	Sum     int
	Starved int
	Closed  int
	Caught  int
	Port    int
	Port6   int
	Path    string
	Seconds float64
	Stack   []*string
}

// perform has the target do its scenario, and returns what it did.
func perform(t testing.TB, target *nodetest.Target) (f facts) {
	t.Helper()
	target.Signal(unix.SIGUSR2)
	line := target.Line()
	text, ok := strings.CutPrefix(line, "done ")
	if !ok {
		t.Fatalf("line = %q, want done", line)
	}
	if err := json.Unmarshal([]byte(text), &f); err != nil {
		t.Fatalf("decode %q: %v", line, err)
	}
	return f
}

// javascript returns the names of a hit's JavaScript functions with a script of
// the test's.
func javascript(h *Hit) (names []string) {
	for _, f := range h.Frames {
		if f.Kind == symbolize.JS {
			names = append(names, f.Name)
		}
	}
	return names
}

// A triggerCase is a trigger with conditions, for a scenario of trouble.js: a hit
// for each event there, and for nothing else.
type triggerCase struct {
	name     string
	scenario string
	options  Options
	event    string // in each hit's
}

var cases = []triggerCase{
	{"errno", "badclose", Options{Syscalls: []string{"close"}, Errnos: []unix.Errno{unix.EBADF}}, "close(fd="},
	{"errno of several", "badclose", Options{Syscalls: []string{"close", "openat"}, Errnos: []unix.Errno{unix.EIO, unix.EBADF}}, "= -1 EBADF (bad file descriptor)"},
	{"ret", "badclose", Options{Syscalls: []string{"close"}, Conditions: []event.Condition{{Of: event.OfResult, Comparison: less(0)}}}, "close(fd="},
	{"fd", "twofold", Options{Syscalls: []string{"close"}, JS: "guilty", Conditions: []event.Condition{{Of: event.OfDescriptor, Comparison: equal(9999)}}}, "close(fd=9999)"},
	{"arg", "twofold", Options{Syscalls: []string{"close"}, JS: "gu?l*y", Conditions: []event.Condition{{Of: 0, Comparison: greater(9998)}}}, "close(fd=9999)"},
	{"js", "twofold", Options{Syscalls: []string{"close"}, Errnos: []unix.Errno{unix.EBADF}, JS: "guilty"}, "EBADF"},
	{"path", "paths", Options{Syscalls: []string{"openat", "openat2"}, Path: "*/*secret-?.txt"}, "secret-"},
	{"write", "writes", Options{Written: "needle-42"}, "fd="},
	{"slow call", "slow", Options{Syscalls: []string{"futex"}, Slower: 30 * time.Millisecond, JS: "guilty"}, "futex("},
	{"signal", "signals", Options{Signals: []unix.Signal{unix.SIGHUP}}, "SIGHUP"},
	{"function", "functions", Options{Functions: []event.Function{{Object: "node", Symbol: "uv_chdir"}}, JS: "guilty"}, "node:uv_chdir(arg0=0x"},
	{"return", "functions", Options{
		Functions: []event.Function{{Symbol: "uv_chdir", Return: true}}, Conditions: []event.Condition{{Of: event.OfResult, Comparison: less(0)}},
	}, "uv_chdir(…) = -2"},
	{"return with arguments", "functions", Options{
		Functions:  []event.Function{{Symbol: "uv_chdir", Return: true}},
		Conditions: []event.Condition{{Of: event.OfResult, Comparison: less(0)}, {Of: 0, Comparison: event.Comparison{Is: bpf.TraceComparisonNOT_EQUAL, Value: 0}}},
	}, "= -2 in "},
}

func equal(v int64) event.Comparison { return event.Comparison{Is: bpf.TraceComparisonEQUAL, Value: v} }

func less(v int64) event.Comparison { return event.Comparison{Is: bpf.TraceComparisonLESS, Value: v} }

func greater(v int64) event.Comparison {
	return event.Comparison{Is: bpf.TraceComparisonGREATER, Value: v}
}

// TestTriggersFireOnWhatTheyName counts: a hit for each of a prime number of
// events, each under the function that is guilty, and none for near misses.
func TestTriggersFireOnWhatTheyName(t *testing.T) {
	nodetest.Root(t)
	for i, version := range nodetest.Versions {
		for k, c := range cases {
			if !matrix() && (i+k)%3 != 0 && version != "22.23.3" {
				continue // each case on some versions, each version with some cases
			}
			t.Run(fmt.Sprintf("node%d/%s", nodetest.Major(version), c.name), func(t *testing.T) { testTrigger(t, version, c) })
		}
	}
}

// TestCopiesOfProgramsSeeNoCallTwice runs the programs as where threads are
// preempted in them.
func TestCopiesOfProgramsSeeNoCallTwice(t *testing.T) {
	nodetest.Root(t)
	for _, c := range cases {
		if len(c.options.Syscalls) > 0 || c.options.Written != "" {
			c.options.preempted = true
			t.Run(c.name, func(t *testing.T) { testTrigger(t, "22.23.3", c) })
		}
	}
	t.Run("stall", func(t *testing.T) { testNaps(t, Options{Stall: 2 * time.Millisecond, preempted: true}) })
}

func testTrigger(t *testing.T, version string, c triggerCase) {
	nodetest.NothingLeft(t, programs...)
	target := nodetest.Start(t, nodetest.Node(t, version), nodetest.Options{Script: "trouble.js", Args: []string{c.scenario}})
	r := watch(t, target, c.options)
	done := perform(t, target)
	hits := r.end(done.Events)
	if got, want := len(hits), done.Events; got != want {
		t.Errorf("hits = %d, want %d", got, want)
	}
	for _, h := range hits {
		check(t, h, c.event)
	}
	if got, want := r.result.Matches, uint64(done.Events); got != want {
		t.Errorf("matches = %d, want %d", got, want)
	}
	if r.result.Lost+r.result.Unsearched+r.result.Unended > 0 {
		t.Errorf("result = %+v, want nothing lost", *r.result)
	}
}

// matrix reports whether all versions are to be tested with everything.
func matrix() bool { return os.Getenv("USTACK_MATRIX") != "" }

func check(t *testing.T, h *Hit, event string) {
	t.Helper()
	if !strings.Contains(h.Event, event) {
		t.Errorf("event = %q, want %q in it", h.Event, event)
	}
	if h.Trigger != "signal" && !slices.Contains(javascript(h), "guilty") { // a signal comes when it comes
		t.Errorf("%s: JavaScript stack = %q, want guilty on it", h.Event, javascript(h))
	}
	if age := time.Since(h.Time); age < 0 || age > time.Minute {
		t.Errorf("time = %v, want now", h.Time)
	}
	if !strings.Contains(h.Comm, "node") && h.Comm != "MainThread" { // as Node 24 and later call themselves
		t.Errorf("comm = %q, want node", h.Comm)
	}
}

// TestStackIsTheProgramsOwn compares the stack of a close that fails with what
// the program itself says it is.
func TestStackIsTheProgramsOwn(t *testing.T) {
	nodetest.Root(t)
	for _, version := range nodetest.Versions {
		t.Run(fmt.Sprintf("node%d", nodetest.Major(version)), func(t *testing.T) { checkBadClose(t, version) })
	}
}

// TestReleasesStack does so in releases between which V8 has changed.
func TestReleasesStack(t *testing.T) {
	nodetest.Root(t)
	for _, release := range nodetest.ReleasesOr("24.0.0") {
		t.Run(release, func(t *testing.T) {
			nodetest.Works(t, "node", release, "stopon")
			checkBadClose(t, release)
		})
	}
}

func checkBadClose(t *testing.T, version string) {
	t.Helper()
	target := nodetest.Start(t, nodetest.Node(t, version), nodetest.Options{Script: "trouble.js", Args: []string{"badclose"}})
	r := watch(t, target, Options{Syscalls: []string{"close"}, Errnos: []unix.Errno{unix.EBADF}})
	done := perform(t, target)
	var want []string
	for _, name := range done.Stack {
		if name == nil {
			want = append(want, "(anonymous)")
		} else {
			want = append(want, *name)
		}
	}
	for _, h := range r.end(done.Events) {
		names := javascript(h)
		at := slices.Index(names, "guilty")
		if at < 0 || !slices.Equal(trim(names[at:]), trim(want)) {
			t.Errorf("stack = %q, want %q", names, want)
		}
	}
}

// trim leaves of a stack its functions in the program's own script: those of
// node's differ in how they are named.
func trim(names []string) []string { return names[:min(2, len(names))] }

// TestTierIsKnownAsAFunctionReturns stops at a builtin's call that takes down the
// frame of a function that is the baseline compiler's.
func TestTierIsKnownAsAFunctionReturns(t *testing.T) {
	nodetest.Root(t)
	for _, version := range []string{"20.20.2", "22.23.3", "24.21.0", "25.9.0", "26.10.0"} { // the function was another before
		t.Run(fmt.Sprintf("node%d", nodetest.Major(version)), func(t *testing.T) {
			target := nodetest.Start(t, nodetest.Node(t, version), nodetest.Options{
				Script: "trouble.js", Args: []string{"returns"}, Flags: []string{"--sparkplug", "--no-opt", "--no-maglev"},
			})
			const looks = "_ZN2v88internal41Runtime_BytecodeBudgetInterrupt_SparkplugEiPmPNS0_7IsolateE"
			r := watch(t, target, Options{Functions: []event.Function{{Symbol: looks}}, JS: "guilty", Count: 1})
			perform(t, target)
			hits := r.end(1)
			if len(hits) == 0 {
				t.Fatal("V8 did not look")
			}
			for _, h := range hits {
				first := slices.IndexFunc(h.Frames, func(f symbolize.Frame) bool { return f.Kind == symbolize.JS })
				if f := h.Frames[first]; f.Name != "guilty" || f.Tier != symbolize.Baseline {
					t.Errorf("innermost function = %s, %v, want guilty, baseline", f.Name, f.Tier)
				}
			}
		})
	}
}

func TestStallNamesTheFunctionThatBlocks(t *testing.T) {
	nodetest.Root(t)
	versions := []string{"22.23.3"}
	if matrix() {
		versions = nodetest.Versions
	}
	for _, version := range versions {
		t.Run(fmt.Sprintf("node%d", nodetest.Major(version)), func(t *testing.T) {
			nodetest.NothingLeft(t, programs...)
			target := nodetest.Start(t, nodetest.Node(t, version), nodetest.Options{Script: "trouble.js", Args: []string{"stalls"}})
			r := watch(t, target, Options{Stall: 100 * time.Millisecond})
			done := perform(t, target)
			guilty := 0
			hits := r.end(done.Events)
			for _, h := range hits {
				if h.Duration < 100*time.Millisecond {
					t.Errorf("%s: %v, want 100ms or more", h.Event, h.Duration)
				}
				if slices.Contains(javascript(h), "guilty") {
					guilty++
				}
			}
			// A loop that had no CPU was blocked, too, or could not be sampled
			// when it was.
			others := len(hits) - guilty + int(r.result.Missed)
			if guilty > done.Events || guilty < done.Events-done.Starved || others > done.Starved {
				t.Errorf("stalls under guilty = %d of %d, others and missed = %d, want at most %d off",
					guilty, done.Events, others, done.Starved)
			}
		})
	}
}

// TestStallIsReportedOnce: a stall is seen at the end of a system call and, at any
// instant, even during one, by sampling; only one of them reports it.
func TestStallIsReportedOnce(t *testing.T) {
	testNaps(t, Options{Stall: 2 * time.Millisecond})
}

func testNaps(t *testing.T, o Options) {
	nodetest.Root(t)
	target := nodetest.Start(t, nodetest.Node(t, "22.23.3"), nodetest.Options{Script: "trouble.js", Args: []string{"naps"}})
	r := watch(t, target, o)
	done := perform(t, target)
	hits := r.end(done.Events)
	for i, h := range hits[1:] {
		const resolution = time.Millisecond / 2
		begun, before := h.Time.Add(-h.Duration), hits[i].Time.Add(-hits[i].Duration)
		if begun.Sub(before).Abs() < resolution {
			t.Errorf("stalls at %v and %v, want them apart: one is reported twice", before, begun)
		}
	}
	if r.result.Unended > 0 {
		t.Errorf("the ends of %d calls were not seen, want 0", r.result.Unended)
	}
	if seen := len(hits) + int(r.result.Missed+r.result.Lost); seen < done.Events {
		t.Errorf("stalls = %d, missed or lost = %d, want all of %d", len(hits), seen-len(hits), done.Events)
	}
}

func TestIdleLoopRaisesNoAlarm(t *testing.T) {
	nodetest.Root(t)
	idle := 3 * time.Second
	if matrix() {
		idle = time.Minute
	}
	target := nodetest.Start(t, nodetest.Node(t, "22.23.3"), nodetest.Options{Script: "trouble.js", Args: []string{"idle"}})
	r := watch(t, target, Options{Stall: 100 * time.Millisecond, Duration: idle})
	<-r.done
	if r.err != nil || len(r.hits) > 0 {
		t.Errorf("hits of an idle loop = %d (%v), want 0", len(r.hits), r.err)
	}
}

func TestJavaScriptFunctionIsFoundWhileItRuns(t *testing.T) {
	nodetest.Root(t)
	target := nodetest.Start(t, nodetest.Node(t, "22.23.3"), nodetest.Options{Script: "trouble.js", Args: []string{"stalls"}})
	r := watch(t, target, Options{JS: "guilty", Count: 1})
	perform(t, target)
	hits := r.end(1)
	if len(hits) != 1 || !slices.Contains(javascript(hits[0]), "guilty") {
		t.Errorf("hits = %v, want one with guilty on its stack", hits)
	}
}

func TestExitIsCaughtBeforeItHappens(t *testing.T) {
	nodetest.Root(t)
	for _, version := range nodetest.Versions {
		t.Run(fmt.Sprintf("node%d", nodetest.Major(version)), func(t *testing.T) {
			target := nodetest.Start(t, nodetest.Node(t, version), nodetest.Options{Script: "trouble.js", Args: []string{"exit"}, MayFail: true})
			three := equal(3)
			alive := false
			r := watch(t, target, Options{Exit: &three, Actions: []Action{{Do: Call, Function: func(context.Context, *Hit) error {
				alive = target.Alive()
				return nil
			}}}})
			target.Signal(unix.SIGUSR2)
			hits := r.end(1)
			if len(hits) != 1 || hits[0].Event != "exit with status 3" || !slices.Contains(javascript(hits[0]), "guilty") {
				t.Errorf("hits = %+v, want one exit with status 3 under guilty", hits)
			}
			if state := target.Wait(); state.ExitCode() != 3 {
				t.Errorf("exit status = %d, want 3 (alive at the hit: %v)", state.ExitCode(), alive)
			}
		})
	}
}

func TestLimits(t *testing.T) {
	nodetest.Root(t)
	for _, test := range []struct {
		name    string
		options Options
		numbers []uint64
	}{
		{"count", Options{Count: 3}, []uint64{1, 2, 3}},
		{"nth", Options{Nth: 5, Count: 1}, []uint64{5}},
		{"nth and count", Options{Nth: 11, Count: 7}, []uint64{11, 12, 13}},
		{"interval", Options{Interval: time.Hour}, []uint64{1}},
		{"burst", Options{Interval: time.Hour, Burst: 5}, []uint64{1, 2, 3, 4, 5}},
	} {
		t.Run(test.name, func(t *testing.T) {
			target := nodetest.Start(t, nodetest.Node(t, "22.23.3"), nodetest.Options{Script: "trouble.js", Args: []string{"badclose"}})
			o := test.options
			o.Syscalls, o.Errnos = []string{"close"}, []unix.Errno{unix.EBADF}
			r := watch(t, target, o)
			perform(t, target)
			var numbers []uint64
			for _, h := range r.end(len(test.numbers)) {
				numbers = append(numbers, h.Number)
			}
			if !slices.Equal(numbers, test.numbers) {
				t.Errorf("matches acted on = %d, want %d", numbers, test.numbers)
			}
		})
	}
}

// TestEndsWhileHitsPour: the end of a run does not wait for hits that are no
// longer received, and leaves nothing stopped or probed.
func TestEndsWhileHitsPour(t *testing.T) {
	nodetest.Root(t)
	nodetest.NothingLeft(t, programs...)
	target := nodetest.Start(t, nodetest.Node(t, "22.23.3"), nodetest.Options{Script: "trouble.js", Args: []string{"rush"}})
	held := make(chan struct{})
	first := make(chan struct{}, 1)
	r := watch(t, target, Options{
		Syscalls: []string{"close"}, Functions: []event.Function{{Symbol: "uv_fs_close"}},
		Report: func(*Hit) error {
			select {
			case first <- struct{}{}:
			default:
			}
			<-held
			return nil
		},
	})
	perform(t, target) // some hundred thousand
	<-first
	r.cancel()
	close(held)
	select {
	case <-r.done:
	case <-time.After(hitLimit):
		t.Fatal("the run does not end")
	}
	if r.err != nil || r.result.Matches < maxWaiting {
		t.Errorf("result = %+v (%v), want more matches than may wait", r.result, r.err)
	}
	checkFree(t, target.PID)
	perform(t, target)
}
