package addonlat

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"ustack/testdata/nodetest"
	"ustack/tools/trace"
)

// slowLookups returns the environment that makes a program's name look-ups wait, and a
// function that releases a number of them.
func slowLookups(t *testing.T) (env []string, release func(lookups int)) {
	t.Helper()
	dir := t.TempDir()
	library, gate := filepath.Join(dir, "slow.so"), filepath.Join(dir, "gate")
	cmd := exec.CommandContext(t.Context(), "gcc", "-O2", "-shared", "-fPIC", "-o", library, nodetest.Program("slow.c"), "-ldl")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("compile slow.c: %v\n%s", err, out)
	}
	if err := unix.Mkfifo(gate, 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(gate, os.O_RDWR, 0) // so that no open waits for another
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	release = func(lookups int) {
		if _, err := file.Write(make([]byte, lookups)); err != nil {
			t.Fatal(err)
		}
	}
	return []string{"LD_PRELOAD=" + library, "SLOW_GATE=" + gate}, release
}

// hears reads as many lines of the program as are wanted, by their first words, in
// any order.
func hears(t *testing.T, target *nodetest.Target, want map[string]int) {
	t.Helper()
	got := make(map[string]int)
	for _, n := range want {
		for range n {
			word, _, _ := strings.Cut(target.Line(), " ")
			got[word]++
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("lines (-want +got):\n%s", diff)
	}
}

// TestSlowQuotaIsCounted has half of the threads, rounded up, busy with name look-ups
// when more arrive: libuv runs none of the new ones.
func TestSlowQuotaIsCounted(t *testing.T) {
	const more = 13
	for _, threads := range []int{1, 4, 5} {
		t.Run(fmt.Sprintf("%d threads", threads), func(t *testing.T) {
			node := prepare(t)
			first := (threads + 1) / 2
			env, release := slowLookups(t)
			target := nodetest.Start(t, node, nodetest.Options{
				Script: "slow.js", Args: []string{fmt.Sprint(first), fmt.Sprint(more)},
				Env: append(env, fmt.Sprintf("UV_THREADPOOL_SIZE=%d", threads)),
			})
			m := begin(t, Options{Selection: trace.Selection{PIDs: []int{target.PID}}, Builtin: true})
			target.Signal(syscall.SIGUSR2)
			hears(t, target, map[string]int{"asked": 1, "begun": first})
			target.Signal(syscall.SIGUSR2)
			hears(t, target, map[string]int{"asked": 1})
			release(first + more)
			hears(t, target, map[string]int{"begun": more, "done": 1})
			r := m.end()
			m.silent()
			if diff := cmp.Diff(map[string]uint64{"dns.lookup": uint64(first + more)}, counts(r)); diff != "" {
				t.Errorf("jobs by kind (-want +got):\n%s", diff)
			}
			p := pool(t, r)
			got := Pool{Threads: p.Threads, SlowQuota: p.SlowQuota, Deepest: p.Deepest, Submitted: p.Submitted, Completed: p.Completed}
			want := Pool{Threads: uint64(threads), SlowQuota: more, Deepest: more, Submitted: uint64(first + more), Completed: uint64(first + more)}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("pool (-want +got):\n%s", diff)
			}
		})
	}
}

// uringVersion is the tested version whose libuv uses io_uring if the environment says
// so: older ones do not know about it, in newer ones the program must request it.
const uringVersion = "20.20.2"

// hasUring skips a test if the kernel has no io_uring.
func hasUring(t *testing.T) {
	t.Helper()
	var parameters [120]byte // struct io_uring_params
	fd, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, 1, uintptr(unsafe.Pointer(&parameters)), 0)
	if errno != 0 {
		nodetest.MustRun(t, fmt.Sprintf("io_uring_setup: %v", errno))
	}
	_ = unix.Close(int(fd))
}

// TestUringOperationsAreCountedApart: an operation by io_uring is not a job of the pool.
func TestUringOperationsAreCountedApart(t *testing.T) {
	hasUring(t)
	eachVersion(t, func(t *testing.T, version, node string) {
		checkUring(t, node, version == uringVersion)
	})
	t.Run("stripped", func(t *testing.T) {
		checkUring(t, nodetest.StrippedNode(t, uringVersion), true)
	})
}

// checkUring has node work on files, with io_uring if uses is true.
func checkUring(t *testing.T, node string, uses bool) {
	t.Helper()
	calls := map[string]uint64{"fs.stat": 23, "fs.read": 19, "fs.readdir": 17}
	var plan nodetest.Plan
	for call, count := range calls {
		plan.Steps = append(plan.Steps, nodetest.Step{Call: call, Count: int(count), InFlight: 3})
	}
	text, err := json.Marshal(plan)
	if err != nil {
		t.Fatal(err)
	}
	r, _ := measureJobs(t, nodetest.Jobs{Target: nodetest.Start(t, node, nodetest.Options{
		Script: "jobs.js", Args: []string{string(text)}, Env: []string{"UV_USE_IO_URING=1"},
	})}, Options{Builtin: true})
	uring := uint64(0)
	if uses {
		uring = calls["fs.stat"] + calls["fs.read"]
		delete(calls, "fs.stat")
		delete(calls, "fs.read") // libuv reads directories without it
	}
	if diff := cmp.Diff(calls, counts(r)); diff != "" {
		t.Errorf("jobs by kind (-want +got):\n%s", diff)
	}
	if p := pool(t, r); p.Uring != uring {
		t.Errorf("operations by io_uring = %d, want %d", p.Uring, uring)
	}
}
