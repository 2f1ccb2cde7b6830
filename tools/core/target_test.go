package core

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"ustack/testdata/nodetest"
)

// A mapped process has memory of every kind.
type mapped struct {
	pid int
	at  map[string]uint64 // where, by testdata/mappings.c's names
	cmd *exec.Cmd
}

// startMapped runs testdata/mappings.c until the test ends.
func startMapped(t *testing.T) mapped {
	t.Helper()
	dir := t.TempDir()
	program := filepath.Join(dir, "mappings")
	if out, err := exec.Command("gcc", "-O1", "-o", program, "testdata/mappings.c").CombinedOutput(); err != nil {
		t.Fatalf("compile testdata/mappings.c: %v\n%s", err, out)
	}
	cmd := exec.Command(program, dir)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stdin.Close()
		if cmd.ProcessState != nil {
			return // killed
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("the target: %v", err)
		}
	})
	m := mapped{cmd.Process.Pid, make(map[string]uint64), cmd}
	lines := bufio.NewScanner(stdout)
	for lines.Scan() && lines.Text() != "ready" {
		name, address, _ := strings.Cut(lines.Text(), " ")
		if m.at[name], err = strconv.ParseUint(strings.TrimPrefix(address, "0x"), 16, 64); err != nil {
			t.Fatal(err)
		}
	}
	if lines.Text() != "ready" {
		t.Fatalf("the target said %q last, %v", lines.Text(), lines.Err())
	}
	return m
}

// A heap is a node with a heap of known content.
type heap struct{ *nodetest.Target }

// startHeap runs testdata/heap.js with a heap of that size, and two workers.
func startHeap(t testing.TB, version, megabytes string) heap {
	t.Helper()
	return startHeapBy(t, nodetest.Node(t, version), megabytes)
}

// startHeapBy runs it by a program that is or becomes node.
func startHeapBy(t testing.TB, node, megabytes string) heap {
	t.Helper()
	script, err := filepath.Abs("testdata/heap.js")
	if err != nil {
		t.Fatal(err)
	}
	return heap{nodetest.Start(t, node, nodetest.Options{
		Flags: []string{"--max-old-space-size=8000"}, Script: script, Args: []string{megabytes, "2"},
	})}
}

// checkRunsOn has the process add up its heap, and checks that the sum is right
// and that nothing holds the process or is held by it.
func (h heap) checkRunsOn(t testing.TB) {
	t.Helper()
	if tracer := h.status(t, "TracerPid:"); tracer != "0" {
		t.Errorf("traced by %s, want by nobody", tracer)
	}
	children, err := os.ReadFile(h.proc("task", strconv.Itoa(h.PID), "children"))
	if len(children) > 0 || err != nil {
		t.Errorf("children = %q, %v, want none", children, err)
	}
	h.Signal(syscall.SIGUSR2)
	word, facts, _ := strings.Cut(h.Line(), " ")
	var got struct{ Arrays, Sum int }
	if err := json.Unmarshal([]byte(facts), &got); err != nil || word != "sum" {
		t.Fatalf("the target said %q %q, want a sum", word, facts)
	}
	const length = 90
	if want := length * (got.Arrays - 1) * got.Arrays / 2; got.Sum != want {
		t.Errorf("sum = %d, want %d", got.Sum, want)
	}
	if state := h.Wait(); !state.Success() {
		t.Errorf("the target: %v", state)
	}
}

func (h heap) proc(names ...string) string {
	return filepath.Join(append([]string{"/proc", strconv.Itoa(h.PID)}, names...)...)
}

// status returns a field of the process's status file.
func (h heap) status(t testing.TB, key string) string {
	t.Helper()
	text, err := os.ReadFile(h.proc("status"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), key)
	value, _, _ := strings.Cut(rest, "\n")
	return strings.TrimSpace(value)
}

// tids returns the process's threads, by number.
func (h heap) tids(t testing.TB) []int {
	t.Helper()
	entries, err := os.ReadDir(h.proc("task"))
	if err != nil {
		t.Fatal(err)
	}
	var all []int
	for _, e := range entries {
		tid, err := strconv.Atoi(e.Name())
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, tid)
	}
	slices.Sort(all)
	return all
}

// freeze stops the process by a signal, and returns when all threads have
// stopped. They stay so until SIGCONT.
func (h heap) freeze(t testing.TB) {
	t.Helper()
	h.Signal(syscall.SIGSTOP)
	h.awaitStopped(t)
}

// awaitStopped waits until each thread is stopped, as it will be: one that was let
// go after a trace must run to stop anew.
func (h heap) awaitStopped(t testing.TB) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for _, tid := range h.tids(t) {
		for {
			stat, err := os.ReadFile(h.proc("task", strconv.Itoa(tid), "stat"))
			if err != nil {
				t.Fatal(err)
			}
			if _, rest, _ := strings.Cut(string(stat), ") "); strings.HasPrefix(rest, "T") {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("thread %d does not stop: %s", tid, stat)
			}
		}
	}
}

// registers returns where a stopped thread's stack and next instruction are, as
// the kernel tells it apart from ptrace.
func (h heap) registers(t testing.TB, tid int) (sp, pc uint64) {
	t.Helper()
	text, err := os.ReadFile(h.proc("task", strconv.Itoa(tid), "syscall"))
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		t.Fatalf("thread %d is not stopped: %q", tid, text)
	}
	for i, to := range []*uint64{&sp, &pc} {
		*to, err = strconv.ParseUint(strings.TrimPrefix(fields[len(fields)-2+i], "0x"), 16, 64)
		if err != nil {
			t.Fatal(err)
		}
	}
	return sp, pc
}

// open opens a core until the test ends.
func open(t testing.TB, path string) *File {
	t.Helper()
	f, err := Open(t.Context(), path, OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

// checkOnly checks that the folder holds the files of these names and no other.
func checkOnly(t testing.TB, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if !slices.Equal(got, want) {
		t.Errorf("files = %q, want %q", got, want)
	}
}
