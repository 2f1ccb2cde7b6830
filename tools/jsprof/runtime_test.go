package jsprof

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ustack/symbolize"
	"ustack/testdata/nodetest"
	"ustack/tools/profile"
	"ustack/tools/trace"
)

// runtimeFlags are those that runtime.js needs, and what its own measurements need.
var runtimeFlags = []string{
	"--allow-natives-syntax", "--expose-gc",
	// Scavenges have objects to copy, and perf_hooks measures all of a collection.
	"--no-allocation-site-pretenuring", "--no-incremental-marking",
}

// TestRuntimeIsTrue profiles runtime.js, which measures how long V8 collects, parses,
// compiles, optimizes, deoptimizes and executes a regular expression for its functions.
func TestRuntimeIsTrue(t *testing.T) {
	nodetest.Root(t)
	for _, version := range someVersions() {
		t.Run(fmt.Sprintf("node%d", nodetest.Major(version)), func(t *testing.T) {
			nodetest.NothingLeft(t, programs...)
			target := nodetest.Start(t, nodetest.Node(t, version), nodetest.Options{
				Flags: append(runtimeFlags, "--single-threaded"), Script: "runtime.js",
			})
			pin(t, target.PID)
			p := profileUntil(t, Options{
				Selection: trace.Selection{PIDs: []int{target.PID}}, Hz: 997, Duration: time.Minute, Warn: allowBounds(t),
				Started: func(int) {
					target.Signal(syscall.SIGUSR2)
					target.Line() // what was spent before
				},
			}, 3*wantSamples)
			target.Signal(syscall.SIGUSR2)
			truth := make(map[string]float64)
			line := target.Line()
			if err := json.Unmarshal([]byte(strings.TrimPrefix(line, "shares ")), &truth); err != nil {
				t.Fatalf("decode %q: %v", line, err)
			}
			checkRuntime(t, p.Runtime(), truth)
			if q := p.Runtime(); q.Total != p.Total {
				t.Errorf("samples = %d, want %d as without --runtime", q.Total, p.Total)
			}
		})
	}
}

// The work of runtime.js: what V8 does, where the program measures it, and the
// functions it does that for.
var runtimeWork = []struct{ does, measured, in []string }{
	{[]string{"[GC scavenge]", "[GC]"}, []string{"scavenge"}, []string{"scavenge"}}, // most are scavenges
	// Node.js 18 collects in optimize, too.
	{[]string{"[GC mark-compact]"}, []string{"markCompact"}, []string{"markCompact", "optimize"}},
	{[]string{"[regexp /(?:x|[^b(])*?d/u]"}, []string{"regexp"}, []string{"regexp"}},
	{[]string{"[parse]", "[compile]"}, []string{"parse", "compile"}, []string{"parse", "compile"}},
	{[]string{"[optimize]"}, []string{"optimize", "prepare"}, []string{"optimize", "prepare", "down"}},
	{[]string{"[deoptimize]"}, []string{"deoptimize"}, nil}, // as V8 takes frames apart, no caller is found
}

// pin lets all threads of a process run on one CPU only: then collections take as much
// time as CPU time, whichever threads work for them.
func pin(t *testing.T, pid int) {
	t.Helper()
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		t.Fatal(err)
	}
	var one, all unix.CPUSet
	if err := unix.SchedGetaffinity(pid, &all); err != nil {
		t.Fatal(err)
	}
	for cpu := 0; one.Count() == 0; cpu++ {
		if all.IsSet(cpu) {
			one.Set(cpu)
		}
	}
	for _, task := range tasks {
		tid, _ := strconv.Atoi(task.Name()) // the kernel's numbers
		if err := unix.SchedSetaffinity(tid, &one); err != nil {
			t.Fatal(err)
		}
	}
}

func checkRuntime(t *testing.T, p *profile.Profile, truth map[string]float64) {
	t.Helper()
	share := func(is func(s profile.Stack) bool) float64 {
		var count uint64
		for _, s := range p.Stacks {
			if is(s) {
				count += s.Value
			}
		}
		return 100 * float64(count) / float64(p.Total)
	}
	for _, work := range runtimeWork {
		does := func(s profile.Stack) bool {
			return s.Frames[0].Kind == symbolize.Runtime && slices.Contains(work.does, s.Frames[0].Name)
		}
		got := share(does)
		var want float64
		for _, name := range work.measured {
			want += truth[name]
		}
		t.Logf("%v: %.1f %%, measured %.1f %%", work.does, got, want)
		if want < 1 || math.Abs(got-want) > tolerance {
			t.Errorf("share of %v = %.1f %%, want %.1f %% ± %d", work.does, got, want, tolerance)
		}
		if work.in == nil {
			continue
		}
		main := share(func(s profile.Stack) bool { return does(s) && s.TID == s.PID })
		in := share(func(s profile.Stack) bool { return does(s) && slices.Contains(work.in, caller(s.Frames)) })
		if in < 0.9*main {
			t.Errorf("share of %v in %v = %.1f %%, want 90 %% of the main thread's %.1f %%", work.does, work.in, in, main)
		}
	}
	if got := share(func(s profile.Stack) bool {
		return s.Frames[0].Kind == symbolize.Runtime && caller(s.Frames) == "spin"
	}); got > 0.2 {
		t.Errorf("share of what V8 does for spin = %.1f %%, want 0", got)
	}
	got := share(func(s profile.Stack) bool { return strings.HasPrefix(s.Frames[0].Name, "[GC") })
	want := truth["GC scavenge"] + truth["GC mark-compact"]
	t.Logf("collections: %.1f %%; by perf_hooks, %.1f %% of the time, on a busy machine not of the CPU time", got, want)
}

// caller returns the name of a stack's innermost JavaScript function.
func caller(frames []symbolize.Frame) string {
	at := slices.IndexFunc(frames, isJS)
	if at < 0 {
		return ""
	}
	return frames[at].Name
}

// TestHelperThreadsDoRuntimeWork profiles runtime.js with V8's threads: whatever they do
// is for the collector or the compilers.
func TestHelperThreadsDoRuntimeWork(t *testing.T) {
	nodetest.Root(t)
	for _, version := range someVersions() {
		t.Run(fmt.Sprintf("node%d", nodetest.Major(version)), func(t *testing.T) {
			nodetest.NothingLeft(t, programs...)
			target := nodetest.Start(t, nodetest.Node(t, version), nodetest.Options{Flags: runtimeFlags, Script: "runtime.js"})
			p := profileUntil(t, Options{Selection: trace.Selection{PIDs: []int{target.PID}}, Hz: 997, Duration: time.Minute}, 2*wantSamples).Runtime()
			counts := make(map[string]uint64)
			var known, all uint64
			for _, s := range p.Stacks {
				if s.TID == target.PID || isWaiting(s.Frames) {
					continue
				}
				counts[s.Frames[0].Name] += s.Value
				all += s.Value
				if s.Frames[0].Kind == symbolize.Runtime {
					known += s.Value
				}
			}
			if all < wantSamples/20 || known*10 < all*9 {
				t.Errorf("samples of V8's threads in what V8 does = %d of %d, want 90 %% of %d or more: %v", known, all, wantSamples/20, counts)
			}
		})
	}
}

// isWaiting reports whether a thread is between two tasks.
func isWaiting(frames []symbolize.Frame) bool {
	return slices.ContainsFunc(frames, func(f symbolize.Frame) bool {
		return strings.Contains(f.Name, "cond_wait") || strings.Contains(f.Name, "uv_sem_wait") || f.Name == "epoll_wait"
	})
}
