package stopon

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"
	"testing"
	"text/tabwriter"
	"time"

	"golang.org/x/sys/unix"

	"ustack/testdata/nodetest"
)

// BenchmarkWaiting measures what it costs that stopon waits for a call that does
// not come: how many descriptors a program opens and closes in a second, with it
// and without in turn; the same for a program that it does not watch; and its own
// CPU time. It prints a table.
func BenchmarkWaiting(b *testing.B) {
	nodetest.Root(b)
	rounds := 2
	if os.Getenv("USTACK_BENCH") != "" {
		rounds = 15
	}
	var text bytes.Buffer
	table := tabwriter.NewWriter(&text, 0, 8, 2, ' ', 0)
	fmt.Fprintln(table, "measured\tin\tresult\tgoal")
	for _, c := range []struct {
		name, goal string
		watched    bool
		options    Options
	}{
		{"close that fails", "≥ 0.95", true, Options{Syscalls: []string{"close"}, Errnos: []unix.Errno{unix.EBADF}}},
		{"close that is slow", "", true, Options{Syscalls: []string{"close"}, Slower: time.Hour}},
		{"stall", "", true, Options{Stall: time.Hour}},
		{"another process's close", "", false, Options{Syscalls: []string{"close"}, Errnos: []unix.Errno{unix.EBADF}}},
		{"another process's openat", "", false, Options{Syscalls: []string{"unlink"}, Errnos: []unix.Errno{unix.EBADF}}},
	} {
		b.Run(c.name, func(b *testing.B) {
			target := startRush(b)
			watched := target.PID
			if !c.watched {
				watched = startRush(b).PID
			}
			var ratios, rates, shares []float64
			for b.Loop() {
				for range rounds {
					before := rush(b, target)
					with, share := waited(b, watched, c.options, func() float64 { return rush(b, target) })
					after := rush(b, target)
					ratios, rates, shares = append(ratios, 2*with/(before+after)), append(rates, before), append(shares, share)
				}
			}
			b.ReportMetric(middle(ratios), "x-rate")
			fmt.Fprintf(table, "closes a second\t%s\t%.0f without; × %.3f (quartiles %.3f to %.3f of %d)\t%s\n", c.name,
				middle(rates), middle(ratios), ratios[len(ratios)/4], ratios[len(ratios)*3/4], len(ratios), c.goal)
			fmt.Fprintf(table, "own CPU\t%s\t%.2f %% of a core\t≈ 0\n", c.name, 100*middle(shares))
		})
	}
	_ = table.Flush() // to memory
	fmt.Printf("\n%s\n", &text)
}

func startRush(b *testing.B) *nodetest.Target {
	b.Helper()
	return nodetest.Start(b, nodetest.Node(b, "22.23.3"), nodetest.Options{Script: "trouble.js", Args: []string{"rush"}})
}

// rush has the target open and close descriptors for a second, and returns how
// many.
func rush(b *testing.B, target *nodetest.Target) float64 {
	b.Helper()
	return float64(perform(b, target).Closed)
}

// waited returns what measure does while a run waits, and the share of a core
// that we took meanwhile.
func waited(b *testing.B, pid int, o Options, measure func() float64) (result, share float64) {
	b.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	started, done := make(chan struct{}), make(chan error, 1)
	o.PIDs, o.Started, o.Report = []int{pid}, func() { close(started) }, func(*Hit) error { return nil }
	go func() {
		_, err := Run(ctx, o)
		done <- err
	}()
	<-started
	begin, used := time.Now(), ownCPU(b)
	result = measure()
	share = float64(ownCPU(b)-used) / float64(time.Since(begin))
	cancel()
	if err := <-done; err != nil {
		b.Fatal(err)
	}
	return result, share
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
