package jsprof

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"ustack/testdata/nodetest"
	"ustack/testdata/nodetest/benchtable"
)

// A stream is what a program does at a rate of its own (rates.js), and what counts it.
type stream struct {
	name, kind string
	args       []string
	rival      string // does the same in bpftrace, of process %s, without JavaScript's names; or empty
	goal       string
}

var streams = []stream{
	{
		"system calls", "calls",
		[]string{"-e", "syscall:getuid"},
		"tracepoint:syscalls:sys_enter_getuid /pid == %s/ { @[ustack()] = count(); }", "≥ 0.90",
	},
	{"one call of 100", "calls", []string{"-e", "syscall:getuid", "--every", "100"}, "", "≥ 0.90"},
	{
		"waits", "switches",
		[]string{"--off-cpu"},
		"tracepoint:sched:sched_switch /pid == %s/ { @[ustack()] = count(); }", "≥ 0.95",
	},
	{"allocations", "bytes", []string{"--alloc"}, "", "≥ 0.98"},
}

// profilers returns what counts the stream: ours, which is at path, and bpftrace.
func (s stream) profilers(b *testing.B, path string) []profiler {
	all := []profiler{{ours, "Sampling", func(o order) *exec.Cmd {
		cmd := exec.Command(path, append(s.args, "-p", o.pid, "-o", filepath.Join(o.dir, "out.json"))...)
		cmd.Stderr = o.say
		return cmd
	}}}
	if s.rival != "" && installed(b, "bpftrace") && hasTracepoints(b) {
		all = append(all, profiler{"bpftrace", "started", func(o order) *exec.Cmd {
			cmd := exec.Command("bpftrace", "-B", "line", "-e", `BEGIN { printf("started\n"); } `+fmt.Sprintf(s.rival, o.pid))
			cmd.Stdout = o.say
			return cmd
		}})
	}
	return all
}

// hasTracepoints reports whether bpftrace finds tracepoints by their names.
func hasTracepoints(b *testing.B) bool {
	b.Helper()
	_, err := os.Stat("/sys/kernel/tracing/events")
	if err != nil {
		b.Logf("not compared with bpftrace (mount -t tracefs tracefs /sys/kernel/tracing): %v", err)
	}
	return err == nil
}

// BenchmarkEvents measures at what rate a program makes events while each is counted by its
// stack, in terms of the rate before and after.
func BenchmarkEvents(b *testing.B) {
	nodetest.Root(b)
	e := chosenEffort()
	t := benchtable.New("Cost of counting events", eventsMethod, "counted", "in", "by", "a second", "the program's rate", "goal")
	path := build(b)
	for _, version := range e.versions {
		for _, s := range streams {
			b.Run(fmt.Sprintf("node%d/%s", nodetest.Major(version), s.name), func(b *testing.B) {
				var target *nodetest.Target
				start := func() {
					target = nodetest.Start(b, nodetest.Node(b, version), nodetest.Options{Script: "rates.js", Args: []string{s.kind}})
				}
				if s.kind == "switches" { // waking an idle CPU may take longer than all else
					onOneCPU(b, start)
				} else {
					start()
				}
				benchmarkStream(b, target, s, s.profilers(b, path), e, t)
			})
		}
	}
	t.Print(b)
}

// onOneCPU calls start, which starts a process, so that the process stays on one CPU.
func onOneCPU(b testing.TB, start func()) {
	b.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before, one unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		b.Fatal(err)
	}
	for cpu := range runtime.NumCPU() { // the last that is allowed
		if before.IsSet(cpu) {
			one.Zero()
			one.Set(cpu)
		}
	}
	if err := unix.SchedSetaffinity(0, &one); err != nil {
		b.Fatal(err)
	}
	start()
	if err := unix.SchedSetaffinity(0, &before); err != nil {
		b.Fatal(err)
	}
}

const eventsMethod = `The program makes one sort of event as fast as it can, or a little slower, and reports its own
rate; what waits has both of its threads on one CPU. jsprof counts each event by its stack with
JavaScript's names; bpftrace by its user stack, without them.`

func benchmarkStream(b *testing.B, target *nodetest.Target, s stream, all []profiler, e effort, t *benchtable.Table) {
	round := func() float64 {
		var rates []float64
		for range e.rounds {
			var done struct{ Rate float64 }
			target.Signal(syscall.SIGUSR2)
			line := target.Line()
			if err := json.Unmarshal([]byte(strings.TrimPrefix(line, "done ")), &done); err != nil {
				b.Fatalf("decode %q: %v", line, err)
			}
			rates = append(rates, done.Rate)
		}
		return median(rates)
	}
	ratios := make(map[string][]float64)
	var alone []float64
	for b.Loop() {
		for range e.pairs {
			for _, p := range all {
				before := round()
				running, _ := p.start(b, target.PID)
				with := round()
				running.stop()
				alone = append(alone, before, round()) // the machine's drift is in both
				ratios[p.name] = append(ratios[p.name], 2*with/(alone[len(alone)-2]+alone[len(alone)-1]))
			}
		}
	}
	for _, p := range all {
		goal := ""
		if p.name == ours {
			goal = s.goal
		}
		b.ReportMetric(median(ratios[p.name]), "x-"+p.name)
		t.Row(s.name, place(b), p.name, fmt.Sprintf("%.0f", median(alone)), "× "+spread(ratios[p.name]), goal)
	}
}
