package nodetest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// EachNode runs test with the executable of each major version of Node.js.
func EachNode(t *testing.T, test func(t *testing.T, path string)) {
	for _, version := range Versions {
		t.Run(version, func(t *testing.T) { test(t, Node(t, version)) })
	}
}

// A Paused is a running Node.js program that has printed something and now waits.
type Paused struct {
	Memory LiveMemory
	PID    int
	Lines  []string // what it printed before "ready"
	more   *bufio.Scanner
	input  io.Writer
}

// LiveMemory is the memory of a process of the same user.
type LiveMemory struct{ file *os.File }

// LiveMemoryOf returns the memory that a file in /proc has.
func LiveMemoryOf(file *os.File) LiveMemory { return LiveMemory{file} }

// ReadAt reads memory at an address.
func (l LiveMemory) ReadAt(p []byte, addr uint64) (int, error) {
	if addr >= 1<<63 {
		return 0, fmt.Errorf("read at %#x: no such address", addr)
	}
	return l.file.ReadAt(p, int64(addr))
}

// StartPiped starts a command that ends once its input is closed: at the end of the test.
// It returns the command's input and output.
func StartPiped(t testing.TB, cmd *exec.Cmd) (io.Writer, io.Reader) {
	t.Helper()
	input, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		input.Close()
		cmd.Wait() // a program whose input is closed may exit with an error
	})
	return input, output
}

// Pause runs the program with a node and reads what it prints until "ready".
func Pause(t *testing.T, node string, args ...string) *Paused {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), node, args...)
	cmd.Stderr = os.Stderr
	input, output := StartPiped(t, cmd)
	mem, err := os.Open(filepath.Join("/proc", strconv.Itoa(cmd.Process.Pid), "mem"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { mem.Close() })
	p := &Paused{Memory: LiveMemory{mem}, PID: cmd.Process.Pid, input: input, more: bufio.NewScanner(output)}
	p.more.Buffer(nil, 1<<22)
	p.Lines = p.Wait(t)
	return p
}

// Wait returns the lines up to the next "ready", once the program waits again.
func (p *Paused) Wait(t *testing.T) []string {
	t.Helper()
	var lines []string
	for p.more.Scan() {
		if p.more.Text() == "ready" {
			p.waitUntilReading(t)
			return lines
		}
		lines = append(lines, p.more.Text())
	}
	t.Fatalf("the program ended before it was ready: %v, %q", p.more.Err(), lines)
	return nil
}

// waitUntilReading returns once the main thread waits for input.
func (p *Paused) waitUntilReading(t *testing.T) {
	t.Helper()
	waitForCall(t, p.PID, fmt.Sprintf("%d 0x0 ", unix.SYS_READ)) // number and first argument
}

// WaitUntilIdle returns once a program's main thread waits for events: one that has just
// said that it is ready may still be saying it.
func WaitUntilIdle(t *testing.T, pid int) {
	t.Helper()
	calls := []string{fmt.Sprintf("%d ", unix.SYS_EPOLL_PWAIT)}
	if runtime.GOARCH == "amd64" {
		calls = append(calls, "232 ") // epoll_wait, which arm64 does not have
	}
	waitForCall(t, pid, calls...)
}

// WaitUntilBlocked returns once a program's main thread waits for another thread, as in Atomics.wait.
func WaitUntilBlocked(t *testing.T, pid int) {
	t.Helper()
	waitForCall(t, pid, fmt.Sprintf("%d ", unix.SYS_FUTEX))
}

// waitForCall returns once a process's main thread is in a system call that begins as one
// of calls does in /proc: with its number, and its arguments.
func waitForCall(t *testing.T, pid int, calls ...string) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); runtime.Gosched() {
		now, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "syscall"))
		if err != nil {
			t.Fatal(err)
		}
		if slices.ContainsFunc(calls, func(call string) bool { return strings.HasPrefix(string(now), call) }) {
			return
		}
	}
	t.Fatalf("the program never waited in a system call %q", calls)
}

// Continue makes the program continue.
func (p *Paused) Continue(t *testing.T) {
	t.Helper()
	if _, err := p.input.Write([]byte("\n")); err != nil {
		t.Fatal(err)
	}
}

// Described visits each line of JSON that the program printed, with the address
// that V8's %DebugPrint printed after it. It returns their number.
func Described[T any](t *testing.T, p *Paused, check func(want T, addr uint64)) int {
	t.Helper()
	n := 0
	for i, line := range p.Lines {
		if !strings.HasPrefix(line, "{\"") || i+1 == len(p.Lines) {
			continue
		}
		var want T
		if err := json.Unmarshal([]byte(line), &want); err != nil {
			t.Fatal(err)
		}
		number, _, _ := strings.Cut(strings.TrimPrefix(p.Lines[i+1], "DebugPrint: "), ":")
		addr, err := strconv.ParseUint(number, 0, 64)
		if err != nil {
			t.Fatalf("after %s: %v", line, err)
		}
		check(want, addr)
		n++
	}
	return n
}
