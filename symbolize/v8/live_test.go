package v8

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"ustack/testdata/nodetest"
)

// releases are the official binaries that everything is checked against, and
// their versions of V8.
var releases = []struct{ node, v8 string }{
	{"16.20.2", "9.4.146.26"},
	{"18.20.8", "10.2.154.26"},
	{"20.20.2", "11.3.244.8"},
	{"22.23.3", "12.4.254.21"},
	{"24.21.0", "13.6.233.17"},
	{"25.9.0", "14.1.146.11"},
	{"26.10.0", "14.6.202.34"},
}

// forEachRelease runs test with the executable of each release.
func forEachRelease(t *testing.T, test func(t *testing.T, path string)) {
	for _, r := range releases {
		t.Run(r.node, func(t *testing.T) { test(t, nodetest.Node(t, r.node)) })
	}
}

func inspect(t *testing.T, path string) *Binary {
	t.Helper()
	b, err := Inspect(open(t, openFile(t, path)))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func heapAt(t *testing.T, mem Memory, b *Binary) *Heap {
	t.Helper()
	h, err := NewHeap(mem, b)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// functionAt reads the JSFunction at an address, tagged or not.
func functionAt(h *Heap, addr uint64) (Function, error) {
	o, err := h.Object(Ref(addr))
	if err != nil {
		return Function{}, err
	}
	return h.Function(o)
}

// A target is a running Node.js program that has printed something and now waits.
type target struct {
	mem   Memory
	pid   int
	lines []string // what it printed before "ready"
	more  *bufio.Scanner
	input io.Writer
}

// A live is the memory of a process of the same user.
type live struct{ file *os.File }

func (l live) ReadAt(p []byte, addr uint64) (int, error) {
	if addr >= 1<<63 {
		return 0, fmt.Errorf("read at %#x: no such address", addr)
	}
	return l.file.ReadAt(p, int64(addr))
}

// start runs the program with path and reads what it prints until "ready".
func start(t *testing.T, path string, args ...string) *target {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Stderr = os.Stderr
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
	mem, err := os.Open(filepath.Join("/proc", strconv.Itoa(cmd.Process.Pid), "mem"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { mem.Close() })
	p := &target{mem: live{mem}, pid: cmd.Process.Pid, input: input, more: bufio.NewScanner(output)}
	p.more.Buffer(nil, 1<<22)
	p.lines = p.wait(t)
	return p
}

// wait returns the lines up to the next "ready".
func (p *target) wait(t *testing.T) []string {
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
func (p *target) waitUntilReading(t *testing.T) {
	t.Helper()
	const read = "0 0x0 " // system call number and first argument
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); runtime.Gosched() {
		now, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(p.pid), "syscall"))
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(string(now), read) {
			return
		}
	}
	t.Fatal("the program never waited for its input")
}

// tell makes the program continue.
func (p *target) tell(t *testing.T) {
	t.Helper()
	if _, err := p.input.Write([]byte("\n")); err != nil {
		t.Fatal(err)
	}
}

// described yields each line of JSON that the program printed, with the address
// that V8 printed after it.
func described[T any](t *testing.T, lines []string, check func(want T, addr uint64)) int {
	t.Helper()
	n := 0
	for i, line := range lines {
		if !strings.HasPrefix(line, "{\"") || i+1 == len(lines) {
			continue
		}
		var want T
		if err := json.Unmarshal([]byte(line), &want); err != nil {
			t.Fatal(err)
		}
		number, _, _ := strings.Cut(strings.TrimPrefix(lines[i+1], "DebugPrint: "), ":")
		addr, err := strconv.ParseUint(number, 0, 64)
		if err != nil {
			t.Fatalf("after %s: %v", line, err)
		}
		check(want, addr)
		n++
	}
	return n
}

func TestFunctionsAreNamedAsV8NamesThem(t *testing.T) {
	forEachRelease(t, func(t *testing.T, path string) {
		p := start(t, path, "--allow-natives-syntax", "--expose-gc", "testdata/functions.js")
		h := heapAt(t, p.mem, inspect(t, path))
		type truth struct {
			Name, Inferred              string
			Script, Start, Line, Column int
			Length                      int
		}
		n := described(t, p.lines, func(want truth, addr uint64) {
			f, err := functionAt(h, addr)
			if err != nil {
				t.Errorf("%s: %v", want.Name, err)
				return
			}
			got := truth{Name: f.String(), Inferred: f.Inferred, Script: f.ScriptID, Start: f.Start}
			if f.Script != 0 {
				source, err := ReadScript(h, f.Script, f.ScriptID)
				if err != nil {
					t.Errorf("%s: %v", want.Name, err)
				}
				got.Line, got.Column = source.Position(f.Start)
				got.Length = source.length
			}
			if got != want {
				t.Errorf("read %+v, want %+v", got, want)
			}
		})
		if want := 43; n != want {
			t.Errorf("read %d functions, want %d", n, want)
		}
	})
}

func TestStringsOfAllKindsAreRead(t *testing.T) {
	forEachRelease(t, func(t *testing.T, path string) {
		b := inspect(t, path)
		p := start(t, path, "--allow-natives-syntax", "--expose-gc", "--expose-externalize-string", "testdata/strings.js")
		h := heapAt(t, p.mem, b)
		type text struct {
			Kind, Text string
			Length     int
		}
		n := described(t, p.lines, func(want text, addr uint64) {
			got, _, err := h.Text(Ref(addr), maxName)
			if want.Kind == "uncached" && b.Layout.ExternalData == 0 {
				if !contains(err, "known to its C++ object alone") {
					t.Errorf("%s = %q, %v, want an error", want.Kind, got, err)
				}
				return
			}
			if err != nil {
				t.Errorf("%s: %v", want.Kind, err)
			}
			if cut := want.Text[:min(len(want.Text), maxName)]; got != cut {
				t.Errorf("%s = %q, want %q", want.Kind, got, cut)
			}
		})
		if want := 12; n < want {
			t.Errorf("read %d strings, want at least %d", n, want)
		}
	})
}
