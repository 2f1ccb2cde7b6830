package core

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

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
