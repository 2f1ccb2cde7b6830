package jsprof

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"ustack/bpf"
	"ustack/symbolize"
	"ustack/testdata/nodetest"
	"ustack/tools/profile"
	"ustack/tools/trace"
)

// during profiles a program from when it is ready until it has said that it is done.
func during(t *testing.T, target *nodetest.Target, o Options) (p *profile.Profile, said string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	started := make(chan struct{})
	o.PIDs = append(o.PIDs, target.PID)
	o.Started = func(int) { close(started) }
	ended := make(chan error, 1)
	go func() {
		var err error
		p, err = Run(ctx, o)
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
	return p, said
}

// TestWaitsAreAsLongAsTheProgramSays compares the time that functions wait with what they
// measure themselves: on the main thread, also for times far below the quantum, on a worker and in a job of
// libuv's pool.
func TestWaitsAreAsLongAsTheProgramSays(t *testing.T) {
	nodetest.Root(t)
	for _, version := range startVersions() {
		t.Run(fmt.Sprintf("node%d", nodetest.Major(version)), func(t *testing.T) { testWaits(t, version, Options{Waiting: &Waiting{}}) })
	}
}

// TestCopiesOfProgramsChargeNoWaitTwice runs the programs as where threads are preempted in them.
func TestCopiesOfProgramsChargeNoWaitTwice(t *testing.T) {
	nodetest.Root(t)
	testWaits(t, anyVersion, Options{Waiting: &Waiting{}, preempted: true})
}

func testWaits(t *testing.T, version string, o Options) {
	nodetest.NothingLeft(t, bpf.OffcpuProgOnSwitch, bpf.OffcpuProgOnWake, bpf.OffcpuProgOnSystemCallEnd)
	target := nodetest.Start(t, nodetest.Node(t, version), nodetest.Options{Script: "waits.js"})
	p, said := during(t, target, o)
	var want map[string]float64
	if err := json.Unmarshal([]byte(said), &want); err != nil {
		t.Fatal(err)
	}
	// The kernel's CPU time of a thread that it wakes begins up to 20 µs before the context switch.
	short, busy := float64(within(p, "shortWait")), want["shortWaitCPU"]
	if all := want["shortWait"]; short < 0.97*(all-busy) || short > all {
		t.Errorf("shortWait waited %v of %v, with %v of CPU time", time.Duration(short), time.Duration(all), time.Duration(busy))
	}
	delete(want, "shortWait")
	delete(want, "shortWaitCPU")
	for name, ns := range want {
		if name == "poolWait" { // the way to the pool and back is no wait for the pipe
			got := waitOf(p, "read: pipe")
			if least := 0.8 * float64(300*time.Millisecond); got < least || got > 1.03*ns {
				t.Errorf("poolWait read for %v, want %v to %v", time.Duration(got), time.Duration(least), time.Duration(ns))
			}
			continue
		}
		got := float64(within(p, name))
		slack := 0.03*ns + 5e6 // and the CPU time between the waits
		t.Logf("%s: %v of %v", name, time.Duration(got), time.Duration(ns))
		if math.Abs(got-ns) > slack {
			t.Errorf("%s waited %v, want %v ± %v", name, time.Duration(got), time.Duration(ns), time.Duration(slack))
		}
	}
	if p.Lost > 0 || p.ValueType != offCPU {
		t.Errorf("values of type %v, %d lost, want %v, none", p.ValueType, p.Lost, offCPU)
	}
	for _, s := range p.Stacks {
		if s.Frames[0].Kind != symbolize.Runtime {
			t.Errorf("leaf of a wait = %+v, want what it waits for", s.Frames[0])
		}
	}
}

// waitOf returns the time of stacks that wait for that.
func waitOf(p *profile.Profile, what string) (ns float64) {
	for _, s := range p.Stacks {
		if s.Frames[0].Name == "["+what+"]" {
			ns += float64(s.Value)
		}
	}
	return ns
}

// TestThreadsAreSomewhereAllTheTime checks that the parts of a thread's time add up to what
// has passed.
func TestThreadsAreSomewhereAllTheTime(t *testing.T) {
	took := kept(t, worksAndWaits(t))
	if ratio := float64(took.all) / float64(took.passed); math.Abs(ratio-1) > 0.06 {
		t.Errorf("main thread has %v of %v, want all of it", took.all, took.passed)
	}
}

// slackOfSwitch is how far the kernel's clock of a context switch may be from that of the profile: the
// kernel reads its own when it begins to switch, or to wake the thread, and runs the programs later.
const slackOfSwitch = time.Microsecond

// TestRunnableTimeIsWhatTheKernelCounts needs no timer that keeps its pace. Where two threads
// hand over one CPU, most of the time is sampled.
func TestRunnableTimeIsWhatTheKernelCounts(t *testing.T) {
	for name, start := range map[string]func(*testing.T) *nodetest.Target{"long": worksAndWaits, "short": handsOver, "starved": starves} {
		t.Run(name, func(t *testing.T) {
			took := kept(t, start(t))
			slack := took.delay/20 + 50*time.Millisecond + time.Duration(took.switches)*slackOfSwitch
			if took.runnable < took.delay-slack || took.runnable > took.delay+slack+took.passed-keptFor {
				t.Errorf("main thread could run for %v, want %v ± %v as the kernel counts", took.runnable, took.delay, slack)
			}
		})
	}
}

// worksAndWaits starts a program that works, waits and is kept from its CPU by others.
func worksAndWaits(t *testing.T) *nodetest.Target {
	return nodetest.Start(t, nodetest.Node(t, anyVersion), nodetest.Options{Script: "mixed.js"})
}

// starves starts a program that shares its CPU with another one.
func starves(t *testing.T) *nodetest.Target {
	var target *nodetest.Target
	onOneCPU(t, func() {
		target = worksAndWaits(t)
		rival := exec.Command("sh", "-c", "while :; do :; done")
		if err := rival.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = rival.Process.Kill(); _ = rival.Wait() })
	})
	return target
}

// handsOver starts a program whose two threads keep handing over one CPU.
func handsOver(t *testing.T) *nodetest.Target {
	var target *nodetest.Target
	onOneCPU(t, func() {
		target = nodetest.Start(t, nodetest.Node(t, anyVersion), nodetest.Options{Script: "rates.js", Args: []string{"switches", "on"}})
	})
	target.Signal(syscall.SIGUSR2)
	return target
}

// A keptTime is what happens to a thread's time.
type keptTime struct {
	all, runnable time.Duration // of the profile
	passed        time.Duration
	delay         time.Duration // how long it was kept from a CPU in keptFor, by the kernel's count
	switches      int           // how often it left its CPU then
}

const keptFor = 3 * time.Second

// kept takes all of the time of a program's threads.
func kept(t *testing.T, target *nodetest.Target) keptTime {
	t.Helper()
	nodetest.Root(t)
	nodetest.NothingLeft(t, bpf.OffcpuProgOnSwitch, bpf.OffcpuProgOnSample)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	counted := make(chan keptTime, 1)
	p, err := Run(ctx, Options{
		Selection: trace.Selection{PIDs: []int{target.PID}}, Waiting: &Waiting{Running: true, Idle: true}, Hz: 499, Warn: func(err error) { t.Logf("warning: %v", err) },
		Started: func(int) {
			delay, switches := runDelay(t, target.PID), switchesOf(t, target.PID)
			time.AfterFunc(keptFor, func() {
				counted <- keptTime{delay: runDelay(t, target.PID) - delay, switches: switchesOf(t, target.PID) - switches}
				cancel()
			})
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	took := <-counted
	took.passed = p.Duration
	for _, s := range p.Stacks {
		if s.TID != target.PID {
			continue
		}
		took.all += time.Duration(s.Value)
		if s.Frames[0].Name == "[runnable]" {
			took.runnable += time.Duration(s.Value)
		}
	}
	t.Logf("main thread: %+v", took)
	return took
}

// runDelay returns how long the main thread has waited for a CPU.
func runDelay(t *testing.T, pid int) time.Duration {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("/proc", fmt.Sprint(pid), "schedstat"))
	if err != nil {
		t.Fatal(err)
	}
	var ran, delay int64
	if _, err := fmt.Sscan(string(text), &ran, &delay); err != nil {
		t.Fatal(err)
	}
	return time.Duration(delay)
}

// switchesOf returns how often the main thread has left its CPU.
func switchesOf(t *testing.T, pid int) (n int) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("/proc", fmt.Sprint(pid), "status"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if _, count, ok := strings.Cut(line, "voluntary_ctxt_switches:"); ok { // or nonvoluntary
			part, err := strconv.Atoi(strings.TrimSpace(count))
			if err != nil {
				t.Fatal(err)
			}
			n += part
		}
	}
	return n
}

// TestIdleThreadsAreLeftOut profiles a program that waits for events only.
func TestIdleThreadsAreLeftOut(t *testing.T) {
	nodetest.Root(t)
	nodetest.NothingLeft(t, bpf.OffcpuProgOnSwitch)
	target := nodetest.Start(t, nodetest.Node(t, anyVersion), nodetest.Options{Script: "sleeps.js"})
	for _, idle := range []bool{false, true} {
		p := takeProfile(t, Options{
			Selection: trace.Selection{PIDs: []int{target.PID}}, Waiting: &Waiting{Idle: idle}, Duration: time.Second,
			Warn: func(err error) { t.Logf("warning: %v", err) }, // of waits without a stack
		})
		polls := waitOf(p, "epoll_wait: events") + waitOf(p, "epoll_pwait: events")
		if (polls > 0) != idle {
			t.Errorf("idle %v: polls for %v", idle, time.Duration(polls))
		}
	}
}
