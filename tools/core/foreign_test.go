package core

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"ustack/symbolize/space"
	"ustack/testdata/nodetest"
)

// Types of the auxiliary vector.
const (
	auxRandom = 25 // the address of 16 random bytes
	auxExecFn = 31 // and of the program's path
)

// A portrait is what a core by anybody must have right.
type portrait struct {
	PID     int
	Comm    string
	Threads int
	Auxv    []space.Aux
	Random  string
	ExecFn  string
	File    bool // the program is among the mappings
}

// portray returns what a core shows.
func portray(t *testing.T, f *File) portrait {
	t.Helper()
	got := portrait{PID: f.Info().PID, Comm: f.Info().Comm, Threads: len(f.Threads()), Auxv: f.Auxv()}
	for _, a := range f.Auxv() {
		switch a.Type {
		case auxRandom:
			got.Random = string(readCore(t, f, a.Value, 16))
		case auxExecFn:
			path, _, _ := bytes.Cut(readCore(t, f, a.Value, 256), []byte{0})
			got.ExecFn = string(path)
		}
	}
	for _, m := range f.Mappings() {
		got.File = got.File || m.Path == got.ExecFn
	}
	for _, thread := range f.Threads() {
		readCore(t, f, word(thread.General, wordSP), 64)
		if len(thread.Float) != 512 || len(thread.XState) < 576 || len(thread.Siginfo) != 0 && len(thread.Siginfo) != 128 {
			t.Errorf("thread %d: %d, %d and %d bytes", thread.TID, len(thread.Float), len(thread.XState), len(thread.Siginfo))
		}
	}
	return got
}

func readCore(t *testing.T, f *File, address uint64, size int) []byte {
	t.Helper()
	b := make([]byte, size)
	n, err := f.ReadAt(b, address)
	if n == 0 {
		t.Fatal(err)
	}
	return b[:n]
}

func TestCoresOfOthersAreRead(t *testing.T) {
	nodetest.Root(t)
	var old, unlimited unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_CORE, &old); err != nil {
		t.Fatal(err)
	}
	unlimited = unix.Rlimit{Cur: old.Max, Max: old.Max}
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unlimited); err != nil {
		t.Fatal(err)
	}
	defer unix.Setrlimit(unix.RLIMIT_CORE, &old)

	dir := t.TempDir()
	target := nodetest.Start(t, nodetest.Node(t, oneVersion), nodetest.Options{Script: "ticks.js", Dir: dir, MayFail: true})
	ours := filepath.Join(dir, "ours")
	if _, err := Write(t.Context(), target.PID, ours, Options{}); err != nil {
		t.Fatal(err)
	}
	want := portray(t, open(t, ours))
	if !want.File || want.Comm == "" || want.Random == "" {
		t.Fatalf("our own core shows %+v", want)
	}
	theirs := filepath.Join(dir, "gdb")
	out, err := exec.Command("gdb", "-nx", "-batch", "-p", strconv.Itoa(target.PID), "-ex", "gcore "+theirs).CombinedOutput()
	if err != nil {
		t.Fatalf("gdb: %v\n%s", err, out)
	}
	if diff := cmp.Diff(want, portray(t, open(t, theirs))); diff != "" {
		t.Errorf("gdb's core (-ours +gdb's):\n%s", diff)
	}
	target.Signal(syscall.SIGABRT)
	target.Wait()
	f := open(t, kernelCore(t, dir, target.PID))
	if diff := cmp.Diff(want, portray(t, f)); diff != "" {
		t.Errorf("the kernel's core (-ours +kernel's):\n%s", diff)
	}
	if got := f.Threads()[0].Signal; got != unix.SIGABRT {
		t.Errorf("signal = %v, want %v", got, unix.SIGABRT)
	}
}

// kernelCore returns where the kernel wrote the core of a process that ran in dir.
func kernelCore(t *testing.T, dir string, pid int) string {
	t.Helper()
	pattern, err := os.ReadFile("/proc/sys/kernel/core_pattern")
	if err != nil {
		t.Fatal(err)
	}
	if name := strings.TrimSpace(string(pattern)); name != "core" {
		nodetest.MustRun(t, fmt.Sprintf("the kernel's cores go to %q", name))
	}
	path := filepath.Join(dir, "core")
	if _, err := os.Stat(path); err != nil {
		return path + "." + strconv.Itoa(pid)
	}
	return path
}

func TestCompressedCoreOfNode(t *testing.T) {
	eachWay(t, func(t *testing.T, h heap, dir string, direct bool) []string {
		h.freeze(t)
		result, err := Write(t.Context(), h.PID, filepath.Join(dir, "core.zst"), Options{direct: direct, MaxStop: 60e9})
		if err != nil {
			t.Fatal(err)
		}
		if result.Disk*2 > int64(result.Resident) {
			t.Errorf("disk = %d, want less than half of %d", result.Disk, result.Resident)
		}
		f := open(t, result.Path)
		checkThreads(t, h, f, h.PID)
		checkMemory(t, h, f)
		h.Signal(syscall.SIGCONT)
		h.checkRunsOn(t)
		return []string{"core.zst"}
	})
}
