package jsprof

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ustack/symbolize"
	"ustack/testdata/nodetest"
	"ustack/tools/profile"
	"ustack/tools/sourcemaps"
	"ustack/tools/trace"
)

const (
	// cpuProfSamples of a process make some 4000 of its main thread's JavaScript or more:
	// chance moves no share by 4 points.
	cpuProfSamples   = 8000
	cpuProfTime      = time.Minute // if the machine is busy
	cpuProfInterval  = time.Millisecond
	cpuProfTolerance = 4 // points
	cpuProfShare     = 2 // percent of all samples that a function needs to be compared, by either profiler

	// cpuProfUnread is how many tables of code jsprof may fail to read: with more, it could not
	// keep up with the target, whose threads run before it, and functions that are inlined there
	// are missing.
	cpuProfUnread = 50
	cpuProfTries  = 3
)

// TestAgreesWithCPUProf profiles programs of npm's packages with jsprof and node
// --cpu-prof at the same time. For each function in 2 % of the samples or more, both say the
// same of self and total, ± 4 points, or the charges explain the difference: cpu-prof
// says what jsprof's samples say if each is charged as V8's sampler charges it. Self
// time is with the native work done for a function, and without collections.
func TestAgreesWithCPUProf(t *testing.T) {
	needCPUProf(t)
	for _, version := range nodetest.Versions {
		for _, program := range nodetest.NPMPrograms {
			t.Run(fmt.Sprintf("node%d/%s", nodetest.Major(version), program), func(t *testing.T) {
				nodetest.NothingLeft(t, programs...)
				ours, theirs := profileNPM(t, version, program)
				for tries := 1; tries < cpuProfTries && ours.Failures["positions"] > cpuProfUnread; tries++ {
					t.Logf("tables that could not be read = %d: again", ours.Failures["positions"])
					ours, theirs = profileNPM(t, version, program)
				}
				compareProfiles(t, nodetest.Major(version), ours, theirs)
			})
		}
	}
}

// profileNPM starts a program of npm's packages and profiles it.
func profileNPM(t *testing.T, version, program string) (*profile.Profile, *usage) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "run.cpuprofile")
	target, load := nodetest.StartNPM(t, nodetest.Node(t, version), program, cpuProfFlags(file)...)
	if load != nil {
		hurry(t, load.PID)
	}
	return profileBoth(t, target, file, cpuProfSamples)
}

func needCPUProf(t *testing.T) {
	t.Helper()
	nodetest.Root(t)
	if os.Getenv("USTACK_CPUPROF") != "1" {
		t.Skip("takes half an hour: make test-cpuprof")
	}
}

func cpuProfFlags(file string) []string {
	return []string{
		"--cpu-prof", fmt.Sprintf("--cpu-prof-interval=%d", cpuProfInterval.Microseconds()),
		"--cpu-prof-dir=" + filepath.Dir(file), "--cpu-prof-name=" + filepath.Base(file),
	}
}

// profileBoth profiles a process that runs with cpuProfFlags(file) and ends it. It returns
// jsprof's profile, and what cpu-prof says of the same time.
func profileBoth(t *testing.T, target *nodetest.Target, file string, samples uint64) (*profile.Profile, *usage) {
	t.Helper()
	hurryTarget(t, target.PID)
	defer hurry(t, os.Getpid())()
	var from time.Duration
	p := profileUntil(t, Options{
		Selection: trace.Selection{PIDs: []int{target.PID}}, Hz: 997, Duration: cpuProfTime, Maps: sourcemaps.Options{Off: true},
		Started: func(int) { from = uptime(t) },
		Warn:    func(err error) { t.Logf("warning: %v", err) },
	}, samples)
	target.Signal(syscall.SIGTERM)
	target.Wait()
	theirs, err := readCPUProf(file, from, from+p.Duration)
	if err != nil {
		t.Fatal(err)
	}
	return p, theirs
}

// hurryTarget lets a process's threads run before others, and the one that takes cpu-prof's
// samples before those, on the main thread's CPU. cpu-prof samples by the clock, so on a
// busy machine it charges whatever waits: for a CPU, as system calls do that wake another
// process, or for a thread that waits for one. A signal from another CPU may also wait for
// the next system call, which is then charged for what ran before it.
func hurryTarget(t *testing.T, pid int) {
	t.Helper()
	var cpu unix.CPUSet
	cpu.Set(0)
	var err error
	for tid, comm := range threads(t, pid) {
		attr := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 1}
		sampler := strings.HasPrefix(comm, "v8:ProfEvnt")
		if sampler {
			attr.Priority = 2
		}
		if sampler || tid == pid {
			err = errors.Join(err, unix.SchedSetaffinity(tid, &cpu))
		}
		err = errors.Join(err, setPriority(tid, &attr))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// hurry gives a process's threads more time than others, so that on a busy machine no
// server is idle, and jsprof can keep up with its events. It does not let them run before
// all others: threads of Go's runtime wait for each other. The returned function undoes it.
func hurry(t testing.TB, pid int) (undo func()) {
	t.Helper()
	before, err := unix.SchedGetAttr(pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	set := func(attr *unix.SchedAttr) {
		for tid := range threads(t, pid) {
			if err := setPriority(tid, attr); err != nil {
				t.Error(err)
			}
		}
	}
	set(&unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_NORMAL, Nice: -15})
	return func() { set(before) }
}

func setPriority(tid int, attr *unix.SchedAttr) error {
	if err := unix.SchedSetAttr(tid, attr, 0); err != nil && err != unix.ESRCH { // the thread may be gone
		return fmt.Errorf("set the priority of %d: %w", tid, err)
	}
	return nil
}

// threads returns the names of a process's threads.
func threads(t testing.TB, pid int) map[int]string {
	t.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/comm", pid))
	if err != nil {
		t.Fatal(err)
	}
	names := make(map[int]string)
	for _, file := range files {
		tid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		comm, _ := os.ReadFile(file) // the thread may be gone
		names[tid] = string(comm)
	}
	return names
}

// uptime returns the time of the clock that cpu-prof uses.
func uptime(t *testing.T) time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		t.Error(err)
	}
	return time.Duration(now.Nano())
}

func compareProfiles(t *testing.T, major int, p *profile.Profile, theirs *usage) {
	t.Helper()
	known := slices.DeleteFunc(slices.Clone(charges), func(c charge) bool { return c.last < major })
	ours, charged := usageOf(p), usageOf(p, known...)
	alone := make([]*usage, len(known))
	for i, c := range known {
		alone[i] = usageOf(p, c)
	}
	var compared, off int
	var largest, chargedLargest float64
	explained := make(map[string]int)
	for _, f := range ours.functions(theirs) {
		compared++
		largest = max(largest, ours.difference(theirs, f))
		chargedLargest = max(chargedLargest, min(ours.difference(theirs, f), charged.difference(theirs, f)))
		if ours.agrees(theirs, f) {
			continue
		}
		off++
		reasons := []string{}
		for i, c := range known {
			if !alone[i].closeTo(ours, f, 1) {
				reasons = append(reasons, c.name)
			}
		}
		why := strings.Join(reasons, ", ")
		if !charged.agrees(theirs, f) || why == "" {
			t.Errorf("%s: %s (not explained)", f, ours.beside(theirs, charged, f))
			continue
		}
		explained[why]++
		t.Logf("%s: %s (%s)", f, ours.beside(theirs, charged, f), why)
	}
	const fewest = 3000
	if min(ours.samples, theirs.samples) < fewest {
		t.Errorf("samples = %.0f of jsprof's and %.0f of cpu-prof's, want %d (is the machine busy, or the target idle?)", ours.samples, theirs.samples, fewest)
	}
	t.Logf("functions = %d, of %.0f samples of jsprof's in JavaScript and %.0f of cpu-prof's; different = %d, explained by = %v; largest difference = %.1f points, %.1f with charges; failures = %v, truncated = %d",
		compared, ours.samples, theirs.samples, off, explained, largest, chargedLargest, p.Failures, p.Truncated)
}

// A definition is where a function begins, at its parameters.
type definition struct {
	file         string
	line, column int // from 1
}

func (p definition) String() string { return fmt.Sprintf("%s:%d:%d", p.file, p.line, p.column) }

// A usage is how often functions were met in samples with JavaScript.
type usage struct {
	samples     float64
	self, total map[definition]float64
}

func newUsage() *usage {
	return &usage{self: make(map[definition]float64), total: make(map[definition]float64)}
}

// add adds n samples with these functions, leaf first. A function is counted once in the
// total of a stack, however often it is on it.
func (u *usage) add(n float64, functions []definition) {
	if len(functions) == 0 {
		return
	}
	u.samples += n
	u.self[functions[0]] += n
	met := make(map[definition]bool)
	for _, f := range functions {
		if !met[f] {
			met[f] = true
			u.total[f] += n
		}
	}
}

// shares returns a function's self and total in percent.
func (u *usage) shares(f definition) (self, total float64) {
	all := max(u.samples, 1)
	return 100 * u.self[f] / all, 100 * u.total[f] / all
}

// difference returns by how many points a function's shares differ at most.
func (u *usage) difference(other *usage, f definition) float64 {
	self, total := u.shares(f)
	otherSelf, otherTotal := other.shares(f)
	return max(math.Abs(self-otherSelf), math.Abs(total-otherTotal))
}

func (u *usage) closeTo(other *usage, f definition, points float64) bool {
	return u.difference(other, f) <= points
}

func (u *usage) agrees(other *usage, f definition) bool { return u.closeTo(other, f, cpuProfTolerance) }

// functions returns the functions to compare, busiest first.
func (u *usage) functions(other *usage) []definition {
	all := maps.Clone(u.total)
	maps.Copy(all, other.total)
	share := func(f definition) float64 {
		_, total := u.shares(f)
		_, otherTotal := other.shares(f)
		return max(total, otherTotal)
	}
	busy := slices.DeleteFunc(slices.Collect(maps.Keys(all)), func(f definition) bool { return share(f) <= cpuProfShare })
	slices.SortFunc(busy, func(a, b definition) int { return int(1000 * (share(b) - share(a))) })
	return busy
}

func (u *usage) beside(theirs, charged *usage, f definition) string {
	self, total := u.shares(f)
	theirSelf, theirTotal := theirs.shares(f)
	chargedSelf, chargedTotal := charged.shares(f)
	return fmt.Sprintf("self = %.1f %%, by cpu-prof %.1f, by jsprof's samples charged as V8 does %.1f; total = %.1f %%, %.1f, %.1f",
		self, theirSelf, chargedSelf, total, theirTotal, chargedTotal)
}

// usageOf counts the samples of a process's main thread, each as the given charges have it.
func usageOf(p *profile.Profile, as ...charge) *usage {
	u := newUsage()
	for _, s := range p.Stacks {
		if s.TID != s.PID || collecting(s.Frames) {
			continue
		}
		frames := s.Frames
		for _, c := range as {
			frames = c.of(frames)
		}
		var functions []definition
		for _, f := range frames {
			if f.Kind == symbolize.JS {
				functions = append(functions, definition{localFile(f.File), f.Line, f.Column})
			}
		}
		u.add(float64(s.Value), functions)
	}
	return u
}
