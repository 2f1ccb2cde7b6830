package stopon

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ustack/bpf"
	"ustack/symbolize/space"
	"ustack/testdata/nodetest"
	"ustack/tools/core"
	"ustack/tools/event"
	"ustack/tools/trace"
)

// badClose is the seed's case.
func badClose(actions ...Action) Options {
	return Options{
		Syscalls: []string{"close"}, Errnos: []unix.Errno{unix.EBADF}, Count: 1, Actions: actions,
		Acted: func(*Hit, *Action) {},
	}
}

func startTrouble(t *testing.T, version, scenario string) *nodetest.Target {
	t.Helper()
	return nodetest.Start(t, nodetest.Node(t, version), nodetest.Options{Script: "trouble.js", Args: []string{scenario}})
}

// status returns a field of /proc/PID/status.
func status(t *testing.T, pid int, name string) string {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	t.Fatalf("no %s in the status of %d", name, pid)
	return ""
}

// checkFree checks that a process is neither stopped nor traced and has no child.
func checkFree(t *testing.T, pid int) {
	t.Helper()
	if state := status(t, pid, "State"); strings.HasPrefix(state, "T") || strings.HasPrefix(state, "t") {
		t.Errorf("state = %s, want it running", state)
	}
	if tracer := status(t, pid, "TracerPid"); tracer != "0" {
		t.Errorf("traced by %s, want nobody", tracer)
	}
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		t.Fatal(err)
	}
	if len(children) > 0 {
		t.Errorf("children = %s, want none", children)
	}
}

// Registers in struct user_regs_struct (arch/x86/include/asm/user_64.h), or in
// struct user_pt_regs (arch/arm64/include/uapi/asm/ptrace.h): a call's result, and the pc.
var (
	resultAt = map[string]int{"amd64": 10 * 8, "arm64": 0}[runtime.GOARCH]
	pcAt     = map[string]int{"amd64": 16 * 8, "arm64": 32 * 8}[runtime.GOARCH]
)

// checkCore checks that the first thread of a core is the guilty one, just after
// the system call that failed.
func checkCore(t *testing.T, h *Hit) {
	t.Helper()
	f, err := core.Open(t.Context(), h.Core.Path, core.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	first := f.Threads()[0]
	if first.TID != h.TID {
		t.Errorf("first thread = %d, want %d", first.TID, h.TID)
	}
	if result := int64(binary.NativeEndian.Uint64(first.General[resultAt:])); result != -int64(unix.EBADF) {
		t.Errorf("result = %d, want %d", result, -int64(unix.EBADF))
	}
	pc := binary.NativeEndian.Uint64(first.General[pcAt:])
	if mapped := slices.ContainsFunc(f.Mappings(), func(m space.Mapping) bool {
		return pc >= m.Start && pc < m.End && strings.Contains(m.Path, "libc")
	}); !mapped {
		t.Errorf("pc = %#x, want it in the C library", pc)
	}
	var note struct {
		Event string
		Stack []struct{ Name string }
	}
	if err := json.Unmarshal(f.Note(), &note); err != nil {
		t.Fatalf("decode the note: %v", err)
	}
	if note.Event != h.Event || len(note.Stack) != len(h.Frames) {
		t.Errorf("note = %+v, want %s with %d frames", note, h.Event, len(h.Frames))
	}
}

// TestSeedCase stops a program that closes a descriptor twice just there, takes a
// core and lets it run on.
func TestSeedCase(t *testing.T) {
	nodetest.Root(t)
	for _, version := range nodetest.Versions {
		t.Run(fmt.Sprintf("node%d", nodetest.Major(version)), func(t *testing.T) {
			nodetest.NothingLeft(t, programs...)
			target := startTrouble(t, version, "badclose")
			r := watch(t, target, badClose(Action{Do: Core, Pattern: filepath.Join(t.TempDir(), "core.{pid}")}))
			done := perform(t, target)
			if want := 78; done.Sum != want { // of 0 to 12
				t.Errorf("answer = %d, want %d", done.Sum, want)
			}
			<-r.done
			if r.err != nil || len(r.hits) != 1 || r.hits[0].Core == nil {
				t.Fatalf("hits = %+v (%v), want one with a core", r.hits, r.err)
			}
			checkCore(t, r.hits[0])
			checkFree(t, target.PID)
		})
	}
}

func TestStopLeavesItStopped(t *testing.T) {
	nodetest.Root(t)
	target := startTrouble(t, "22.23.3", "badclose")
	r := watch(t, target, badClose(Action{Do: Stop}))
	target.Signal(unix.SIGUSR2)
	<-r.done
	if r.err != nil || len(r.hits) != 1 || !r.hits[0].Stays {
		t.Fatalf("hits = %+v (%v), want one that is left stopped", r.hits, r.err)
	}
	// It takes the signal once it has a CPU.
	if err := unix.Waitid(unix.P_PID, target.PID, nil, unix.WSTOPPED|unix.WNOWAIT, nil); err != nil {
		t.Errorf("wait until it is stopped: %v", err)
	}
	// It has executed nothing since: a core now has it at the same place.
	path := filepath.Join(t.TempDir(), "core")
	result, err := core.Write(context.Background(), target.PID, path, core.Options{Thread: r.hits[0].TID, Note: mustJSON(t, r.hits[0])})
	if err != nil {
		t.Fatal(err)
	}
	r.hits[0].Core = result
	checkCore(t, r.hits[0])
	target.Signal(unix.SIGCONT)
	if line := target.Line(); !strings.HasPrefix(line, "done ") {
		t.Errorf("line = %q, want done", line)
	}
}

func mustJSON(t *testing.T, h *Hit) []byte {
	t.Helper()
	text, err := json.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestAbortLeavesTheKernelsCore is the seed's first form: the process dies by
// SIGABRT in the guilty thread, and the kernel writes the core.
func TestAbortLeavesTheKernelsCore(t *testing.T) {
	nodetest.Root(t)
	for _, version := range nodetest.Versions {
		t.Run(fmt.Sprintf("node%d", nodetest.Major(version)), func(t *testing.T) { testAbort(t, version) })
	}
}

func testAbort(t *testing.T, version string) {
	dir := t.TempDir()
	corePattern(t, filepath.Join(dir, "core.%p"))
	target := nodetest.Start(t, nodetest.Node(t, version), nodetest.Options{
		Script: "trouble.js", Args: []string{"badclose"}, MayFail: true,
	})
	unlimited := &unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY}
	if err := unix.Prlimit(target.PID, unix.RLIMIT_CORE, unlimited, nil); err != nil {
		t.Fatalf("allow a core: %v", err)
	}
	r := watch(t, target, badClose(Action{Do: Kill, Signal: unix.SIGABRT}))
	target.Signal(unix.SIGUSR2)
	<-r.done
	if r.err != nil || len(r.hits) != 1 || r.hits[0].Raised != unix.SIGABRT {
		t.Fatalf("hits = %+v (%v), want one that raised SIGABRT", r.hits, r.err)
	}
	if state := target.Wait().Sys().(syscall.WaitStatus); state.Signal() != syscall.SIGABRT || !state.CoreDump() {
		t.Errorf("end = %v, want by SIGABRT with a core", state)
	}
	f, err := core.Open(t.Context(), filepath.Join(dir, fmt.Sprintf("core.%d", target.PID)), core.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	first := f.Threads()[0]
	if result := int64(binary.NativeEndian.Uint64(first.General[resultAt:])); first.TID != r.hits[0].TID || result != -int64(unix.EBADF) {
		t.Errorf("first thread = %d with result %d, want %d with %d", first.TID, result, r.hits[0].TID, -int64(unix.EBADF))
	}
}

// corePattern has the kernel name cores so until the test ends.
func corePattern(t *testing.T, pattern string) {
	t.Helper()
	const name = "/proc/sys/kernel/core_pattern"
	old, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(pattern), 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.WriteFile(name, old, 0); err != nil {
			t.Error(err)
		}
	})
}

func TestActionsComeInOrder(t *testing.T) {
	nodetest.Root(t)
	dir := t.TempDir()
	target := startTrouble(t, "22.23.3", "badclose")
	out := filepath.Join(dir, "said")
	r := watch(t, target, badClose(
		Action{Do: Exec, Command: "echo {pid} {tid} {core} > " + out},
		Action{Do: Core, Pattern: dir + "/"},
		Action{Do: Exec, Command: "ls {core} >> " + out},
	))
	perform(t, target)
	<-r.done
	if r.err != nil || len(r.hits) != 1 || len(r.hits[0].Errors) > 0 {
		t.Fatalf("hits = %+v (%v), want one without errors", r.hits, r.err)
	}
	h := r.hits[0]
	text, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(text), fmt.Sprintf("%d %d \n%s\n", h.PID, h.TID, h.Core.Path); got != want {
		t.Errorf("the hooks said %q, want %q", got, want)
	}
}

// failures are actions that fail: the process keeps running, and the cause is reported.
func TestFailedActionLetsItRunOn(t *testing.T) {
	nodetest.Root(t)
	for _, test := range []struct {
		name, want string
		action     Action
	}{
		{"no folder", "no such file", Action{Do: Core, Pattern: "/none/core"}},
		{"hook", "exit status 7", Action{Do: Exec, Command: "exit 7"}},
		{"no room", "no space left", Action{Do: Core, Pattern: smallDisk(t) + "/core"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			target := startTrouble(t, "22.23.3", "badclose")
			o := badClose(test.action)
			var warnings []string
			r := watchWarned(t, target, o, func(err error) { warnings = append(warnings, err.Error()) })
			perform(t, target)
			<-r.done
			if r.err != nil || r.result.Failed != 1 {
				t.Errorf("result = %+v (%v), want one failed action", r.result, r.err)
			}
			if text := strings.Join(warnings, "\n"); !strings.Contains(text, test.want) {
				t.Errorf("warnings = %q, want %q in them", text, test.want)
			}
			checkFree(t, target.PID)
		})
	}
}

// smallDisk mounts a file system of 1 MiB until the test ends.
func smallDisk(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Fatalf("mount a small disk: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Errorf("unmount the small disk: %v", err)
		}
	})
	return dir
}

// TestStopHasALimit: whatever the actions do, the process is resumed in time.
func TestStopHasALimit(t *testing.T) {
	nodetest.Root(t)
	target := startTrouble(t, "22.23.3", "badclose")
	finished := make(chan struct{})
	o := badClose(
		Action{Do: Call, Function: func(ctx context.Context, _ *Hit) error {
			select {
			case <-finished: // only if it was let go meanwhile
				return nil
			case <-time.After(hitLimit):
				return errors.New("still stopped")
			}
		}},
		Action{Do: Core, Pattern: t.TempDir() + "/"},
	)
	o.MaxStop = 300 * time.Millisecond
	r := watch(t, target, o)
	perform(t, target)
	close(finished)
	<-r.done
	if r.err != nil || r.result.Failed > 0 {
		t.Errorf("result = %+v (%v), want no failures", r.result, r.err)
	}
}

// TestTakingACoreIsNoHit takes cores of a process that is not stopped for them.
func TestTakingACoreIsNoHit(t *testing.T) {
	nodetest.Root(t)
	const events = 7 // of the program's own
	target := startTrouble(t, "22.23.3", "functions")
	r := watch(t, target, Options{
		Syscalls:   []string{"chdir", "wait4"},
		Conditions: []event.Condition{{Of: event.OfResult, Comparison: event.Comparison{Is: bpf.TraceComparisonNOT_EQUAL, Value: 0}}},
		Actions: []Action{
			{Do: Kill, Signal: unix.SIGWINCH},
			{Do: Core, Pattern: t.TempDir() + "/core"},
			{Do: Exec, Command: "rm {core}"},
		},
		Count: events,
	})
	if done := perform(t, target); done.Events != events {
		t.Fatalf("events = %d, want %d", done.Events, events)
	}
	<-r.done
	if r.err != nil || r.result.Matches != events || r.result.Failed > 0 {
		t.Errorf("result = %+v (%v), want %d matches and nothing failed", r.result, r.err, events)
	}
	checkFree(t, target.PID)
}

func TestTwoAtOnce(t *testing.T) {
	nodetest.Root(t)
	target := startTrouble(t, "22.23.3", "badclose")
	core := func() Options { return badClose(Action{Do: Core, Pattern: t.TempDir() + "/"}) }
	first := watchWarned(t, target, core(), func(error) {}) // each may find the other at it
	second := watchWarned(t, target, core(), func(error) {})
	if done := perform(t, target); done.Sum != 78 {
		t.Errorf("answer = %d, want 78", done.Sum)
	}
	<-first.done
	<-second.done
	for _, r := range []*run{first, second} {
		if r.err != nil || len(r.hits) != 1 {
			t.Errorf("hits = %d (%v), want 1", len(r.hits), r.err)
		}
	}
	checkFree(t, target.PID)
}

func TestNow(t *testing.T) {
	nodetest.Root(t)
	target := startTrouble(t, "22.23.3", "badclose")
	var hits []*Hit
	result, err := Now(context.Background(), Options{
		Selection: trace.Selection{PIDs: []int{target.PID}}, Actions: []Action{{Do: Core, Pattern: t.TempDir() + "/"}},
		Report: func(h *Hit) error {
			hits = append(hits, h)
			return nil
		},
		Warn: func(err error) { t.Errorf("warning: %v", err) },
	})
	if err != nil || result.Acted != 1 || len(hits) != 1 || hits[0].Core == nil {
		t.Fatalf("result = %+v, hits = %+v (%v), want one with a core", result, hits, err)
	}
	checkFree(t, target.PID)
	perform(t, target)
	if _, err := Now(context.Background(), Options{Selection: trace.Selection{PIDs: []int{1 << 22}}, Report: func(*Hit) error { return nil }}); !errors.Is(err, unix.ESRCH) {
		t.Errorf("error = %v, want no such process", err)
	}
}

func TestSupervisorNeedsItsOwnMain(t *testing.T) {
	canSupervise.Store(false)
	defer canSupervise.Store(true)
	if _, err := startSupervisor(nil, time.Second); !errors.Is(err, errNotSupervised) {
		t.Errorf("error = %v, want that the program has not called Supervise", err)
	}
}
