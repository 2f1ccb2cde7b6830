package clitest

import (
	"bufio"
	"bytes"
	"errors"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// A Process is a running command.
type Process struct {
	t      testing.TB
	cmd    *exec.Cmd
	stdout bytes.Buffer
	stderr *bufio.Scanner
}

// Start starts a command. When the test ends, the command is killed if it is
// still running.
func Start(t testing.TB, name string, args ...string) *Process {
	t.Helper()
	p := &Process{t: t, cmd: exec.Command(name, args...)}
	p.cmd.Stdout = &p.stdout
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.stderr = bufio.NewScanner(stderr)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if p.cmd.ProcessState == nil {
			_ = p.cmd.Process.Kill() // it may already have ended
			_ = p.cmd.Wait()
		}
	})
	return p
}

// Line waits for a line on stderr that matches pattern, and returns what the
// pattern's last group matches in it, or all of it if the pattern has no group.
func (p *Process) Line(pattern string) string {
	p.t.Helper()
	want := regexp.MustCompile(pattern)
	for p.stderr.Scan() {
		if found := want.FindStringSubmatch(p.stderr.Text()); found != nil {
			return found[len(found)-1]
		}
	}
	p.t.Fatalf("no line on stderr matches %s", pattern)
	return ""
}

// Signal sends sig.
func (p *Process) Signal(sig syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil {
		p.t.Fatal(err)
	}
}

// End sends sig and returns how the command ended.
func (p *Process) End(sig syscall.Signal) syscall.WaitStatus {
	p.t.Helper()
	p.Signal(sig)
	for p.stderr.Scan() { // to the end, so that further output does not block the command
	}
	if err := p.cmd.Wait(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		p.t.Fatal(err)
	}
	return p.cmd.ProcessState.Sys().(syscall.WaitStatus)
}

// Stdout returns the command's standard output, once it has ended.
func (p *Process) Stdout() string { return p.stdout.String() }

// Fails runs a command, checks that it exits with status 1 and says why, and
// returns everything that it printed.
func Fails(t testing.TB, cmd *exec.Cmd, why string) string {
	t.Helper()
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Errorf("end = %v, want exit status 1", err)
	}
	if !strings.Contains(string(out), why) {
		t.Errorf("output = %q, want %q in it", out, why)
	}
	return string(out)
}
