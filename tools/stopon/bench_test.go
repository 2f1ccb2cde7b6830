package stopon

import (
	"context"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"

	"ustack/bpf"
	"ustack/loader"
	"ustack/testdata/nodetest"
	"ustack/testdata/nodetest/benchtable"
)

// A waiting is something whose cost is measured: how begin starts it for a
// process, and ends it.
type waiting struct {
	name  string
	other bool   // it is for another process than the one that is measured
	goal  string // for what a program keeps of its rate
	begin func(b *testing.B, pid int) (end func())
}

// waitings are stopon's triggers, that never come, and what no program that sees
// all system calls can fall below: an empty one.
func waitings(b *testing.B) []waiting {
	atTracepoint := []unix.Errno{unix.EBADF, unix.EPERM} // a filter may give the second before the function is reached
	way, errnos := "sys_exit", atTracepoint
	if runsInFunctions(b) {
		way, errnos = "fexit", atTracepoint[:1]
	}
	fails := stopon(Options{Syscalls: []string{"close"}, Errnos: errnos})
	all := []waiting{
		{"nothing", false, "", func(*testing.B, int) func() { return func() {} }},
		{"an empty program at sys_exit", false, "", beginEmpty},
		{"close that fails, at " + way, false, "≥ 0.95", fails},
		{"another process's close, at " + way, true, "", fails},
		{"close that is slow, at " + way, false, "", stopon(Options{Syscalls: []string{"close"}, Errnos: errnos, Slower: time.Hour})},
		{"stall", false, "", stopon(Options{Stall: time.Hour})},
		{"signal", false, "", stopon(Options{Signals: []unix.Signal{unix.SIGHUP}})},
	}
	if way == "fexit" {
		all = append(all, waiting{"close that fails, at sys_exit", false, "", stopon(Options{Syscalls: []string{"close"}, Errnos: atTracepoint})})
	}
	return all
}

// BenchmarkWaiting measures what it costs that stopon waits for what does not
// come: how many descriptors a program closes in a second of its CPU time, with
// it and without in turn; and its own CPU time. One program does nothing but open
// and close, as fast as can be: nothing is slowed down more by being watched. The
// other one does some work for each close, as real ones do. It prints a table.
func BenchmarkWaiting(b *testing.B) {
	nodetest.Root(b)
	rounds := 2
	if os.Getenv("USTACK_BENCH") != "" {
		rounds = 15
	}
	table := benchtable.New("Cost of waiting", waitingMethod, "program", "closes a second", "waiting for", "keeps of that (quartiles)", "of the best", "goal", "own CPU")
	for _, program := range []struct{ scenario, name string }{
		{"rush", "open and close /dev/null, nothing else"},
		{"files", "open, stat, read, close, hash and parse 4 KB"},
	} {
		b.Run(program.scenario, func(b *testing.B) {
			all := waitings(b)
			measured := make([]costs, len(all))
			target, other := startScenario(b, program.scenario), startScenario(b, "idle")
			for b.Loop() {
				for range rounds {
					before := rate(b, target)
					for i, w := range all {
						before = measured[i].add(b, w, target, other, before)
					}
				}
			}
			for i, w := range all {
				table.Row(measured[i].row(program.name, w)...)
			}
		})
	}
	table.Print(b)
}

const waitingMethod = `A program closes descriptors as fast as it can, or does some work for each, while stopon waits
for what does not come. Its rate is that in its own CPU time. *Of the best* compares the best
rounds.`

// row returns the costs of w as a row of the table.
func (c *costs) row(program string, w waiting) []string {
	ratio := middle(c.ratios) // sorts them
	return []string{
		program, fmt.Sprintf("%.0f", middle(c.rates)), w.name,
		fmt.Sprintf("× %.3f (%.3f to %.3f of %d)", ratio, c.ratios[len(c.ratios)/4], c.ratios[len(c.ratios)*3/4], len(c.ratios)),
		fmt.Sprintf("× %.3f", slices.Max(c.with)/slices.Max(c.rates)), w.goal, fmt.Sprintf("%.2f %%", 100*middle(c.shares)),
	}
}

// costs are those of one waiting, in each round.
type costs struct {
	rates  []float64 // without it
	with   []float64
	ratios []float64 // of the rate with it to that
	shares []float64 // of a core, that we took
}

// add measures once, between the rate that was measured last and another one
// without, which it returns.
func (c *costs) add(b *testing.B, w waiting, target, other *nodetest.Target, before float64) (after float64) {
	b.Helper()
	watched := target.PID
	if w.other {
		watched = other.PID
	}
	end := w.begin(b, watched)
	begun, used := time.Now(), ownCPU(b)
	with := rate(b, target)
	c.shares = append(c.shares, float64(ownCPU(b)-used)/float64(time.Since(begun)))
	end()
	after = rate(b, target)
	c.rates, c.with, c.ratios = append(c.rates, before), append(c.with, with), append(c.ratios, 2*with/(before+after))
	return after
}

func startScenario(b *testing.B, scenario string) *nodetest.Target {
	b.Helper()
	return nodetest.Start(b, nodetest.Node(b, "22.23.3"), nodetest.Options{Script: "trouble.js", Args: []string{scenario}})
}

// rate has the target do its scenario, and returns how many descriptors it
// closed in a second of its CPU time: what else runs on the machine then takes
// little from it.
func rate(b *testing.B, target *nodetest.Target) float64 {
	b.Helper()
	f := perform(b, target)
	return float64(f.Closed) / f.Seconds
}

// stopon returns what begins a run of stopon.
func stopon(o Options) func(*testing.B, int) func() {
	return func(b *testing.B, pid int) func() {
		b.Helper()
		ctx, cancel := context.WithCancel(context.Background())
		started, done := make(chan struct{}), make(chan error, 1)
		o := o
		o.PIDs, o.Started, o.Report = []int{pid}, func() { close(started) }, func(*Hit) error { return nil }
		go func() {
			_, err := Run(ctx, o)
			done <- err
		}()
		select {
		case <-started:
		case err := <-done:
			b.Fatalf("run: %v", err)
		}
		return func() {
			cancel()
			if err := <-done; err != nil {
				b.Fatal(err)
			}
		}
	}
}

// beginEmpty has the kernel run a program that does nothing at each system
// call's end.
func beginEmpty(b *testing.B, _ int) func() {
	b.Helper()
	spec, err := bpf.LoadStopon()
	if err != nil {
		b.Fatal(err)
	}
	empty := spec.Programs[bpf.StoponProgOnSystemCallEnd]
	empty.Instructions = asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()}
	program, err := ebpf.NewProgram(empty)
	if err != nil {
		b.Fatal(err)
	}
	l, err := loader.Trace(program)
	if err != nil {
		b.Fatal(err)
	}
	return func() {
		if err := l.Close(); err != nil {
			b.Error(err)
		}
		if err := program.Close(); err != nil {
			b.Error(err)
		}
	}
}

func ownCPU(b *testing.B) time.Duration {
	b.Helper()
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// middle returns the median of values, which it sorts.
func middle(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}
