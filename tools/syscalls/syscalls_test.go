package syscalls

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ustack/symbolize/reader"
	"ustack/testdata/nodetest"
	"ustack/tools/trace"
)

func TestMain(m *testing.M) {
	reader.Serve()
	os.Exit(m.Run())
}

// programs are the BPF programs that a Run loads.
var programs = []string{"on_system_call", "on_system_call_end", "on_exec"}

// eachVersion runs a test on the oldest and the newest supported Node.js.
func eachVersion(t *testing.T, test func(t *testing.T, node string)) {
	t.Helper()
	nodetest.OnVersions(t, []string{"18.20.8", "26.10.0"}, programs, test)
}

// oneVersion is eachVersion for what hardly depends on the version.
func oneVersion(t *testing.T, test func(t *testing.T, node string)) {
	t.Helper()
	nodetest.OnVersions(t, []string{"22.23.3"}, programs, test)
}

// A watch is a Run in progress.
type watch struct {
	t      *testing.T
	cancel context.CancelFunc
	ended  chan struct{}
	counts Counts
	err    error

	mutex  sync.Mutex
	calls  []Call
	warned []error
	more   chan struct{}
}

// begin returns when everything is attached.
func begin(t *testing.T, o Options) *watch {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	w := &watch{t: t, cancel: cancel, ended: make(chan struct{}), more: make(chan struct{}, 1)}
	started := make(chan struct{})
	o.Started = func() { close(started) }
	o.Warn = func(err error) {
		w.mutex.Lock()
		defer w.mutex.Unlock()
		w.warned = append(w.warned, err)
	}
	o.Call = func(c Call) {
		w.mutex.Lock()
		w.calls = append(w.calls, c)
		w.mutex.Unlock()
		select {
		case w.more <- struct{}{}:
		default:
		}
	}
	go func() {
		defer close(w.ended)
		w.counts, w.err = Run(ctx, o)
	}()
	t.Cleanup(func() {
		cancel()
		<-w.ended
	})
	select {
	case <-started:
	case <-w.ended:
		t.Fatalf("Run: %v", w.err)
	}
	return w
}

const waitLimit = time.Minute // for calls, on a machine busy with other tests

// until returns when there is a call that holds.
func (w *watch) until(holds func(Call) bool) {
	w.t.Helper()
	limit := time.After(waitLimit)
	for {
		w.mutex.Lock()
		found := slices.ContainsFunc(w.calls, holds)
		w.mutex.Unlock()
		if found {
			return
		}
		select {
		case <-w.more:
		case <-w.ended:
			w.t.Fatalf("Run: %v", w.err)
		case <-limit:
			w.t.Fatal("the call does not come")
		}
	}
}

// end ends the Run and returns its calls. There must be no warning.
func (w *watch) end() []Call {
	w.t.Helper()
	w.cancel()
	<-w.ended
	if w.err != nil {
		w.t.Fatalf("Run: %v", w.err)
	}
	for _, err := range w.warned {
		w.t.Errorf("warning = %v, want none", err)
	}
	return w.calls
}

// made is what testdata/programs/made.js says that it has done.
type made struct {
	Count, Bytes, Back int
	Codes              []string
}

// perform has the program make its calls, and returns what it says about them.
func perform(t *testing.T, target *nodetest.Target) (m made) {
	t.Helper()
	target.Signal(syscall.SIGUSR2)
	text, ok := strings.CutPrefix(target.Line(), "made")
	if err := json.Unmarshal([]byte(text), &m); !ok || err != nil {
		t.Fatalf("made: %v", err)
	}
	return m
}

// by reports whether a JavaScript function is on the call's stack.
func (c *Call) by(function string) bool {
	for _, f := range c.Frames {
		if f.Name == function {
			return true
		}
	}
	return false
}

// TestCallsAreThoseOfTheProgram compares the calls with the program's own record of them: how
// many, with which arguments and results, and by which function.
func TestCallsAreThoseOfTheProgram(t *testing.T) {
	eachVersion(t, func(t *testing.T, node string) { testCalls(t, node, Options{Strings: 64, Stacks: true}) })
}

// TestCopiesOfProgramsSeeNoCallTwice runs the programs as where threads are preempted in them.
func TestCopiesOfProgramsSeeNoCallTwice(t *testing.T) {
	eachVersion(t, func(t *testing.T, node string) {
		testCalls(t, node, Options{Strings: 64, Stacks: true, preempted: true})
	})
}

func testCalls(t *testing.T, node string, o Options) {
	file := filepath.Join(t.TempDir(), "file")
	target := nodetest.Start(t, node, nodetest.Options{Script: "made.js", Args: []string{file}})
	o.Selection = trace.Selection{PIDs: []int{target.PID}}
	w := begin(t, o)
	m := perform(t, target)
	calls := w.end()
	paths, written, read := make(map[string]int), make(map[string]int), make(map[string]int)
	bytes, back := 0, 0
	for _, c := range calls {
		switch {
		case c.by("opener") && c.Syscall.Name == "openat":
			paths[c.Path]++
			if c.Errno() != unix.ENOENT || c.State != Returned || c.Duration <= 0 {
				t.Errorf("open: %+v, want ENOENT", c)
			}
		case c.by("writer") && c.Syscall.Name == "pwrite64":
			written[c.Data]++
			bytes += int(c.Result)
		case c.by("reader") && c.Syscall.Name == "pread64":
			read[c.Data]++
			back += int(c.Result)
		}
	}
	if bytes != m.Bytes || back != m.Back {
		t.Errorf("bytes written and read = %d, %d, want %d, %d", bytes, back, m.Bytes, m.Back)
	}
	if w.counts.Unended > 0 {
		t.Errorf("the ends of %d calls were not seen, want 0", w.counts.Unended)
	}
	for n := range m.Count {
		path, text := fmt.Sprintf("/nowhere/\x1b[31m%d", n), fmt.Sprintf("text %d \x1b]0;x\a", n)
		if paths[path] != 1 || written[text] != 1 || len(paths) != m.Count || len(written) != m.Count {
			t.Errorf("opened %q %d times of %d, wrote %q %d times of %d, want once of %d",
				path, paths[path], len(paths), text, written[text], len(written), m.Count)
		}
	}
	if int(w.counts.Seen) < len(calls)-sleeping(calls) {
		t.Errorf("%d calls seen, %d shown", w.counts.Seen, len(calls))
	}
}

func sleeping(calls []Call) (n int) {
	for _, c := range calls {
		if c.State == Sleeping {
			n++
		}
	}
	return n
}

// TestSleepingCallIsShownWhileItSleeps has a function sleep in the kernel. What it sleeps in is shown
// with its stack, and again when it returns.
func TestSleepingCallIsShownWhileItSleeps(t *testing.T) {
	eachVersion(t, func(t *testing.T, node string) {
		target := nodetest.Start(t, node, nodetest.Options{Script: "made.js", Args: []string{filepath.Join(t.TempDir(), "file")}})
		w := begin(t, Options{Selection: trace.Selection{PIDs: []int{target.PID}}, Names: []string{"futex", "epoll_wait", "epoll_pwait"}, Stacks: true})
		w.until(func(c Call) bool { // it began before
			return c.State == Sleeping && c.Duration == 0 && c.TID == target.PID && strings.HasPrefix(c.Syscall.Name, "epoll_")
		})
		perform(t, target)
		calls := w.end()
		asleep := slices.IndexFunc(calls, func(c Call) bool { return c.State == Sleeping && c.by("sleeper") })
		woke := slices.IndexFunc(calls, func(c Call) bool {
			return c.State == Returned && c.by("sleeper") && c.Duration > time.Second
		})
		if asleep < 0 || woke < asleep || calls[asleep].Duration < sleepsAfter || calls[asleep].Duration > calls[woke].Duration {
			t.Errorf("the sleep is shown as calls %d and %d of %d", asleep, woke, len(calls))
		}
	})
}

// TestOnlySlowCallsAreShown shows no call that was faster.
func TestOnlySlowCallsAreShown(t *testing.T) {
	oneVersion(t, func(t *testing.T, node string) {
		target := nodetest.Start(t, node, nodetest.Options{Script: "made.js", Args: []string{filepath.Join(t.TempDir(), "file")}})
		w := begin(t, Options{Selection: trace.Selection{PIDs: []int{target.PID}}, Slower: 900 * time.Millisecond})
		perform(t, target)
		slept := false
		for _, c := range w.end() {
			if c.Duration < 900*time.Millisecond && !(c.State == Sleeping && c.Duration == 0) {
				t.Errorf("%s took %v", c.Called(), c.Duration)
			}
			slept = slept || c.State == Returned && c.Syscall.Name == "futex" && c.TID == target.PID
		}
		if !slept {
			t.Error("the slow call is not shown")
		}
	})
}

// TestEndOfProcessIsShown has a command call exit_group, which never returns.
func TestEndOfProcessIsShown(t *testing.T) {
	oneVersion(t, func(t *testing.T, node string) {
		w := begin(t, Options{
			Selection: trace.Selection{Command: []string{node, "-e", "process.exit(7)"}, Stdout: os.Stderr},
			Names:     []string{"exit_group"},
		})
		<-w.ended
		calls := w.end()
		if len(calls) != 1 || calls[0].State != Last || calls[0].Values[0] != 7 {
			t.Errorf("calls = %+v, want exit_group(7)", calls)
		}
	})
}

func TestBlockedCallIsParsed(t *testing.T) {
	for text, want := range map[string]struct {
		number uint32
		first  uint64
		ok     bool
	}{
		"232 0x10 0x2 0x3 0x4 0x5 0x6 0x7ffd 0x7f00\n": {232, 16, true},
		"running\n":               {},
		"-1 0x7ffd 0x7f00\n":      {},
		"":                        {},
		"232 0x10 x 3 4 5 6 7 8":  {},
		"99999999999 1 2 3 4 5 6": {},
	} {
		number, values, ok := parseBlocked(text)
		if ok != want.ok || ok && (number != want.number || values[0] != want.first) {
			t.Errorf("parseBlocked(%q) = %d, %v, %t, want %+v", text, number, values, ok, want)
		}
	}
}
