package jscore

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"ustack/testdata/nodetest/calls"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"ustack/symbolize"
	"ustack/symbolize/v8/stack"
	"ustack/testdata/nodetest"
	"ustack/tools/core"
)

// anyVersion is for tests that do not depend on the version.
const anyVersion = "22.23.3"

// opened opens a core, and closes it when the test ends.
func opened(t *testing.T, path string, o Options) *Dump {
	t.Helper()
	d, err := Open(t.Context(), path, o)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

// named returns the functions that have a script on a thread's stack.
func named(d *Dump, thread stack.Thread) []string {
	var names []string
	for _, f := range d.Stack(thread).Frames {
		if f.Kind == symbolize.JS {
			names = append(names, f.Name)
		}
	}
	return names
}

// TestCoresOfAllMakersAreRead takes cores of one process in several ways. The stack is
// the same in all of them.
func TestCoresOfAllMakersAreRead(t *testing.T) {
	c := calls.Start(t, anyVersion, nil)
	folder := t.TempDir()
	for _, tt := range []struct {
		name string
		make func(path string) error
	}{
		{"ours", func(path string) error {
			_, err := core.Write(t.Context(), c.PID, path, core.Options{})
			return err
		}},
		{"ours.zst", func(path string) error {
			_, err := core.Write(t.Context(), c.PID, path, core.Options{})
			return err
		}},
		{"gdb", func(path string) error {
			pid := strconv.Itoa(c.PID)
			return exec.CommandContext(t.Context(), "gdb", "-p", pid, "-batch", "-nx", "-ex", "gcore "+path).Run()
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(folder, tt.name)
			if err := tt.make(path); err != nil {
				nodetest.MustRun(t, "take a core: "+err.Error())
			}
			d := opened(t, path, Options{})
			if len(d.Missing()) != 0 {
				t.Errorf("missing: %v, want nothing", d.Missing())
			}
			calls.Check(t, d.Unwinder, c, d.Threads()[0])
			if s, ok := d.Signal(); ok {
				t.Errorf("signal = %v, want none: the process ran", s)
			}
		})
	}
}

// TestThreadsOfTheKernelHaveNoStack has libuv ask the kernel for a thread that polls a queue.
func TestThreadsOfTheKernelHaveNoStack(t *testing.T) {
	const plan = `{"stay":true,"steps":[{"call":"fs.stat","count":3}]}`
	const version = "20.20.2" // later ones do not ask for it
	target := nodetest.Start(t, nodetest.Node(t, version), nodetest.Options{
		Script: "jobs.js", Args: []string{plan}, Env: []string{"UV_USE_IO_URING=1"},
	})
	jobs := nodetest.Jobs{Target: target}
	jobs.Begin()
	jobs.Done()
	d := dumped(t, target.PID, Options{})
	polling := 0
	for _, thread := range d.Threads() {
		if thread.Registers.SP != 0 {
			continue
		}
		polling++
		if s := d.Stack(thread); thread.Isolate != 0 || len(s.Frames) > 0 || s.Broken {
			t.Errorf("thread %d has the isolate %#x and the stack %+v, want neither", thread.TID, thread.Isolate, s)
		}
	}
	if polling == 0 {
		t.Error("there is no thread of the kernel's")
	}
	g, err := d.Graph(t.Context())
	if err != nil || g.Doubts.Loose {
		t.Errorf("Graph: %v, want one whose roots were all found", err)
	}
}

// died returns the kernel's core of a program that is killed by a signal, and its PID.
func died(t *testing.T, node string, args ...string) (d *Dump, pid int) {
	t.Helper()
	path, pid := nodetest.Killed(t, node, args...)
	return opened(t, path, Options{}), pid
}

// TestKernelsCoreTellsWhy has a program abort.
func TestKernelsCoreTellsWhy(t *testing.T) {
	script := `function dies(a) { process.abort(a); }
		dies(3);`
	d, pid := died(t, nodetest.Node(t, anyVersion), "-e", script)
	if s, ok := d.Signal(); !ok || s.Number != unix.SIGABRT || s.Sender != pid {
		t.Errorf("signal = %+v, %v, want SIGABRT by %d", s, ok, pid)
	}
	if got := named(d, d.Threads()[0]); !slices.Contains(got, "dies") {
		t.Errorf("functions = %v, want dies among them", got)
	}
	arguments, err := d.Arguments()
	if want := []string{nodetest.Node(t, anyVersion), "-e", script}; err != nil || !cmp.Equal(want, arguments) {
		t.Errorf("arguments = %q, %v, want %q", arguments, err, want)
	}
	environment, err := d.Environment()
	if err != nil || !slices.Contains(environment, "OF_THE_TEST=1") {
		t.Errorf("environment = %q, %v, want OF_THE_TEST=1 in it", environment, err)
	}
	if got := d.Node().FatalError(); got != "" {
		t.Errorf("fatal error = %q, want none", got)
	}
}

// TestAttachLeavesTheProcessRunning examines a live process.
func TestAttachLeavesTheProcessRunning(t *testing.T) {
	c := calls.Start(t, anyVersion, nil)
	d, err := Attach(t.Context(), c.PID, Options{})
	if err != nil {
		t.Fatalf("Attach: %v", err)
	}
	defer d.Close()
	calls.Check(t, d.Unwinder, c, d.Threads()[0])
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(c.PID) + "/stat")
	if err != nil || strings.Contains(string(stat), ") T") {
		t.Errorf("the process is stopped: %s, %v", stat, err)
	}
	if _, err := Attach(t.Context(), 1<<30, Options{}); err == nil {
		t.Error("attach to no process: no error")
	}
}

// moved returns a core of a program that is no longer where it was, and where it is now.
func moved(t *testing.T) (path, program string, c calls.Chain) {
	t.Helper()
	node, err := os.ReadFile(nodetest.Node(t, anyVersion))
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	was := filepath.Join(folder, "node")
	if err := os.WriteFile(was, node, 0o700); err != nil {
		t.Fatal(err)
	}
	target := nodetest.Start(t, was, nodetest.Options{Script: "postmortem_stack.js"})
	target.Facts(&c)
	path = filepath.Join(folder, "core")
	if _, err := core.Write(t.Context(), c.PID, path, core.Options{}); err != nil {
		t.Fatal(err)
	}
	target.Stop()
	program = filepath.Join(folder, "elsewhere", "program")
	if err := os.Mkdir(filepath.Dir(program), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(was, program); err != nil {
		t.Fatal(err)
	}
	return path, program, c
}

// TestProgramIsFoundAgain opens a core whose program has moved.
func TestProgramIsFoundAgain(t *testing.T) {
	path, program, c := moved(t)
	byID := t.TempDir()
	id := nodetest.OpenELF(t, program).BuildID()
	if err := os.MkdirAll(filepath.Join(byID, ".build-id", id[:2]), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(program, filepath.Join(byID, ".build-id", id[:2], id[2:]+".debug")); err != nil {
		t.Fatal(err)
	}
	root := filepath.Join(t.TempDir(), "root")
	was := filepath.Join(root, filepath.Dir(path), "node")
	if err := os.MkdirAll(filepath.Dir(was), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(program, was); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name    string
		options Options
	}{
		{"below a root", Options{Root: root, Folders: []string{"/usr/lib", "/lib"}}},
		{"given", Options{Exe: program}},
		{"in a folder", Options{Folders: []string{t.TempDir(), filepath.Dir(program)}}},
		{"by build ID", Options{Folders: []string{byID}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := opened(t, path, tt.options)
			if len(d.Missing()) != 0 {
				t.Errorf("missing: %v, want nothing", d.Missing())
			}
			calls.Check(t, d.Unwinder, c, d.Threads()[0])
		})
	}
}

// TestMissingProgramIsSaid opens a core without its program, and with the wrong program.
func TestMissingProgramIsSaid(t *testing.T) {
	path, _, c := moved(t)
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		exe  string
		why  string
	}{
		{"none", "", "not found"},
		{"another version's", nodetest.Node(t, "20.20.2"), "build ID"},
		{"no program", path, "build ID"},
		{"a pipe", pipe, "not a regular file"},
		{"no file", filepath.Join(t.TempDir(), "none"), "no such file"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := opened(t, path, Options{Exe: tt.exe})
			said := slices.ContainsFunc(d.Missing(), func(m Missing) bool { return strings.Contains(m.String(), tt.why) })
			if !said || len(d.Missing()) < 2 {
				t.Errorf("missing = %v, want %q in it, and V8", d.Missing(), tt.why)
			}
			if d.v8.Binary != nil || d.Heap() != nil {
				t.Errorf("there is a V8 without its file")
			}
			s := d.Stack(d.Threads()[0])
			if len(s.Frames) < 20 { // by frame pointers, without names
				t.Errorf("frames = %d, want 20 or more", len(s.Frames))
			}
			if len(d.Threads()) < 5 || d.Info().PID != c.PID {
				t.Errorf("threads = %d of process %d, want 5 or more of %d", len(d.Threads()), d.Info().PID, c.PID)
			}
			if arguments, err := d.Arguments(); err != nil || len(arguments) != 2 {
				t.Errorf("arguments = %q, %v, want 2", arguments, err)
			}
		})
	}
}

// TestMemoryComesFromFilesToo reads V8's version, which is not in the core but in the file.
func TestMemoryComesFromFilesToo(t *testing.T) {
	c := calls.Start(t, anyVersion, nil)
	d := dumped(t, c.PID, Options{})
	s, ok := d.v8.Module.ELF.Symbol("_ZN2v88internal7Version6major_E")
	if !ok {
		t.Fatal("no symbol")
	}
	var b [4]byte
	if _, err := d.ReadAt(b[:], s.Address); err != nil || int(b[0]) != d.v8.Binary.Version.Major {
		t.Errorf("major version = %d, %v, want %d", b[0], err, d.v8.Binary.Version.Major)
	}
	if n, err := d.ReadAt(make([]byte, 64), 8); err == nil || n != 0 {
		t.Errorf("read %d bytes at 8: %v, want an error", n, err)
	}
	exec, write, files := 0, 0, 0
	for i, r := range d.Regions() {
		if r.Start >= r.End || i > 0 && r.Start < d.Regions()[i-1].End {
			t.Errorf("region %d is out of order: %+v", i, r)
		}
		exec, write, files = exec+count(r.Exec), write+count(r.Write), files+count(r.File != "")
	}
	if exec == 0 || write == 0 || files == 0 {
		t.Errorf("executable, writable, of files: %d, %d, %d regions, want some of each", exec, write, files)
	}
}

func count(is bool) int {
	if is {
		return 1
	}
	return 0
}

func TestSignalIsReadFromItsInfo(t *testing.T) {
	info := func(number, code byte, value byte) []byte {
		b := make([]byte, 128)
		b[0], b[siginfoCode], b[siginfoUnion] = number, code, value
		if code >= 0x80 {
			b[siginfoCode+1], b[siginfoCode+2], b[siginfoCode+3] = 0xff, 0xff, 0xff
		}
		return b
	}
	for _, tt := range []struct {
		name   string
		thread core.Thread
		want   Signal
		ok     bool
	}{
		{"a fault", core.Thread{Siginfo: info(11, 1, 8)}, Signal{Number: syscall.SIGSEGV, Code: 1, Address: 8}, true},
		{"by kill", core.Thread{Siginfo: info(6, 0, 42)}, Signal{Number: syscall.SIGABRT, Sender: 42}, true},
		{"by tgkill", core.Thread{Siginfo: info(6, 0xfa, 42)}, Signal{Number: syscall.SIGABRT, Code: -6, Sender: 42}, true},
		{"stopped before", core.Thread{Signal: syscall.SIGSTOP}, Signal{Number: syscall.SIGSTOP}, false},
		{"gdb's", core.Thread{Siginfo: info(19, 0x7f, 0)}, Signal{}, false},
		{"none", core.Thread{}, Signal{}, false},
		{"no signal", core.Thread{Siginfo: info(99, 1, 8)}, Signal{}, false},
	} {
		if got, ok := signalOf(tt.thread); got != tt.want || ok != tt.ok {
			t.Errorf("%s: %+v, %v, want %+v, %v", tt.name, got, ok, tt.want, tt.ok)
		}
	}
}

func TestCutShortCoreIsSaid(t *testing.T) {
	c := calls.Start(t, anyVersion, nil)
	path := filepath.Join(t.TempDir(), "core")
	if _, err := core.Write(t.Context(), c.PID, path, core.Options{}); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if whole := opened(t, path, Options{}); len(whole.Missing()) > 0 {
		t.Errorf("missing of a whole core: %v", whole.Missing())
	}
	if err := os.Truncate(path, info.Size()*2/3); err != nil {
		t.Fatal(err)
	}
	d := opened(t, path, Options{})
	if !slices.ContainsFunc(d.Missing(), func(m Missing) bool { return errors.Is(m.Err, core.ErrCutShort) }) {
		t.Errorf("missing = %v, want %v", d.Missing(), core.ErrCutShort)
	}
	for _, thread := range d.Threads() {
		d.Stack(thread)
	}
}

// matrix reports whether to test every combination: that is for `make test-matrix`, not
// for each change.
func matrix() bool { return os.Getenv("USTACK_MATRIX") == "1" }

// dumped takes a core of a live process and opens it.
func dumped(t testing.TB, pid int, o Options) *Dump {
	t.Helper()
	path := filepath.Join(t.TempDir(), "core")
	if _, err := core.Write(t.Context(), pid, path, core.Options{}); err != nil {
		t.Fatalf("core.Write: %v", err)
	}
	d, err := Open(t.Context(), path, o)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return d
}
