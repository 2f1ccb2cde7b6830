package core

import (
	"bufio"
	"errors"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

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

// startTraceeBy starts another program, which executes the tracee: by returns its path.
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
