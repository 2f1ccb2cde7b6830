package nodetest

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// MustRun skips the test for reason. Under USTACK_MUST_RUN=1 the test fails
// instead: there, nothing may go unproven.
func MustRun(t testing.TB, reason string) {
	t.Helper()
	if os.Getenv("USTACK_MUST_RUN") == "1" {
		t.Fatalf("%s, and USTACK_MUST_RUN=1 lets no test be skipped", reason)
	}
	t.Skip(reason)
}

// Since skips a test for reason, if the kernel is older than the version of Linux that has what
// is tested. On any other kernel it is MustRun.
func Since(t testing.TB, major, minor int, reason string) {
	t.Helper()
	older, err := OlderThan(major, minor)
	if err != nil {
		t.Fatal(err)
	}
	if older {
		t.Skipf("%s: the kernel has that since Linux %d.%d", reason, major, minor)
	}
	MustRun(t, reason)
}

// OlderThan reports whether the kernel is older than a version of Linux.
func OlderThan(major, minor int) (bool, error) {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return false, err
	}
	return olderThan(unix.ByteSliceToString(name.Release[:]), major, minor)
}

func olderThan(release string, major, minor int) (bool, error) {
	var of [2]int
	if _, err := fmt.Sscanf(release, "%d.%d", &of[0], &of[1]); err != nil {
		return false, fmt.Errorf("read the kernel's version in %q: %w", release, err)
	}
	return slices.Compare(of[:], []int{major, minor}) < 0, nil
}

// Root skips a test that needs privileges where there are none.
func Root(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		MustRun(t, "not root")
	}
}

// OnVersions runs a test, which needs root, on each of these versions of Node.js, or on all
// under USTACK_MATRIX=1. No BPF program of these names may be left after it.
func OnVersions(t *testing.T, versions, programs []string, test func(t *testing.T, node string)) {
	t.Helper()
	if os.Getenv("USTACK_MATRIX") == "1" {
		versions = Versions
	}
	for _, version := range versions {
		t.Run(fmt.Sprintf("node%d", Major(version)), func(t *testing.T) {
			Root(t)
			NothingLeft(t, programs...)
			test(t, Node(t, version))
		})
	}
}

// NothingLeft checks, when the test and its cleanups are done, that the kernel
// holds no new BPF program with one of these names: a program lives as long as
// any link, perf event or descriptor holds it. Programs held by unrelated
// processes, such as another test, do not count. Call it first, so that its
// check comes last.
func NothingLeft(t testing.TB, names ...string) {
	t.Helper()
	before := programs(t, names)
	t.Cleanup(func() {
		t.Helper()
		left := programs(t, names) // what comes later is another's
		maps.DeleteFunc(left, func(id ebpf.ProgramID, _ string) bool { _, known := before[id]; return known })
		for deadline := time.Now().Add(goneAfter); len(left) > 0 && time.Now().Before(deadline); time.Sleep(look) {
			now, others := programs(t, names), heldByOthers(t)
			maps.DeleteFunc(left, func(id ebpf.ProgramID, _ string) bool {
				_, loaded := now[id]
				return !loaded || others[id]
			})
		}
		for id, name := range left {
			t.Errorf("program %s (id %d) is left in the kernel", name, id)
		}
	})
}

// heldByOthers returns the programs that processes outside of this one's group
// have open.
func heldByOthers(t testing.TB) map[ebpf.ProgramID]bool {
	t.Helper()
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	own := unix.Getpgrp()
	held := make(map[ebpf.ProgramID]bool)
	for _, dir := range dirs {
		pid, _ := strconv.Atoi(filepath.Base(dir))
		if group, err := unix.Getpgid(pid); err != nil || group == own {
			continue
		}
		infos, _ := filepath.Glob(dir + "/fdinfo/*")
		for _, info := range infos {
			data, _ := os.ReadFile(info) // the process may be gone
			for lines := bufio.NewScanner(bytes.NewReader(data)); lines.Scan(); {
				var id ebpf.ProgramID
				if n, _ := fmt.Sscanf(lines.Text(), "prog_id:\t%d", &id); n == 1 {
					held[id] = true
				}
			}
		}
	}
	return held
}

// look is the interval between checks of the kernel's programs.
const look = 20 * time.Millisecond

// goneAfter is how long the kernel may take to free a program that nothing
// holds any longer: it waits until no CPU can be running it.
const goneAfter = 10 * time.Second

// programs returns the loaded programs with these names by id. The kernel cuts
// names off at 15 bytes.
func programs(t testing.TB, names []string) map[ebpf.ProgramID]string {
	t.Helper()
	const limit = 15
	cut := make([]string, len(names))
	for i, name := range names {
		cut[i] = name[:min(len(name), limit)]
	}
	found := make(map[ebpf.ProgramID]string)
	id := ebpf.ProgramID(0)
	for {
		next, err := ebpf.ProgramGetNextID(id)
		if errors.Is(err, os.ErrNotExist) {
			return found
		}
		if err != nil {
			t.Fatalf("list programs after id %d: %v", id, err)
		}
		id = next
		if name, ok := programName(t, id); ok && slices.Contains(cut, name) {
			found[id] = name
		}
	}
}

// programName returns false for a program that has been freed meanwhile.
func programName(t testing.TB, id ebpf.ProgramID) (string, bool) {
	t.Helper()
	program, err := ebpf.NewProgramFromID(id)
	if errors.Is(err, os.ErrNotExist) {
		return "", false
	}
	if err != nil {
		t.Fatalf("open program %d: %v", id, err)
	}
	defer program.Close()
	info, err := program.Info()
	if err != nil {
		t.Fatalf("read program %d: %v", id, err)
	}
	return info.Name, true
}
