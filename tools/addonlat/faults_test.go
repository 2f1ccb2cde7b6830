package addonlat

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ustack/symbolize/process"
	"ustack/testdata/nodetest"
	"ustack/tools/trace"
)

// prepare skips the test if it cannot run, and returns a node.
func prepare(t *testing.T) string {
	t.Helper()
	nodetest.Root(t)
	nodetest.NothingLeft(t, programs...)
	return nodetest.Node(t, anyVersion)
}

// flying is a step with more jobs than will ever complete during a test.
func flying(source string) nodetest.Step {
	return nodetest.Step{Addon: source, Call: "sleep", Micros: 1000, Count: 1 << 30, InFlight: 16}
}

// completed is an Options.Progress that calls then once n jobs are done.
func completed(n uint64, then func()) func(Pool) {
	return func(p Pool) {
		if p.Completed >= n && then != nil {
			then()
			then = nil
		}
	}
}

func TestWhatWasSeenSurvivesTheTargetsDeath(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGSEGV} {
		t.Run(sig.String(), func(t *testing.T) {
			node := prepare(t)
			paths := addons(t, node, nodetest.FramePointers)
			jobs := startJobs(t, node, nodetest.Plan{Addons: paths, Steps: []nodetest.Step{flying("napi.cc")}})
			m := begin(t, Options{Selection: trace.Selection{PIDs: []int{jobs.PID}}, Progress: completed(100, func() { jobs.Signal(sig) })})
			jobs.Begin()
			r := m.wait()
			m.silent()
			if got := kind(t, r, keys["napi.cc"]["sleep"]); got.Count < 100 || got.Total.Count != got.Count {
				t.Errorf("jobs, totals = %d, %d, want 100 or more", got.Count, got.Total.Count)
			}
			if p := pool(t, r); p.InFlight == 0 || p.InFlight > 16 {
				t.Errorf("in flight = %d, want 1 to 16", p.InFlight)
			}
		})
	}
}

// startJobs is nodetest.StartJobs for a program that may end abnormally.
func startJobs(t *testing.T, node string, plan nodetest.Plan) nodetest.Jobs {
	t.Helper()
	text, err := json.Marshal(plan)
	if err != nil {
		t.Fatal(err)
	}
	return nodetest.Jobs{Target: nodetest.Start(t, node, nodetest.Options{
		Script: "jobs.js", Args: []string{string(text)}, MayFail: true,
	})}
}

func TestAttachInTheMiddleOfFlyingJobs(t *testing.T) {
	const threads, inFlight, run, enough = 4, 16, 50 * ms, 50
	node := prepare(t)
	plan := nodetest.Plan{Addons: addons(t, node, nodetest.FramePointers), Steps: []nodetest.Step{flying("rawuv.cc")}}
	plan.Steps[0].Micros = float64(run.Microseconds())
	jobs := nodetest.StartJobs(t, node, plan)
	jobs.Begin()
	beginsToWork(t, jobs.PID)
	seen := make(chan struct{})
	start := time.Now()
	m := begin(t, Options{Selection: trace.Selection{PIDs: []int{jobs.PID}}, Progress: completed(enough, func() { close(seen) })})
	attaching := time.Since(start)
	select {
	case <-seen:
	case <-m.ended:
	}
	r := m.end()
	m.silent()
	k, p := kind(t, r, keys["rawuv.cc"]["sleep"]), pool(t, r)
	if k.Count < enough || k.Count != p.Completed {
		t.Errorf("jobs = %d, completed = %d, want the same, %d or more", k.Count, p.Completed, enough)
	}
	// Completions are probed before submissions. In between, completions are of jobs
	// submitted earlier, and each lets another be submitted unseen: what was in flight at
	// first, and what the threads did meanwhile.
	ran := threads * uint64(attaching/run+1)
	if p.Before == 0 || p.Before > 2*inFlight+ran {
		t.Errorf("begun before = %d, want 1 to %d, for attaching took %v", p.Before, 2*inFlight+ran, attaching)
	}
	if p.InFlight > inFlight || p.Deepest > inFlight {
		t.Errorf("in flight, deepest = %d, %d, want %d at most", p.InFlight, p.Deepest, inFlight)
	}
	if wait := k.Wait.Percentile(50); k.Run.Min < uint64(run) || wait < uint64(2*run) {
		t.Errorf("runs from %d ns, waits of %d, want %v, three times that", k.Run.Min, wait, run)
	}
}

// beginsToWork waits until the process's threads have done some jobs.
func beginsToWork(t *testing.T, pid int) {
	t.Helper()
	const volunteered = 100 // sleeps of all its threads
	deadline := time.Now().Add(time.Minute)
	for time.Now().Before(deadline) {
		tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
		if err != nil {
			t.Fatal(err)
		}
		switches := 0
		for _, task := range tasks {
			text, _ := os.ReadFile(task) // a thread may have ended
			_, after, _ := strings.Cut(string(text), "\nvoluntary_ctxt_switches:")
			n, _, _ := strings.Cut(after, "\n")
			count, _ := strconv.Atoi(strings.TrimSpace(n))
			switches += count
		}
		if switches > volunteered {
			return
		}
	}
	t.Fatal("the program has not begun")
}

// TestExecIsFollowed has a shell become node, which is noticed while it runs: its first
// jobs may be missed.
func TestExecIsFollowed(t *testing.T) {
	node := prepare(t)
	addon := nodetest.Addon(t, node, "napi.c", nodetest.FramePointers)
	program := fmt.Sprintf(`const { sleep } = require(%q); let n = 5000; (function next() { if (n-- > 0) sleep(200, next); })();`, addon)
	m := begin(t, Options{Selection: trace.Selection{Command: []string{"sh", "-c", fmt.Sprintf("true; exec %s -e '%s'", node, program)}, Stdout: devNull(t)}})
	r := m.wait()
	var got uint64
	for _, n := range counts(r) {
		got += n
	}
	if got < 100 || got > 5000 {
		t.Errorf("jobs after exec = %d, want most of 5000", got)
	}
	if p := pool(t, r); p.Completed+p.Before > 5000 {
		t.Errorf("completed, begun before = %d, %d, want 5000 at most", p.Completed, p.Before)
	}
}

// TestExecMidFlightKeepsWhatWasSeen: a process runs exec while a job runs.
func TestExecMidFlightKeepsWhatWasSeen(t *testing.T) {
	node := prepare(t)
	addon := nodetest.Addon(t, node, "napi.c", nodetest.FramePointers)
	script := filepath.Join(t.TempDir(), "exec.js")
	text := fmt.Sprintf(`
const { sleep } = require(%q);
process.once('SIGUSR2', () => {
  sleep(60e6, () => {});
  let left = 31;
  (function next() {
    if (left-- > 0) return sleep(500, next);
    process.execve('/bin/true', ['true'], {});
  })();
});
setInterval(() => {}, 1 << 30);
require('fs').writeSync(1, 'ready\n');
`, addon)
	if err := os.WriteFile(script, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	target := nodetest.Start(t, node, nodetest.Options{Script: script, Flags: []string{"--no-warnings"}})
	m := begin(t, Options{Selection: trace.Selection{PIDs: []int{target.PID}}})
	target.Signal(syscall.SIGUSR2)
	r := m.wait()
	if got := kind(t, r, keys["napi.c"]["sleep"]).Count; got != 31 {
		t.Errorf("jobs = %d, want 31", got)
	}
	if p := pool(t, r); p.InFlight != 1 {
		t.Errorf("in flight = %d, want 1", p.InFlight)
	}
}

func TestSeveralProcessesAreDistinguished(t *testing.T) {
	node := prepare(t)
	paths := addons(t, node, nodetest.FramePointers)
	var pids []int
	var all []nodetest.Jobs
	for _, n := range []int{23, 41} {
		jobs := nodetest.StartJobs(t, node, nodetest.Plan{
			Addons: paths, Steps: []nodetest.Step{{Addon: "rawuv.cc", Call: "sleep", Micros: 500, Count: n}},
		})
		pids, all = append(pids, jobs.PID), append(all, jobs)
	}
	m := begin(t, Options{Selection: trace.Selection{PIDs: pids}})
	for _, jobs := range all {
		jobs.Begin()
	}
	for _, jobs := range all {
		jobs.Done()
	}
	r := m.end()
	got := make(map[int]uint64)
	for _, k := range r.Kinds {
		got[k.PID] += k.Count
	}
	if diff := cmp.Diff(map[int]uint64{pids[0]: 23, pids[1]: 41}, got); diff != "" {
		t.Errorf("jobs by process (-want +got):\n%s", diff)
	}
	if len(r.Pools) != 2 {
		t.Errorf("pools = %+v, want 2", r.Pools)
	}
}

// TestProcessInNamespacesOfItsOwn has a target whose process id and files are not the
// test's.
func TestProcessInNamespacesOfItsOwn(t *testing.T) {
	node := prepare(t)
	addon := nodetest.Addon(t, node, "napi.cc", nodetest.FramePointers)
	dir := t.TempDir()
	script := fmt.Sprintf(`mount -t tmpfs tmpfs %s && mkdir %s/in && cp %s %s/in/napi_cc.node && exec %s %s '{"steps":[{"addon":"a","call":"sleep","us":500,"count":47}],"addons":{"a":"%s/in/napi_cc.node"}}'`,
		dir, dir, addon, dir, node, nodetest.Program("jobs.js"), dir)
	cmd := exec.Command("unshare", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child", "sh", "-c", script)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	line := make([]byte, 1<<10)
	if _, err := out.Read(line); err != nil || !strings.HasPrefix(string(line), "ready") {
		t.Fatalf("line = %q, %v, want ready", line, err)
	}
	pid := child(t, cmd.Process.Pid)
	m := begin(t, Options{Selection: trace.Selection{PIDs: []int{pid}}})
	if err := syscall.Kill(pid, syscall.SIGUSR2); err != nil {
		t.Fatal(err)
	}
	r := m.wait()
	m.silent()
	if diff := cmp.Diff(map[string]uint64{keys["napi.cc"]["sleep"]: 47}, counts(r)); diff != "" {
		t.Errorf("jobs by kind (-want +got):\n%s", diff)
	}
	if len(r.Pools) != 1 || r.Pools[0].PID != pid || r.Pools[0].Inside != 1 {
		t.Errorf("pools = %+v, want one of process %d, which is 1 inside", r.Pools, pid)
	}
}

// child returns the only child of process pid.
func child(t *testing.T, pid int) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestWrongPIDIsSaid(t *testing.T) {
	prepare(t)
	if _, err := Run(t.Context(), Options{Selection: trace.Selection{PIDs: []int{1 << 22}}}); !errors.Is(err, process.ErrGone) {
		t.Errorf("error = %v, want %v", err, process.ErrGone)
	}
}

func TestProcessWithoutLibuvIsSaid(t *testing.T) {
	prepare(t)
	cmd := exec.Command("sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill() // it runs until then
		_ = cmd.Wait()
	}()
	_, err := Run(t.Context(), Options{Selection: trace.Selection{PIDs: []int{cmd.Process.Pid}}, Duration: time.Second})
	if err == nil || !strings.Contains(err.Error(), "uv_queue_work") {
		t.Errorf("error = %v, want one that names what the process lacks", err)
	}
}
