package addonlat

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ustack/testdata/nodetest"
	"ustack/testdata/nodetest/benchtable"
)

// An effort says how much is measured: by default just enough to show that the
// benchmarks work; with USTACK_BENCH=long enough for numbers worth quoting; with
// USTACK_BENCH=full the same on every version.
type effort struct {
	versions []string
	jobs     int // in one run of the program
	rounds   int // runs with each tool and without
}

func chosenEffort() effort {
	long := effort{versions: []string{"22.23.3", "24.21.0"}, jobs: 60_000, rounds: 5}
	switch os.Getenv("USTACK_BENCH") {
	case "long":
		return long
	case "full":
		long.versions = nodetest.Versions
		return long
	}
	return effort{versions: []string{anyVersion}, jobs: 10_000, rounds: 1}
}

// A rival is a command that measures a process until it is stopped.
type rival struct {
	name    string
	goal    string
	mark    string // in the line on stderr or stdout that says it is measuring
	command func(pid int) *exec.Cmd
}

// script does in bpftrace what addonlat does to an add-on's jobs: the same four
// moments, joined by the request, in a histogram each, and the submitting stack.
const script = `
uprobe:NODE:uv_queue_work { @stack[arg1 + 88] = ustack(4); @submitted[arg1 + 88] = nsecs; }
uprobe:NODE:uv__queue_work /@submitted[arg0]/ {
	@wait = hist(nsecs - @submitted[arg0]); @begun[arg0] = nsecs; @current[tid] = arg0;
}
uretprobe:NODE:uv__queue_work /@current[tid]/ {
	$w = @current[tid]; @run = hist(nsecs - @begun[$w]); @ended[$w] = nsecs; delete(@current[tid]);
}
uprobe:NODE:uv__queue_done /@submitted[arg0]/ {
	@delivery = hist(nsecs - @ended[arg0]); @total[@stack[arg0]] = hist(nsecs - @submitted[arg0]);
	delete(@stack[arg0]); delete(@submitted[arg0]); delete(@begun[arg0]); delete(@ended[arg0]);
}
BEGIN { printf("Measuring\n"); }
`

// rivals returns addonlat, by function and by stack, and bpftrace if it is installed.
func rivals(b *testing.B, node string) []rival {
	b.Helper()
	path := filepath.Join(b.TempDir(), "addonlat")
	build := exec.CommandContext(b.Context(), "go", "build", "-trimpath", "-o", path, "ustack/cmd/addonlat")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		b.Fatalf("build addonlat: %v\n%s", err, out)
	}
	by := func(what, goal string) rival {
		return rival{"addonlat --by " + what, goal, "Measuring", func(pid int) *exec.Cmd {
			return exec.Command(path, "-p", fmt.Sprint(pid), "--by", what)
		}}
	}
	all := []rival{by("function", "≥ 0.93, better than bpftrace"), by("stack", "")}
	if _, err := exec.LookPath("bpftrace"); err != nil {
		b.Logf("not compared with bpftrace: %v", err)
		return all
	}
	return append(all, rival{"bpftrace", "", "Measuring", func(pid int) *exec.Cmd {
		return exec.Command("bpftrace", "-B", "line", "-p", fmt.Sprint(pid), "-e", strings.ReplaceAll(script, "NODE", node))
	}})
}

// A load is what the target does: little but submit jobs to the pool.
type load struct {
	name   string
	source string
	micros float64 // that a job computes
	goals  bool    // the goals apply to it
}

// Jobs of 70 µs make a little more than 20,000 a second on two CPUs and keep both busy:
// what a probe costs is lost elsewhere. Empty jobs are the worst case.
var loads = []load{
	{"libuv", "rawuv.cc", 70, true},
	{"napi", "napi.cc", 70, true},
	{"napi-empty", "napi.cc", 0, false},
}

// BenchmarkCost measures what measuring costs a target that does little but submit
// jobs to the pool, compared with bpftrace, and prints a table.
func BenchmarkCost(b *testing.B) {
	nodetest.Root(b)
	e := chosenEffort()
	table := benchtable.New("Cost of measuring add-ons", costMethod, "measured", "in", "by", "result", "goal")
	for _, version := range e.versions {
		node := nodetest.Node(b, version)
		all := rivals(b, node)
		for _, l := range loads {
			b.Run(fmt.Sprintf("node%d/%s", nodetest.Major(version), l.name), func(b *testing.B) {
				benchmarkRate(b, node, l, all, e, table)
			})
		}
	}
	table.Print(b)
}

const costMethod = `The program does little but submit jobs to libuv's pool; *empty* jobs compute nothing, which is
the worst case. bpftrace joins the same four moments of each job in histograms, and records
a native stack of four frames.`

// benchmarkRate measures jobs a second with each rival and, before and after each,
// with none: the machine's drift is in both.
func benchmarkRate(b *testing.B, node string, l load, all []rival, e effort, table *benchtable.Table) {
	plan := nodetest.Plan{
		Addons: map[string]string{l.source: nodetest.Addon(b, node, l.source, nodetest.FramePointers)},
		Steps:  []nodetest.Step{{Addon: l.source, Call: "spin", Micros: l.micros, Count: e.jobs, InFlight: 64}},
	}
	var bare []float64
	ratios, own := make(map[string][]float64), make(map[string][]float64)
	for b.Loop() {
		before, _ := rate(b, node, plan, nil)
		bare = append(bare, before)
		for range e.rounds {
			for _, r := range all {
				with, share := rate(b, node, plan, &r)
				after, _ := rate(b, node, plan, nil)
				bare = append(bare, after)
				ratios[r.name] = append(ratios[r.name], 2*with/(before+after))
				own[r.name] = append(own[r.name], share)
				before = after
			}
		}
	}
	_, place, _ := strings.Cut(b.Name(), "/")
	goal := func(text string) string {
		if !l.goals {
			return ""
		}
		return text
	}
	b.ReportMetric(median(bare), "jobs/s")
	table.Row("jobs a second", place, "nobody", fmt.Sprintf("%.0f", median(bare)), goal("≥ 20000"))
	for _, r := range all {
		ratio, share, goalOfShare := ratios[r.name], own[r.name], ""
		if r.goal != "" {
			goalOfShare = goal("< 2 %")
		}
		b.ReportMetric(median(ratio), "x-"+strings.ReplaceAll(r.name, " ", ""))
		table.Row("the target's rate", place, r.name,
			fmt.Sprintf("× %.3f (%.3f to %.3f)", median(ratio), slices.Min(ratio), slices.Max(ratio)), goal(r.goal))
		table.Row("own CPU", place, r.name, fmt.Sprintf("%.1f %% of a core", 100*median(share)), goalOfShare)
	}
}

// rate returns the jobs a second of a new run of the plan while r, if not nil, measures
// it, and the share of a core that r used meanwhile.
func rate(b *testing.B, node string, plan nodetest.Plan, r *rival) (jobs, share float64) {
	b.Helper()
	target := nodetest.StartJobs(b, node, plan)
	defer target.Stop()
	if r == nil {
		target.Begin()
		return perSecond(target.Done()[0]), 0
	}
	cmd, stop := r.start(b, target.PID)
	defer stop()
	begin, used := time.Now(), cpu(b, cmd)
	target.Begin()
	tally := target.Done()[0]
	return perSecond(tally), float64(cpu(b, cmd)-used) / float64(time.Since(begin))
}

func perSecond(tally nodetest.Tally) float64 {
	return float64(tally.Completed) / tally.Wall.Seconds()
}

// start returns once the rival is measuring process pid. The returned function stops it.
func (r *rival) start(b *testing.B, pid int) (cmd *exec.Cmd, stop func()) {
	b.Helper()
	hear, say, err := os.Pipe()
	if err != nil {
		b.Fatal(err)
	}
	cmd = r.command(pid)
	cmd.Stdout, cmd.Stderr = say, say
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	_ = say.Close() // the command has its own copy
	said := make(chan struct{})
	var before []string
	for lines := bufio.NewScanner(hear); lines.Scan(); {
		before = append(before, lines.Text())
		if !strings.Contains(lines.Text(), r.mark) {
			continue
		}
		go func() {
			defer close(said)
			_, _ = io.Copy(io.Discard, hear) // until the command ends
			_ = hear.Close()
		}()
		return cmd, func() {
			_ = cmd.Process.Kill() // it may have ended with its target
			<-said
			_ = cmd.Wait() // it was killed
		}
	}
	b.Fatalf("%s ended before it measured: %v\n%s", r.name, cmd.Wait(), strings.Join(before, "\n"))
	return nil, nil
}

// cpu returns the CPU time that a process has used so far.
func cpu(b *testing.B, cmd *exec.Cmd) time.Duration {
	b.Helper()
	const scheduled = 2 // CPUCLOCK_SCHED: a process's clock is the complement of its pid, shifted
	var now unix.Timespec
	if err := unix.ClockGettime(int32(^cmd.Process.Pid<<3|scheduled), &now); err != nil {
		b.Errorf("read the CPU time of %s: %v", cmd.Path, err)
	}
	return time.Duration(now.Nano())
}

// median returns the middle one of values.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}
