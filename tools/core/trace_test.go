package core

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ustack/symbolize/process"
	"ustack/testdata/nodetest"
)

// patience is how long a test waits for what must come.
const patience = 30 * time.Second

// A traceeProgram is testdata/tracee.c in one of its modes.
type traceeProgram struct {
	t      *testing.T
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout *bufio.Reader
}

// startTracee compiles and starts the program and waits for its ready line.
func startTracee(t *testing.T, mode string) *traceeProgram {
	t.Helper()
	return startTraceeBy(t, mode, func(program string) string { return program })
}

// startTraceeBy starts it by the program that by returns, which becomes it.
func startTraceeBy(t *testing.T, mode string, by func(program string) string) *traceeProgram {
	t.Helper()
	nodetest.Root(t)
	binary := filepath.Join(t.TempDir(), "tracee")
	if out, err := exec.Command("cc", "-O1", "-pthread", "-o", binary, "testdata/tracee.c").CombinedOutput(); err != nil {
		t.Fatalf("compile: %v\n%s", err, out)
	}
	p := &traceeProgram{t: t, cmd: exec.Command(by(binary), mode)}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	stdin, err := p.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p.stdin, p.stdout = stdin, bufio.NewReader(stdout)
	t.Cleanup(p.kill)
	if line, err := p.stdout.ReadString('\n'); line != "ready\n" {
		t.Fatalf("first line = %q, %v, want ready", line, err)
	}
	return p
}

func (p *traceeProgram) pid() int { return p.cmd.Process.Pid }

func (p *traceeProgram) kill() {
	if p.cmd.ProcessState == nil {
		p.cmd.Process.Kill()
		p.cmd.Wait()
	}
}

// end ends the program's stdin and returns what it prints then.
func (p *traceeProgram) end() string {
	p.t.Helper()
	p.stdin.Close()
	timer := time.AfterFunc(patience, func() { p.cmd.Process.Kill() })
	defer timer.Stop()
	out, err := io.ReadAll(p.stdout)
	if err := errors.Join(err, p.cmd.Wait()); err != nil {
		p.t.Errorf("end of the program: %v", err)
	}
	return string(out)
}

// stopped stops the process, for as long as f takes.
func stopped(t *testing.T, pid int, f func(*tracee)) {
	t.Helper()
	tracee, err := stopThreads(pid, stopLimit)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		t.Helper()
		if err := tracee.resume(); err != nil {
			t.Error(err)
		}
		if err := tracee.resume(); err != nil {
			t.Errorf("second resume: %v", err)
		}
	}()
	f(tracee)
}

// states returns the state letters of the process's threads, in order of start.
func states(t *testing.T, pid int) string {
	t.Helper()
	tids, err := listThreads(pid)
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, tid := range tids {
		if status, err := readStatus(pid, tid); err == nil {
			all.WriteString(status["State"][:1])
		}
	}
	return all.String()
}

// awaitStates waits until want is true of the process's states.
func awaitStates(t *testing.T, pid int, want func(states string) bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !want(states(t, pid)); {
		if time.Now().After(deadline) {
			t.Fatalf("states of %d after %v: %s", pid, patience, states(t, pid))
		}
	}
}

func TestEveryThreadOfNodeIsStoppedAndGoesOn(t *testing.T) {
	nodetest.Root(t)
	for _, version := range nodetest.Versions {
		target := nodetest.Start(t, nodetest.Node(t, version), nodetest.Options{
			Script: "gcstress.js", Args: []string{"200"}, Flags: []string{"--max-semi-space-size=1"},
		})
		for range 20 {
			stopped(t, target.PID, func(tracee *tracee) {
				threads := tracee.threads()
				if got := states(t, target.PID); got != strings.Repeat("t", len(threads)) {
					t.Errorf("%s: states = %s, want %d times t", version, got, len(threads))
				}
				if threads[0].TID != target.PID || len(threads) < 5 {
					t.Errorf("%s: %d threads, the first is %d, want 5 or more from %d", version, len(threads), threads[0].TID, target.PID)
				}
			})
		}
		if state := target.Wait(); !state.Success() {
			t.Errorf("%s: end = %v, want success", version, state)
		}
	}
}

func TestRegistersAreThoseOfTheSystemCall(t *testing.T) {
	p := startTracee(t, "count")
	call := blockedCall(t, p.pid())
	stopped(t, p.pid(), func(tracee *tracee) {
		threads := tracee.threads()
		if len(threads) != 1 {
			t.Fatalf("threads = %d, want 1", len(threads))
		}
		thread := threads[0]
		const size, rsp, rip, number = 27, 19, 16, 15 // of user_regs_struct, in words
		if len(thread.General) != size*8 {
			t.Fatalf("general registers = %d bytes, want %d", len(thread.General), size*8)
		}
		word := func(i int) uint64 { return binary.LittleEndian.Uint64(thread.General[8*i:]) }
		got := fmt.Sprintf("%d %#x %#x", word(number), word(rsp), word(rip))
		if got != call {
			t.Errorf("call, rsp, rip = %s, want %s", got, call)
		}
		if len(thread.Float) != 512 || len(thread.XState) < 512+64 || len(thread.Siginfo) != signalInfo {
			t.Errorf("sizes: float %d, extended %d, siginfo %d", len(thread.Float), len(thread.XState), len(thread.Siginfo))
		}
		if thread.Signal != 0 || thread.Pending != 0 || thread.Held != 0 {
			t.Errorf("signals: %d, pending %x, held %x, want none", thread.Signal, thread.Pending, thread.Held)
		}
	})
	if got := p.end(); got != "0\n" {
		t.Errorf("program says %q, want 0", got)
	}
}

// blockedCall returns number, stack pointer and pc of the call that the process
// waits in, when it does.
func blockedCall(t *testing.T, pid int) string {
	t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/syscall", pid))
		if err != nil {
			t.Fatal(err)
		}
		if fields := strings.Fields(string(text)); len(fields) == 9 {
			return strings.Join([]string{fields[0], fields[7], fields[8]}, " ")
		}
	}
	t.Fatalf("process %d does not wait in a call", pid)
	return ""
}

func TestSignalsDuringTheStopArrive(t *testing.T) {
	const each, rounds = 7, 11
	const realTime = 34 // SIGRTMIN as glibc counts: queued, so each is counted
	p := startTracee(t, "count")
	for range rounds {
		stopped(t, p.pid(), func(*tracee) {
			for range each {
				if err := unix.Kill(p.pid(), realTime); err != nil {
					t.Fatal(err)
				}
			}
		})
		if err := unix.Kill(p.pid(), realTime); err != nil { // on its way while the next stop comes
			t.Fatal(err)
		}
	}
	if got, want := p.end(), fmt.Sprintln(rounds*(each+1)); got != want {
		t.Errorf("signals = %q, want %q", got, want)
	}
}

func TestPendingSignalsAreTold(t *testing.T) {
	p := startTracee(t, "ignore")
	if err := unix.Kill(p.pid(), unix.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	stopped(t, p.pid(), func(tracee *tracee) {
		const usr1 = 1 << (unix.SIGUSR1 - 1)
		thread := tracee.threads()[0]
		if thread.Pending != usr1 || thread.Held&usr1 == 0 {
			t.Errorf("pending %x, held %x, want %x in both", thread.Pending, thread.Held, usr1)
		}
	})
	if got := p.end(); got != "done\n" {
		t.Errorf("program says %q", got)
	}
}

func TestWaitsAreNotCutShort(t *testing.T) {
	p := startTracee(t, "waits")
	for range 50 {
		stopped(t, p.pid(), func(tracee *tracee) {
			if got := len(tracee.threads()); got < 2 {
				t.Errorf("threads = %d, want 2 or more", got)
			}
		})
	}
	if got := p.end(); got != "done\n" {
		t.Errorf("program says %q", got)
	}
}

// TestWaitsThatAreCutShort is what stopon's manual says under CORES.
func TestWaitsThatAreCutShort(t *testing.T) {
	p := startTracee(t, "cut")
	awaitStates(t, p.pid(), func(states string) bool { return states == "SSSSSSSSS" })
	stopped(t, p.pid(), func(*tracee) {})
	if got, want := p.end(), "epoll_wait semtimedop sigtimedwait recv io_getevents done\n"; got != want {
		t.Errorf("calls that are cut short: %q, want %q", got, want)
	}
}

func TestGroupStopOutlivesOurs(t *testing.T) {
	p := startTracee(t, "storm")
	if err := unix.Kill(p.pid(), unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	allT := func(states string) bool { return strings.Trim(states, "T") == "" }
	awaitStates(t, p.pid(), allT)
	stopped(t, p.pid(), func(tracee *tracee) {
		for _, thread := range tracee.threads() {
			if thread.Signal != unix.SIGSTOP {
				t.Errorf("thread %d was stopped by %d, want SIGSTOP", thread.TID, thread.Signal)
			}
		}
	})
	awaitStates(t, p.pid(), allT)
	if err := unix.Kill(p.pid(), unix.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if got := p.end(); got != "done\n" {
		t.Errorf("program says %q", got)
	}
}

func TestGroupStopDuringOurs(t *testing.T) {
	p := startTracee(t, "storm")
	stopped(t, p.pid(), func(*tracee) {
		if err := unix.Kill(p.pid(), unix.SIGSTOP); err != nil {
			t.Fatal(err)
		}
	})
	awaitStates(t, p.pid(), func(states string) bool { return strings.Trim(states, "T") == "" })
	stopped(t, p.pid(), func(*tracee) {
		if err := unix.Kill(p.pid(), unix.SIGCONT); err != nil {
			t.Fatal(err)
		}
	})
	if got := p.end(); got != "done\n" {
		t.Errorf("program says %q", got)
	}
}

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

func TestStopsWaitForTheirTurn(t *testing.T) {
	p := startTracee(t, "storm")
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for range 20 {
				tracee, err := stopThreads(p.pid(), patience) // the others may hold it many times in between
				if err != nil {
					t.Error(err)
					return
				}
				if err := tracee.resume(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	if got := p.end(); got != "done\n" {
		t.Errorf("program says %q", got)
	}
}

func TestStopDuringOursIsRefused(t *testing.T) {
	p := startTracee(t, "count")
	stopped(t, p.pid(), func(*tracee) {
		if _, err := stopThreads(p.pid(), stopLimit); !errors.Is(err, errOurs) {
			t.Errorf("stopThreads = %v, want %v", err, errOurs)
		}
	})
	if got := p.end(); got != "0\n" {
		t.Errorf("program says %q", got)
	}
}

func TestTracedAlready(t *testing.T) {
	p := startTracee(t, "count")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	gdb := exec.CommandContext(ctx, "gdb", "-nx", "-q", "-batch", "-ex", "shell echo attached; read x", "-p", fmt.Sprint(p.pid()))
	stdin, err := gdb.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := gdb.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := gdb.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stdout)
	for lines.Scan() && lines.Text() != "attached" {
	}
	_, err = stopThreads(p.pid(), stopLimit)
	if want := fmt.Sprintf("process %d traces it already", gdb.Process.Pid); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error = %v, want %q in it", err, want)
	}
	stdin.Close()
	io.Copy(io.Discard, stdout)
	if err := gdb.Wait(); err != nil {
		t.Error(err)
	}
	if got := p.end(); got != "0\n" {
		t.Errorf("program says %q", got)
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
