package core

import (
	"encoding/binary"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ustack/testdata/nodetest"
)

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

func TestPendingSignalsAreReported(t *testing.T) {
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
