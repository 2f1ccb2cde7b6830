package core

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"ustack/symbolize/process"
	"ustack/testdata/nodetest"
)

// take takes a snapshot of a process, which then runs on.
func take(t *testing.T, pid int) *snapshot {
	t.Helper()
	var s *snapshot
	stopped(t, pid, func(tracee *tracee) {
		t.Helper()
		var err error
		if s, err = tracee.snapshot(); err != nil {
			t.Fatal(err)
		}
	})
	t.Cleanup(func() {
		if err := s.close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// takeAndCompare takes a snapshot and checks, while the process is stopped, that
// it has all memory, and that what is not copied to children is as before.
func takeAndCompare(t *testing.T, pid int) (s *snapshot) {
	t.Helper()
	stopped(t, pid, func(tracee *tracee) {
		before := flagged(t, pid, "dc")
		var err error
		if s, err = tracee.snapshot(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.close() })
		if diff := cmp.Diff(before, flagged(t, pid, "dc")); diff != "" {
			t.Errorf("mappings that are not copied (-before +after):\n%s", diff)
		}
		if got, want := ownMemory(t, s.pid()), ownMemory(t, pid); got < 0.98*want || got > want {
			t.Errorf("snapshot has %.0f bytes, want about %.0f", got, want)
		}
	})
	return s
}

// watch opens a process for reading.
func watch(t *testing.T, pid int) *process.Process {
	t.Helper()
	p, err := process.Open(pid)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// count returns how often text is in the process's private memory.
func count(t *testing.T, p *process.Process, text string) int {
	t.Helper()
	all, err := p.Maps()
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, m := range all {
		if m.File() || !m.Perms.Read() {
			continue
		}
		const batch = 1 << 20
		for at := m.Start; at < m.End; at += batch {
			b := make([]byte, min(batch, m.End-at))
			n, _ := p.ReadAt(b, at) // not all of [vvar] can be read
			found += bytes.Count(b[:n], []byte(text))
		}
	}
	return found
}

// ownMemory returns the process's resident bytes of memory that is its own.
func ownMemory(t *testing.T, pid int) float64 {
	t.Helper()
	status, err := readStatus(pid, pid)
	if err != nil {
		t.Fatal(err)
	}
	kilobytes, err := strconv.ParseFloat(strings.TrimSuffix(status["RssAnon"], " kB"), 64)
	if err != nil {
		t.Fatal(err)
	}
	return kilobytes * 1024
}

var smapsHead = regexp.MustCompile(`^([0-9a-f]+-[0-9a-f]+) `)

// flagged returns the mappings of a process that have the flag, by address.
func flagged(t *testing.T, pid int, flag string) []string {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps", pid))
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	var current string
	for line := range strings.Lines(string(text)) {
		if head := smapsHead.FindStringSubmatch(line); head != nil {
			current = head[1]
		}
		if value, ok := strings.CutPrefix(line, "VmFlags:"); ok && slices.Contains(strings.Fields(value), flag) {
			all = append(all, current)
		}
	}
	return all
}

// descriptors returns how many descriptors the process has.
func descriptors(t *testing.T, pid int) int {
	t.Helper()
	all, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

// children returns the children of all the process's threads.
func children(t *testing.T, pid int) string {
	t.Helper()
	tids, err := listThreads(pid)
	if err != nil {
		t.Fatal(err)
	}
	var all []byte
	for _, tid := range tids {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, tid))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		all = append(all, text...)
	}
	return string(all)
}

func TestSnapshotHasTheWholeHeap(t *testing.T) {
	nodetest.Root(t)
	const secret = "what-only-the-heap-holds-4711"
	for _, version := range nodetest.Versions {
		target := nodetest.Start(t, nodetest.Node(t, version), nodetest.Options{Script: "heap.js", Args: []string{"50", secret}})
		s := takeAndCompare(t, target.PID)
		child, own := watch(t, s.pid()), watch(t, target.PID)
		for _, text := range []string{secret, reverse(secret)} {
			// The process runs on, so the collector may have made another copy there.
			if got, most := count(t, child, text), count(t, own, text); got == 0 || got > most {
				t.Errorf("%s: snapshot has %q %d times, want 1 to %d as the process", version, text, got, most)
			}
		}
		if got := states(t, s.pid()); got != "t" {
			t.Errorf("%s: state of the child = %s, want t", version, got)
		}
		if got := descriptors(t, s.pid()); got != 0 {
			t.Errorf("%s: the child has %d descriptors, want none", version, got)
		}
		if err := s.close(); err != nil {
			t.Error(err)
		}
		if got := children(t, target.PID); got != "" {
			t.Errorf("%s: children left: %s", version, got)
		}
		target.Signal(syscall.SIGUSR2)
		target.Line() // it ticks
	}
}

func reverse(text string) string {
	b := []byte(text)
	slices.Reverse(b)
	return string(b)
}

func TestSnapshotsInARow(t *testing.T) {
	nodetest.Root(t)
	for _, version := range nodetest.Versions {
		target := nodetest.Start(t, nodetest.Node(t, version), nodetest.Options{
			Script: "gcstress.js", Args: []string{"400"}, Flags: []string{"--max-semi-space-size=1"},
		})
		fds := descriptors(t, target.PID)
		taken := 0
		for ; taken < 50 && target.Alive(); taken++ {
			if err := take(t, target.PID).close(); err != nil {
				t.Fatal(err)
			}
		}
		if got := descriptors(t, target.PID); got != fds {
			t.Errorf("%s: descriptors = %d, want %d", version, got, fds)
		}
		if got := children(t, target.PID); got != "" {
			t.Errorf("%s: children left: %s", version, got)
		}
		if state := target.Wait(); !state.Success() || taken < 50 {
			t.Errorf("%s: end after %d snapshots = %v, want success after 50", version, taken, state)
		}
	}
}

func TestSnapshotsOfAwkwardProcesses(t *testing.T) {
	for _, test := range []struct{ mode, want string }{
		{"storm", "done\n"},
		{"waits", "done\n"},
		{"ignore", "done\n"},
		{"filter", "done\n"},
		{"count", "0\n"},
	} {
		t.Run(test.mode, func(t *testing.T) {
			p := startTracee(t, test.mode)
			for range 50 {
				if err := take(t, p.pid()).close(); err != nil {
					t.Error(err)
				}
			}
			if got := p.end(); got != test.want {
				t.Errorf("program says %q, want %q", got, test.want)
			}
		})
	}
}

func TestSignalsDuringSnapshotsArrive(t *testing.T) {
	const rounds, realTime = 50, 34
	p := startTracee(t, "count")
	sent := make(chan error)
	go func() {
		var err error
		for range rounds * rounds {
			err = errors.Join(err, unix.Kill(p.pid(), realTime))
		}
		sent <- err
	}()
	for range rounds {
		if err := take(t, p.pid()).close(); err != nil {
			t.Error(err)
		}
	}
	if err := <-sent; err != nil {
		t.Error(err)
	}
	if got, want := p.end(), fmt.Sprintln(rounds*rounds); got != want {
		t.Errorf("signals = %q, want %q", got, want)
	}
}

func TestSnapshotOfAGroupStoppedProcess(t *testing.T) {
	p := startTracee(t, "storm")
	allT := func(states string) bool { return strings.Trim(states, "T") == "" }
	for range 20 {
		if err := unix.Kill(p.pid(), unix.SIGSTOP); err != nil { // arrives at any moment of this
			t.Fatal(err)
		}
		s := take(t, p.pid())
		awaitStates(t, p.pid(), allT)
		if err := s.close(); err != nil {
			t.Error(err)
		}
		awaitStates(t, p.pid(), allT)
		if err := unix.Kill(p.pid(), unix.SIGCONT); err != nil {
			t.Fatal(err)
		}
	}
	if got := p.end(); got != "done\n" {
		t.Errorf("program says %q", got)
	}
}

func TestSnapshotOutlivesItsProcess(t *testing.T) {
	p := startTracee(t, "count")
	s := take(t, p.pid())
	p.kill()
	if got := states(t, s.pid()); got != "t" {
		t.Errorf("state of the child = %s, want t", got)
	}
	if err := s.close(); err != nil {
		t.Error(err)
	}
	if err := s.close(); err != nil {
		t.Errorf("second close: %v", err)
	}
}

func TestCloseBesideAStuckThread(t *testing.T) {
	p := startTracee(t, "later")
	s := take(t, p.pid())
	if err := unix.Kill(p.pid(), unix.SIGUSR2); err != nil {
		t.Fatal(err)
	}
	if line, err := p.stdout.ReadString('\n'); line != "ready\n" {
		t.Fatalf("line = %q, %v, want ready", line, err)
	}
	if err := s.close(); err != nil {
		t.Error(err)
	}
	if got := children(t, p.pid()); strings.Contains(got, fmt.Sprint(s.pid())) {
		t.Errorf("children = %s, want %d gone", got, s.pid())
	}
	if got := p.end(); got != "done\n" {
		t.Errorf("program says %q", got)
	}
}

// tracedByUs returns the processes that a thread of ours traces.
func tracedByUs(t *testing.T) []int {
	t.Helper()
	own, err := listThreads(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	all, err := process.List()
	if err != nil {
		t.Fatal(err)
	}
	var traced []int
	for _, p := range all {
		status, err := readStatus(p.PID, p.PID)
		if err != nil {
			continue
		}
		if tid, err := strconv.Atoi(status["TracerPid"]); err == nil && slices.Contains(own, tid) {
			traced = append(traced, p.PID)
		}
	}
	return traced
}

// TestLimitOfProcesses lets a process have no child more, and one: of the two
// that it needs.
func TestLimitOfProcesses(t *testing.T) {
	nodetest.Root(t)
	group := "/sys/fs/cgroup/pids"
	if _, err := os.Stat(group); err != nil {
		group = "/sys/fs/cgroup"
	}
	group = filepath.Join(group, fmt.Sprintf("ustack-test-%d", os.Getpid()))
	if err := os.Mkdir(group, 0o755); err != nil {
		nodetest.MustRun(t, fmt.Sprintf("no cgroup of our own: %v", err))
	}
	t.Cleanup(func() {
		if err := os.Remove(group); err != nil {
			t.Error(err)
		}
	})
	target := nodetest.Start(t, nodetest.Node(t, "22.23.3"), nodetest.Options{Script: "heap.js", Args: []string{"20"}})
	t.Cleanup(target.Stop)
	set := func(file string, value int) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(group, file), []byte(fmt.Sprint(value)), 0); err != nil {
			t.Fatal(err)
		}
	}
	set("cgroup.procs", target.PID)
	for room := range 2 {
		stopped(t, target.PID, func(tracee *tracee) {
			set("pids.max", len(tracee.threads())+room)
			before := flagged(t, target.PID, "dc")
			if _, err := tracee.snapshot(); !errors.Is(err, unix.EAGAIN) || !strings.Contains(err.Error(), "pids.max") {
				t.Errorf("snapshot with room for %d = %v, want %v", room, err, unix.EAGAIN)
			}
			if diff := cmp.Diff(before, flagged(t, target.PID, "dc")); diff != "" {
				t.Errorf("mappings that are not copied (-before +after):\n%s", diff)
			}
		})
		if got := children(t, target.PID); got != "" {
			t.Errorf("children left: %s", got)
		}
	}
	set("pids.max", 100)
	take(t, target.PID)
	target.Signal(syscall.SIGUSR2)
	target.Line() // it ticks
}

func TestSnapshotOfAContainersFirstProcess(t *testing.T) {
	p := startTraceeIn(t, "count", unix.CLONE_NEWPID|unix.CLONE_NEWNS)
	for range 5 {
		s := take(t, p.pid())
		if got := states(t, s.pid()); got != "t" {
			t.Errorf("state of the child = %s, want t", got)
		}
		if err := s.close(); err != nil {
			t.Error(err)
		}
		if got := children(t, p.pid()); got != "" {
			t.Errorf("children left: %s", got)
		}
	}
	if got := p.end(); got != "0\n" {
		t.Errorf("program says %q", got)
	}
}

func TestNoSnapshotOfARunningProcess(t *testing.T) {
	p := startTracee(t, "count")
	var late *tracee
	stopped(t, p.pid(), func(tracee *tracee) { late = tracee })
	if _, err := late.snapshot(); !errors.Is(err, errOver) {
		t.Errorf("snapshot = %v, want %v", err, errOver)
	}
}

func TestNoSnapshotWithoutTheFirstThread(t *testing.T) {
	p := startTracee(t, "leader")
	stopped(t, p.pid(), func(tracee *tracee) {
		if s, err := tracee.snapshot(); err == nil || !strings.Contains(err.Error(), "first thread has ended") {
			t.Errorf("snapshot = %v, %v, want an error", s, err)
		}
	})
	if got := p.end(); got != "done\n" {
		t.Errorf("program says %q", got)
	}
}

func TestDifference(t *testing.T) {
	mapping := func(start, end, inode uint64) process.Mapping {
		return process.Mapping{Start: start, End: end, Inode: inode}
	}
	all := []process.Mapping{
		mapping(1, 2, 0), mapping(2, 3, 0), mapping(5, 6, 0), mapping(6, 7, 0),
		mapping(7, 8, 9), mapping(8, 9, 0), mapping(20, 30, 0), mapping(40, 50, 0),
	}
	copied := []process.Mapping{mapping(1, 2, 0), mapping(6, 7, 0)}
	want := []addresses{{2, 6}, {8, 50}}
	if diff := cmp.Diff(want, difference(all, copied), cmp.AllowUnexported(addresses{})); diff != "" {
		t.Errorf("ranges (-want +got):\n%s", diff)
	}
	if got := difference(all, all); len(got) != 0 {
		t.Errorf("ranges = %v, want none", got)
	}
}
