package core

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ustack/symbolize/process"
	"ustack/testdata/nodetest"
)

func TestThreadsThatComeAndGo(t *testing.T) {
	p := startTracee(t, "storm")
	for range 200 {
		stopped(t, p.pid(), func(tracee *tracee) {
			if got := states(t, p.pid()); got != strings.Repeat("t", len(got)) {
				t.Errorf("states = %s, want t only", got)
			}
		})
	}
	if got := p.end(); got != "done\n" {
		t.Errorf("program says %q", got)
	}
}

func TestFirstThreadHasEnded(t *testing.T) {
	p := startTracee(t, "leader")
	stopped(t, p.pid(), func(tracee *tracee) {
		if threads := tracee.threads(); len(threads) != 1 || threads[0].TID == p.pid() {
			t.Errorf("threads = %+v, want one that is not the first", threads)
		}
		if got := states(t, p.pid()); got != "Zt" {
			t.Errorf("states = %s, want Zt", got)
		}
	})
	if got := p.end(); got != "done\n" {
		t.Errorf("program says %q", got)
	}
}

func TestUninterruptibleThreadIsGivenUp(t *testing.T) {
	p := startTracee(t, "vfork")
	start := time.Now()
	tracee, err := stopThreads(p.pid(), stopLimit)
	if err == nil {
		tracee.resume()
		t.Fatal("stopThreads = nil, want an error")
	}
	if took := time.Since(start); took > 2*stopLimit {
		t.Errorf("took %v, want %v", took, stopLimit)
	}
	if want := fmt.Sprintf("thread %d (tracee)", p.pid()); !strings.Contains(err.Error(), want) || !errors.Is(err, errTimeout) {
		t.Errorf("error = %v, want %q in it", err, want)
	}
	if got := p.end(); got != "done\n" { // not stopped, not traced
		t.Errorf("program says %q", got)
	}
}

// TestStuckThreadsHoldUpNoOther has threads that stop and threads that do not.
func TestStuckThreadsHoldUpNoOther(t *testing.T) {
	p := startTracee(t, "later")
	const stuck = 2
	for i := range 2*stuck - 1 { // each says that it waits, and that it is stuck
		if i >= stuck-1 {
			if err := unix.Kill(p.pid(), unix.SIGUSR2); err != nil {
				t.Fatal(err)
			}
		}
		if line, err := p.stdout.ReadString('\n'); line != "ready\n" {
			t.Fatalf("line = %q, %v, want ready", line, err)
		}
	}
	if _, err := stopThreads(p.pid(), 100*time.Millisecond); !errors.Is(err, errTimeout) {
		t.Errorf("stopThreads = %v, want %v", err, errTimeout)
	}
	awaitStates(t, p.pid(), func(states string) bool { return states == "SDSD" })
	if got := p.end(); got != "done\n" {
		t.Errorf("program says %q", got)
	}
}

func TestTargetKilledWhileStopped(t *testing.T) {
	for _, mode := range []string{"storm", "leader", "waits"} {
		p := startTracee(t, mode)
		stopped(t, p.pid(), func(*tracee) {
			if err := unix.Kill(p.pid(), unix.SIGKILL); err != nil {
				t.Fatal(err)
			}
		})
		ended := make(chan error)
		go func() { ended <- p.cmd.Wait() }()
		select {
		case err := <-ended:
			if err == nil || err.Error() != "signal: killed" {
				t.Errorf("%s: end = %v, want killed", mode, err)
			}
		case <-time.After(patience):
			t.Fatalf("%s: the end is not reported", mode)
		}
	}
}

func TestNothingToStop(t *testing.T) {
	nodetest.Root(t)
	zombie := exec.Command("true")
	out, err := zombie.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := zombie.Start(); err != nil {
		t.Fatal(err)
	}
	defer zombie.Wait()
	io.Copy(io.Discard, out)
	awaitStates(t, zombie.Process.Pid, func(states string) bool { return states == "Z" })
	for _, test := range []struct {
		pid  int
		want error
		text string
	}{
		{1 << 30, process.ErrGone, "no such process"},
		{zombie.Process.Pid, process.ErrGone, "no such process"},
		{2, nil, "thread of the kernel"},
		{os.Getpid(), nil, "it is this one"},
	} {
		_, err := stopThreads(test.pid, stopLimit)
		if err == nil || test.want != nil && !errors.Is(err, test.want) || !strings.Contains(err.Error(), test.text) {
			t.Errorf("stopThreads(%d) = %v, want %q", test.pid, err, test.text)
		}
	}
}

func TestNoThreadOfOursIsLeft(t *testing.T) {
	p := startTracee(t, "count")
	own := func() int {
		tids, err := listThreads(os.Getpid())
		if err != nil {
			t.Fatal(err)
		}
		return len(slices.Compact(tids))
	}
	before := own()
	for range 100 {
		stopped(t, p.pid(), func(*tracee) {})
	}
	if after := own(); after > before+10 {
		t.Errorf("threads of ours = %d, want about %d", after, before)
	}
	p.end()
}
