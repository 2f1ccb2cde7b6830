package nodetest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	lineLimit  = 3 * time.Minute // for a program's next line, on a machine busy with other tests
	queueLimit = 1 << 12         // lines that a program may print before the test reads one
	lineSize   = 1 << 22         // bytes of a line: a deep stack in JSON
)

// Options say how to run a program.
type Options struct {
	Flags   []string // node's own flags
	Script  string   // a file of testdata/programs, or an absolute path
	Args    []string // the script's arguments
	Env     []string // added to the test's environment, as "NAME=value"
	Dir     string   // working folder; the test's if empty
	MayFail bool     // the program may end by a signal or with a status of its own
}

// A Target is a running Node.js process. It is killed and reaped when its test ends.
type Target struct {
	PID   int
	Ready json.RawMessage // what the ready line says; empty if it has no facts

	t      testing.TB
	cmd    *exec.Cmd
	lines  chan string
	stderr syncBuffer
	ended  chan struct{} // closed when the process is reaped

	mu      sync.Mutex
	stopped bool // by the test, so its end is no crash
}

// Program returns the path of a file of testdata/programs.
func Program(name string) string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "..", "programs", name)
}

// Start runs a program and returns when it has printed its ready line. The test
// fails if the program ends on its own other than with success, unless MayFail
// is set.
func Start(t testing.TB, node string, opts Options) *Target {
	t.Helper()
	target := launch(t, node, opts)
	first := target.Line()
	facts, ok := strings.CutPrefix(first, "ready")
	if !ok {
		t.Fatalf("%s: first line = %q, want ready", opts.Script, first)
	}
	target.Ready = json.RawMessage(strings.TrimSpace(facts))
	return target
}

func launch(t testing.TB, node string, opts Options) *Target {
	t.Helper()
	script := opts.Script
	if !filepath.IsAbs(script) {
		script = Program(script)
	}
	args := append(append([]string{}, opts.Flags...), script)
	cmd := exec.Command(node, append(args, opts.Args...)...)
	cmd.Dir = opts.Dir
	cmd.Env = append(os.Environ(), opts.Env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	target := &Target{t: t, cmd: cmd, lines: make(chan string, queueLimit), ended: make(chan struct{})}
	cmd.Stderr = &target.stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	target.PID = cmd.Process.Pid
	go target.watch(stdout, opts.MayFail)
	t.Cleanup(target.Stop)
	return target
}

// watch passes the process's lines on, reaps it and judges its end.
func (t *Target) watch(stdout io.Reader, mayFail bool) {
	defer close(t.ended)
	defer close(t.lines)
	scanner := bufio.NewScanner(stdout)
	scanner.Buffer(nil, lineSize)
	for scanner.Scan() {
		t.lines <- scanner.Text()
	}
	if err := scanner.Err(); err != nil {
		t.t.Errorf("read what %d prints: %v", t.PID, err)
	}
	err := t.cmd.Wait()
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil && !t.stopped && !mayFail {
		t.t.Errorf("%s: %v\n%s", strings.Join(t.cmd.Args, " "), err, t.stderr.String())
	}
}

// Line returns the next line of the program's stdout. The test fails if no line
// comes.
func (t *Target) Line() string {
	t.t.Helper()
	select {
	case line, ok := <-t.lines:
		if !ok {
			<-t.ended
			t.t.Fatalf("%s ended without a line\n%s", strings.Join(t.cmd.Args, " "), t.stderr.String())
		}
		return line
	case <-time.After(lineLimit):
		t.t.Fatalf("%s printed no line for %v\n%s", strings.Join(t.cmd.Args, " "), lineLimit, t.stderr.String())
	}
	return ""
}

// Lines yields what is left of the program's stdout, until it ends.
func (t *Target) Lines() iter.Seq[string] {
	return func(yield func(string) bool) {
		for line := range t.lines {
			if !yield(line) {
				return
			}
		}
	}
}

// Facts decodes the ready line into what to points to.
func (t *Target) Facts(to any) {
	t.t.Helper()
	if err := json.Unmarshal(t.Ready, to); err != nil {
		t.t.Fatalf("decode the ready line: %v\n%s", err, t.Ready)
	}
}

// Signal sends sig to the process. A signal that ends it makes no failed test.
func (t *Target) Signal(sig syscall.Signal) {
	t.t.Helper()
	t.mu.Lock()
	if sig == syscall.SIGKILL || sig == syscall.SIGTERM || sig == syscall.SIGINT {
		t.stopped = true
	}
	t.mu.Unlock()
	if err := t.cmd.Process.Signal(sig); err != nil {
		t.t.Fatalf("send %v to %d: %v", sig, t.PID, err)
	}
}

// Wait waits for the process to end on its own, and returns how it ended.
func (t *Target) Wait() *os.ProcessState {
	t.t.Helper()
	select {
	case <-t.ended:
	case <-time.After(lineLimit):
		t.t.Fatalf("%s still runs after %v", strings.Join(t.cmd.Args, " "), lineLimit)
	}
	return t.cmd.ProcessState
}

// Alive reports whether the process has neither ended nor been reaped.
func (t *Target) Alive() bool {
	select {
	case <-t.ended:
		return false
	default:
		return true
	}
}

// Stderr returns what the process has written to stderr so far.
func (t *Target) Stderr() string { return t.stderr.String() }

// Stop kills the process and reaps it. Stopping twice is no error.
func (t *Target) Stop() {
	t.t.Helper()
	if t.Alive() {
		t.mu.Lock()
		t.stopped = true
		t.mu.Unlock()
		if err := t.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
			t.t.Errorf("kill %d: %v", t.PID, err)
		}
	}
	for range t.lines { // what nobody read must not hold the watcher up
	}
	<-t.ended
}

// A syncBuffer keeps what one goroutine writes for another to read.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}
