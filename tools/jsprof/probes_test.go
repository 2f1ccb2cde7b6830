package jsprof

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ustack/bpf"
	"ustack/testdata/nodetest"
	"ustack/tools/event"
	"ustack/tools/profile"
	"ustack/tools/trace"
)

// probePrograms are those of a run that sees system calls and functions.
var probePrograms = []string{
	bpf.JsprofProgOnSystemCall, bpf.JsprofProgOnSystemCallEnd, bpf.JsprofProgOnEntry, bpf.JsprofProgOnReturn,
	bpf.JsprofProgOnUsdt, bpf.JsprofProgOnTracepoint, bpf.JsprofProgOnExec,
}

// allDuring is during for several events.
func allDuring(t *testing.T, target *nodetest.Target, o Options) (all []*profile.Profile, said string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	started := make(chan struct{})
	o.PIDs = append(o.PIDs, target.PID)
	o.Started = func(int) { close(started) }
	ended := make(chan error, 1)
	go func() {
		var err error
		all, err = RunAll(ctx, o)
		ended <- err
	}()
	select {
	case <-started:
	case err := <-ended:
		t.Fatal(err)
	}
	target.Signal(syscall.SIGUSR2)
	said = strings.TrimPrefix(target.Line(), "done ")
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	return all, said
}

func eventsOf(t *testing.T, names ...string) (all []event.Event) {
	for _, name := range names {
		all = append(all, eventOf(t, name))
	}
	return all
}

func weightOf(t *testing.T, text string) event.Weight {
	t.Helper()
	w, err := event.ParseWeight(text)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// A tally is what calls.js says that it has done.
type tally struct{ First, Second, Third, Little, Much, Writes uint64 }

// TestCallsAreCountedExactly counts opened files by the function that opens them, at the
// system call and at libuv's function, and bytes that are written.
func TestCallsAreCountedExactly(t *testing.T) {
	nodetest.Root(t)
	for _, version := range startVersions() {
		t.Run(fmt.Sprintf("node%d", nodetest.Major(version)), func(t *testing.T) { testCalls(t, version, Options{}) })
	}
}

// TestCopiesOfProgramsSeeNoCallTwice runs the programs as where threads are preempted in them, also
// such as see how long calls take.
func TestCopiesOfProgramsSeeNoCallTwice(t *testing.T) {
	nodetest.Root(t)
	for _, slower := range []time.Duration{0, time.Nanosecond} {
		t.Run(slower.String(), func(t *testing.T) {
			testCalls(t, anyVersion, Options{Predicate: event.Predicate{Slower: slower}, preempted: true, Warn: func(err error) {
				if strings.Contains(err.Error(), "preempted") {
					t.Error(err)
				}
			}})
		})
	}
}

func testCalls(t *testing.T, version string, o Options) {
	nodetest.NothingLeft(t, probePrograms...)
	target := nodetest.Start(t, nodetest.Node(t, version), nodetest.Options{Script: "calls.js"})
	opened := o
	opened.Events, opened.Predicate.Path = eventsOf(t, "syscall:openat,openat2", "func:node:uv_fs_open"), "/nonexistent/*" // V8 opens files, too
	all, said := allDuring(t, target, opened)
	var want tally
	if err := json.Unmarshal([]byte(said), &want); err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		got := tally{First: within(p, "first"), Second: within(p, "second"), Third: within(p, "third")}
		if got != (tally{First: want.First, Second: want.Second, Third: want.Third}) || p.Lost > 0 {
			t.Errorf("%s: %+v and %d lost, want %+v and none", p.ValueType.Type, got, p.Lost, want)
		}
	}
	o.Events, o.Predicate.Errnos = eventsOf(t, "syscall:openat,openat2"), []unix.Errno{unix.EBADF}
	failed, said := allDuring(t, target, o)
	if err := json.Unmarshal([]byte(said), &want); err != nil || failed[0].Total != 0 {
		t.Errorf("opened with EBADF = %d, %v, want none", failed[0].Total, err)
	}
}

// TestBytesAreThoseThatAreWritten adds up bytes, and thins the calls.
func TestBytesAreThoseThatAreWritten(t *testing.T) {
	nodetest.Root(t)
	for _, every := range []uint64{1, 5} {
		t.Run(fmt.Sprint(every), func(t *testing.T) {
			nodetest.NothingLeft(t, probePrograms...)
			target := nodetest.Start(t, nodetest.Node(t, anyVersion), nodetest.Options{Script: "calls.js"})
			all, said := allDuring(t, target, Options{Events: eventsOf(t, "syscall:write"), Weight: weightOf(t, "bytes"), Every: every})
			var want tally
			if err := json.Unmarshal([]byte(said), &want); err != nil {
				t.Fatal(err)
			}
			p := all[0]
			got := tally{Little: within(p, "little"), Much: within(p, "much")}
			t.Logf("one in %d: %+v of %+v, %d events", every, got, want, p.Events)
			if every == 1 && (got.Little != want.Little || got.Much != want.Much) {
				t.Errorf("bytes = %+v, want %+v", got, want)
			}
			if every > 1 { // of 1009 calls, a fifth: 1 in 14 is the standard deviation
				if p.Every != every || p.Seen < want.Writes || p.Events%every != 0 {
					t.Errorf("%d events of %d, one in %d", p.Events, p.Seen, p.Every)
				}
				if share := float64(got.Much) / float64(want.Much); share < 0.65 || share > 1.35 {
					t.Errorf("bytes of much = %d, want %d ± 35 %%", got.Much, want.Much)
				}
			}
		})
	}
}

// TestBytesOfMallocAreThoseOfAPreload adds up what native code asks malloc for, by the JavaScript
// that called it, and compares with a library that is called in malloc's place.
func TestBytesOfMallocAreThoseOfAPreload(t *testing.T) {
	nodetest.Root(t)
	for _, version := range startVersions() {
		t.Run(fmt.Sprintf("node%d", nodetest.Major(version)), func(t *testing.T) {
			nodetest.NothingLeft(t, probePrograms...)
			node := nodetest.Node(t, version)
			library := nodetest.Addon(t, node, "mallocs.c")
			target := nodetest.Start(t, node, nodetest.Options{Script: "mallocs.js", Args: []string{library}, Env: []string{"LD_PRELOAD=" + library}})
			all, said := allDuring(t, target, Options{Events: eventsOf(t, "func:libc.so.6:malloc"), Weight: weightOf(t, "arg 0")})
			var want map[string]float64
			if err := json.Unmarshal([]byte(said), &want); err != nil {
				t.Fatal(err)
			}
			for name, bytes := range want {
				got := float64(within(all[0], name))
				t.Logf("%s: %.0f bytes, %.0f by the preload", name, got, bytes)
				const own = 1024 // that the C library asks itself for
				if bytes < 1e4 || math.Abs(got-bytes) > 0.01*bytes+own {
					t.Errorf("bytes of %s = %.0f, want %.0f ± 1 %%", name, got, bytes)
				}
			}
			if all[0].Lost > 0 {
				t.Errorf("lost = %d", all[0].Lost)
			}
		})
	}
}

// TestDurationsAreOfCalls compares the time of the calls with their distribution.
func TestDurationsAreOfCalls(t *testing.T) {
	nodetest.Root(t)
	nodetest.NothingLeft(t, probePrograms...)
	target := nodetest.Start(t, nodetest.Node(t, anyVersion), nodetest.Options{Script: "calls.js"})
	all, _ := allDuring(t, target, Options{
		Events: eventsOf(t, "syscall:write", "func:node:uv_fs_write:return"), Weight: weightOf(t, "duration"), Quantize: true,
	})
	inside, outside := all[0], all[1]
	if inside.Events < 2018 || outside.Events < 2018 || inside.Total >= outside.Total {
		t.Errorf("%d system calls took %d ns, %d calls of uv_fs_write %d: want 2018 or more, and the latter longer",
			inside.Events, inside.Total, outside.Events, outside.Total)
	}
	var low uint64
	for _, s := range inside.Stacks {
		if bits := int(s.Bucket) - 64; bits > 0 {
			low += s.Events << (bits - 1)
		}
	}
	if low > inside.Total || 2*low < inside.Total {
		t.Errorf("buckets begin at %d ns in all, want from half to all of %d", low, inside.Total)
	}
}

// TestStaticProbesAreEnabledAndCounted compiles a program with a probe, and adds up its argument.
func TestStaticProbesAreEnabledAndCounted(t *testing.T) {
	nodetest.Root(t)
	nodetest.NothingLeft(t, probePrograms...)
	path := filepath.Join(t.TempDir(), "probes")
	if out, err := exec.CommandContext(t.Context(), "gcc", "-O2", "-fno-omit-frame-pointer", "-o", path, nodetest.Program("probes.c")).CombinedOutput(); err != nil {
		t.Fatalf("compile probes.c: %v\n%s", err, out)
	}
	target := nodetest.Start(t, path, nodetest.Options{Script: "probes.c", MayFail: true})
	const times = 1013
	for _, tt := range []struct {
		weight string
		want   uint64
	}{{"arg 1", times * (times + 1) / 2}, {"arg 0", 7 * times}} {
		all, said := allDuring(t, target, Options{Events: eventsOf(t, "usdt:probes:ustack:reached"), Weight: weightOf(t, tt.weight)})
		if got := all[0]; got.Total != tt.want || got.Events != times {
			t.Errorf("%s: %d of %d events, want %d of %d", tt.weight, got.Total, got.Events, tt.want, times)
		}
		if tt.weight == "arg 1" && said != fmt.Sprint(times) {
			t.Errorf("the probe was enabled %s times, want %d", said, times)
		}
	}
	if _, err := RunAll(t.Context(), Options{Selection: trace.Selection{PIDs: []int{target.PID}}, Events: eventsOf(t, "usdt:probes:ustack:raeched")}); err == nil ||
		!strings.Contains(err.Error(), "did you mean ustack:reached?") {
		t.Errorf("err = %v, want a hint", err)
	}
}

// TestTracepointsAreCounted counts the thread that a program starts.
func TestTracepointsAreCounted(t *testing.T) {
	nodetest.Root(t)
	mountTracefs(t)
	nodetest.NothingLeft(t, probePrograms...)
	target := nodetest.Start(t, nodetest.Node(t, anyVersion), nodetest.Options{Script: "faults.js"})
	const waits = 211
	all, _ := allDuring(t, target, Options{Events: eventsOf(t, "tracepoint:sched:sched_switch"), Weight: weightOf(t, "arg 1")})
	p := all[0]
	var events, pids uint64
	for _, s := range p.Stacks {
		if s.TID == target.PID {
			events, pids = events+s.Events, pids+s.Value
		}
	}
	if events < waits || pids != events*uint64(target.PID) {
		t.Errorf("%d switches of thread %d with the sum of prev_pid %d, want %d or more, and each its own", events, target.PID, pids, waits)
	}
}

// mountTracefs mounts tracefs until the test ends, unless it is mounted.
func mountTracefs(t *testing.T) {
	t.Helper()
	const at = "/sys/kernel/tracing"
	if _, err := os.Stat(at + "/events"); err == nil {
		return
	}
	if err := unix.Mount("tracefs", at, "tracefs", 0, ""); err != nil {
		nodetest.MustRun(t, "tracefs cannot be mounted: "+err.Error())
	}
	t.Cleanup(func() {
		if err := unix.Unmount(at, 0); err != nil {
			t.Error(err)
		}
	})
}
