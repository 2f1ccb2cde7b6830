package dump_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ustack/symbolize"
	"ustack/symbolize/process"
	"ustack/symbolize/reader"
	"ustack/testdata/nodetest"
	"ustack/testdata/nodetest/calls"
	"ustack/tools/dump"
	"ustack/tools/event"
	"ustack/tools/sourcemaps"
)

func TestMain(m *testing.M) {
	reader.Serve()
	os.Exit(m.Run())
}

// versions are those that are tested on each change; all of them in the matrix.
func versions() []string {
	if os.Getenv("USTACK_MATRIX") == "1" {
		return nodetest.Versions
	}
	return []string{"18.20.8", "24.21.0", "26.10.0"}
}

// take takes a dump, and checks that the process is as before.
func take(t *testing.T, pid int, o dump.Options) *dump.Dump {
	t.Helper()
	o.Syscall = event.SyscallName
	d, err := dump.Take(t.Context(), pid, o)
	if err != nil {
		t.Fatalf("Take: %v", err)
	}
	t.Logf("process %d was stopped for %v", pid, d.Stopped)
	if d.Threads[0].TID != pid {
		t.Errorf("first thread = %d, want %d", d.Threads[0].TID, pid)
	}
	return d
}

// executing returns the JavaScript frames below that of a function, where they execute.
func executing(frames []symbolize.Frame, below string) []calls.Call {
	var all []calls.Call
	at := slices.IndexFunc(frames, func(f symbolize.Frame) bool { return f.Name == below })
	for _, f := range frames[at+1:] {
		if f.Kind == symbolize.JS {
			all = append(all, calls.Call{Name: f.Name, File: f.File, Line: f.ExecutingLine, Column: f.ExecutingColumn})
		}
	}
	return all
}

// TestStacksEqualErrorStacks compares the main thread or a worker, blocked in a futex, with
// new Error().stack.
func TestStacksEqualErrorStacks(t *testing.T) {
	for _, version := range versions() {
		for _, args := range [][]string{{"--tier=interpreted"}, {"--tier=turbofan"}, {"--tier=interpreted", "--worker", "--async"}} {
			t.Run(fmt.Sprintf("node%d/%s", nodetest.Major(version), strings.Join(args, "")), func(t *testing.T) {
				flags, _ := nodetest.TierFlags(version, symbolize.Interpreted)
				if args[0] == "--tier=turbofan" {
					flags, _ = nodetest.TierFlags(version, symbolize.Turbofan)
				}
				c := calls.Start(t, version, flags, args...)
				unharmed := nodetest.Unharmed(t, c.PID)
				d := take(t, c.PID, dump.Options{})
				unharmed()
				isolate := 1
				if len(args) > 1 {
					isolate = 2
				}
				at := slices.IndexFunc(d.Threads, func(t dump.Thread) bool { return t.Isolate == isolate })
				checkChain(t, c, d.Threads[at])
			})
		}
	}
}

func checkChain(t *testing.T, c calls.Chain, thread dump.Thread) {
	t.Helper()
	var want, awaiting []calls.Call
	for _, call := range c.Calls {
		at := calls.Call{Name: call.Function, File: call.File, Line: call.Line, Column: call.Column}
		switch {
		case call.Builtin:
		case call.Async:
			awaiting = append(awaiting, at)
		default:
			want = append(want, at)
		}
	}
	if diff := cmp.Diff(want, executing(thread.Frames, "leaf")); diff != "" {
		t.Errorf("stack (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(awaiting, executing(thread.Awaiting, "")); diff != "" {
		t.Errorf("awaiting (-want +got):\n%s", diff)
	}
	if got := thread.State.String(); got != "blocked in futex" {
		t.Errorf("state = %q, want blocked in futex", got)
	}
	if thread.Truncated || thread.Broken {
		t.Errorf("truncated = %v, broken = %v, want neither", thread.Truncated, thread.Broken)
	}
}

// TestRunningThreadsHaveTheirOwnStacks has the main thread and workers compute.
func TestRunningThreadsHaveTheirOwnStacks(t *testing.T) {
	const workers = 3
	for _, version := range versions() {
		t.Run(fmt.Sprintf("node%d", nodetest.Major(version)), func(t *testing.T) {
			target := nodetest.Start(t, nodetest.Node(t, version), nodetest.Options{Script: "workers.js", Args: []string{fmt.Sprint(workers)}})
			d := take(t, target.PID, dump.Options{})
			if d.Node != "v"+version {
				t.Errorf("version = %q, want v%s", d.Node, version)
			}
			want := []string{"main_spin", "worker_0_spin", "worker_1_spin", "worker_2_spin"}
			var got []string
			for _, thread := range d.Threads {
				if thread.Isolate == 0 {
					continue
				}
				if thread.Isolate != len(got)+1 {
					t.Errorf("isolate of thread %d = %d, want %d", thread.TID, thread.Isolate, len(got)+1)
				}
				first := slices.IndexFunc(thread.Frames, func(f symbolize.Frame) bool { return f.Kind == symbolize.JS })
				got = append(got, thread.Frames[first].Name)
				if thread.State != (dump.State{}) {
					t.Errorf("state of thread %d = %v, want running", thread.TID, thread.State)
				}
			}
			slices.Sort(got[1:])
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("innermost functions (-want +got):\n%s", diff)
			}
		})
	}
}

// TestDeepStackIsWhole has thousands of frames.
func TestDeepStackIsWhole(t *testing.T) {
	const depth = 5000
	target := nodetest.Start(t, nodetest.Node(t, "24.21.0"), nodetest.Options{Script: "deep.js", Args: []string{fmt.Sprint(depth)}})
	d := take(t, target.PID, dump.Options{})
	count := 0
	for _, f := range d.Threads[0].Frames {
		if f.Name == "descend" {
			count++
		}
	}
	if count != depth {
		t.Errorf("calls of descend = %d, want %d", count, depth)
	}
}

// TestStoppedProcessStaysStopped takes the stacks of a process that SIGSTOP has stopped.
func TestStoppedProcessStaysStopped(t *testing.T) {
	target := nodetest.Start(t, nodetest.Node(t, "22.23.3"), nodetest.Options{Script: "purecpu.js"})
	target.Signal(syscall.SIGSTOP)
	awaitState(t, target.PID, "T")
	for range 2 {
		d := take(t, target.PID, dump.Options{})
		if got := d.Threads[0].State.String(); got != "stopped by SIGSTOP while running" {
			t.Errorf("state = %q, want stopped by SIGSTOP while running", got)
		}
		if !slices.ContainsFunc(d.Threads[0].Frames, func(f symbolize.Frame) bool { return f.Name == "pureMain" && f.ExecutingLine > 0 }) {
			t.Errorf("stack = %v, want pureMain with its line", d.Threads[0].Frames)
		}
		awaitState(t, target.PID, "T") // the kernel wakes a thread that is no longer traced, to stop it again
	}
	target.Signal(syscall.SIGCONT)
}

// awaitState waits until a process's main thread is in a state.
func awaitState(t *testing.T, pid int, want string) {
	t.Helper()
	const limit = 10 * time.Second
	for deadline := time.Now().Add(limit); ; {
		got := stateOf(t, pid)
		if got == want {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the process's state = %q after %v, want %s", got, limit, want)
		}
	}
}

func stateOf(t *testing.T, pid int) string {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))[0]
}

// TestSecondDumpKnowsTheSystemCall takes the stacks twice: the first has interrupted what
// the threads wait in.
func TestSecondDumpKnowsTheSystemCall(t *testing.T) {
	target := calls.StartSource(t, "24.21.0", `
		console.log('ready');
		function sleeps() { Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1e6); }
		setImmediate(sleeps);`)
	for range 2 {
		awaitState(t, target.PID, "S") // it may not have come to sleep yet
		d := take(t, target.PID, dump.Options{})
		if got := d.Threads[0].State.String(); got != "blocked in futex" {
			t.Errorf("state = %q, want blocked in futex", got)
		}
	}
}

// TestSourceMapsAreAppliedAfterTheStop names functions as their sources do.
func TestSourceMapsAreAppliedAfterTheStop(t *testing.T) {
	dir := t.TempDir()
	script := dir + "/made.js"
	// made.ts:11:3 is line 2, column 1 of the script: "spin" there is "original".
	const m = `{"version":3,"sources":["made.ts"],"names":["original"],"mappings":";AAUEA"}`
	for name, text := range map[string]string{
		script: "console.log('ready');\n(function spin() { for (;;); })();\n//# sourceMappingURL=made.js.map\n", script + ".map": m,
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	target := nodetest.Start(t, nodetest.Node(t, "24.21.0"), nodetest.Options{Script: script})
	for _, tt := range []struct {
		off  bool
		want string
	}{{false, dir + "/made.ts"}, {true, script}} {
		d := take(t, target.PID, dump.Options{Maps: sourcemaps.Options{Off: tt.off}})
		if !slices.ContainsFunc(d.Threads[0].Frames, func(f symbolize.Frame) bool { return f.File == tt.want }) {
			t.Errorf("off = %v: no frame of %s in %v", tt.off, tt.want, d.Threads[0].Frames)
		}
	}
}

func TestProcessThatIsNotThere(t *testing.T) {
	target := nodetest.Start(t, nodetest.Node(t, "24.21.0"), nodetest.Options{Script: "purecpu.js"})
	target.Stop()
	if _, err := dump.Take(t.Context(), target.PID, dump.Options{}); !errors.Is(err, process.ErrGone) {
		t.Errorf("error = %v, want %v", err, process.ErrGone)
	}
	if _, err := dump.Take(t.Context(), os.Getpid(), dump.Options{}); err == nil {
		t.Error("a dump of this process was taken")
	}
}

// TestEndedContextLeavesTheProcessRunning gives up before anything is stopped.
func TestEndedContextLeavesTheProcessRunning(t *testing.T) {
	target := nodetest.Start(t, nodetest.Node(t, "24.21.0"), nodetest.Options{Script: "purecpu.js"})
	unharmed := nodetest.Unharmed(t, target.PID)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := dump.Take(ctx, target.PID, dump.Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("error = %v, want %v", err, context.Canceled)
	}
	unharmed()
}

func TestFormats(t *testing.T) {
	d := &dump.Dump{PID: 7, Title: "node 7 a\x1b.js", Node: "v24.0.0", V8: "13.6", Threads: []dump.Thread{
		{TID: 7, Name: "node\n", Isolate: 1, Frames: []symbolize.Frame{
			{Kind: symbolize.Native, Name: "epoll_pwait", Module: "/lib/libc.so.6"},
			{Kind: symbolize.Typed, Name: "<< entry >>"},
			{Kind: symbolize.JS, Name: "small", File: "/a.js", Line: 1, Column: 2, ExecutingLine: 3, ExecutingColumn: 4, Inlined: true},
			{Kind: symbolize.JS, Name: "big", File: "/a.js", Line: 5, Column: 6},
			{Kind: symbolize.JS, Name: "near", File: "/a.js", Line: 7, Column: 8, ExecutingLine: 9, ExecutingColumn: 1, Nearest: true},
		}, Awaiting: []symbolize.Frame{{Kind: symbolize.JS, Name: "waits", File: "/a.js"}}, State: dump.State{InCall: true, Syscall: "epoll_pwait"}},
		{TID: 8, Name: "pool", Frames: []symbolize.Frame{{Name: "work"}}, State: dump.State{Stopped: syscall.SIGSTOP, InCall: true, Syscall: "futex"}},
	}}
	for _, tt := range []struct {
		o    dump.TextOptions
		want string
	}{
		{dump.TextOptions{Native: true, Internal: true}, `node 7 a\x1b.js, Node.js v24.0.0, V8 13.6, 2 threads

thread 7 "node\x0a" isolate 1: sleeping in epoll_pwait
    libc.so.6` + "`" + `epoll_pwait
    << entry >>
    small /a.js:3:4 (inlined)
    big /a.js:5:6
    near /a.js:~9
    awaited by waits /a.js

thread 8 "pool": stopped by SIGSTOP while blocked in futex
    work
`},
		{dump.TextOptions{}, `node 7 a\x1b.js, Node.js v24.0.0, V8 13.6, 2 threads

thread 7 "node\x0a" isolate 1: sleeping in epoll_pwait
    small /a.js:3:4 (inlined)
    big /a.js:5:6
    near /a.js:~9
    awaited by waits /a.js

thread 8 "pool": stopped by SIGSTOP while blocked in futex
    (1 native frame not shown)
`},
	} {
		var b bytes.Buffer
		if err := d.WriteText(&b, tt.o); err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff(tt.want, b.String()); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", tt.o, diff)
		}
	}
	var b bytes.Buffer
	if err := d.WriteJSON(&b); err != nil {
		t.Fatal(err)
	}
	var got struct {
		PID     int
		Threads []struct {
			State map[string]string
			Stack []struct{ Name string }
		}
	}
	if err := json.Unmarshal(b.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"state": "stopped", "syscall": "futex", "signal": "SIGSTOP"}
	if diff := cmp.Diff(want, got.Threads[1].State); diff != "" || got.PID != 7 || got.Threads[0].Stack[2].Name != "small" {
		t.Errorf("JSON = %s (-want +got of a state):\n%s", &b, diff)
	}
}
