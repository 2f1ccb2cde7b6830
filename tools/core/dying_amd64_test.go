package core

import (
	"errors"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ustack/symbolize/process"
	"ustack/testdata/nodetest"
)

// TestCloseWhileTheProcessIsDying has a process whose threads have all ended, but
// which has not: somebody else who traces one has not waited for it yet.
func TestCloseWhileTheProcessIsDying(t *testing.T) {
	nodetest.Root(t)
	target := nodetest.Start(t, nodetest.Node(t, "22.23.3"), nodetest.Options{Script: "heap.js", Args: []string{"20"}})
	s := take(t, target.PID)
	other := &tracee{pid: target.PID, tracer: startTracer()}
	tids, err := listThreads(target.PID)
	if err != nil {
		t.Fatal(err)
	}
	last := tids[len(tids)-1]
	if err := other.tracer.do(func() error {
		return errors.Join(other.attach(last), other.awaitStops(time.Now().Add(stopLimit)))
	}); err != nil {
		t.Fatal(err)
	}
	target.Signal(syscall.SIGKILL)
	if err := other.tracer.do(func() error { return awaitZombie(last) }); err != nil {
		t.Fatal(err)
	}
	if err := s.tracer.do(s.kill); err != nil {
		t.Error(err)
	}
	if err := s.reapByAny(); !errors.Is(err, process.ErrGone) {
		t.Errorf("wait for the child by one of no threads: %v, want %v", err, process.ErrGone)
	}
	if !s.target.Alive() {
		t.Error("the process has ended, want it dying")
	}
	closed := make(chan error)
	go func() { closed <- s.close() }()
	if err := other.resume(); err != nil {
		t.Error(err)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
	target.Wait()
}

// awaitZombie waits until a thread that its caller traces has ended, and leaves
// it to be buried.
func awaitZombie(tid int) error {
	for {
		err := unix.Waitid(unix.P_PID, tid, nil, unix.WEXITED|unix.WNOWAIT|unix.WALL, nil)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

func TestProcessKilledDuringTheSnapshot(t *testing.T) {
	nodetest.Root(t)
	node := nodetest.Node(t, "22.23.3")
	for i := range 20 {
		target := nodetest.Start(t, node, nodetest.Options{Script: "heap.js", Args: []string{"20"}})
		tracee, err := stopThreads(target.PID)
		if err != nil {
			t.Fatal(err)
		}
		killed := make(chan struct{})
		time.AfterFunc(time.Duration(i)*time.Millisecond/2, func() { // it takes some 8 ms
			defer close(killed)
			target.Signal(syscall.SIGKILL)
		})
		s, err := tracee.snapshot()
		if err != nil && !errors.Is(err, process.ErrGone) {
			t.Errorf("snapshot: %v, want %v", err, process.ErrGone)
		}
		<-killed
		if err := tracee.resume(); err != nil {
			t.Error(err)
		}
		if s != nil {
			if err := s.close(); err != nil {
				t.Error(err)
			}
		}
		target.Wait()
		if all := tracedByUs(t); len(all) > 0 {
			t.Errorf("processes left: %v", all)
		}
	}
}
