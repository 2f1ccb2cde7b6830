package jsprof

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"ustack/testdata/nodetest"
	"ustack/testdata/nodetest/benchtable"
	"ustack/tools/trace"
)

// An effort says how much is measured: by default just enough to show that the
// benchmarks work; with USTACK_BENCH=long enough for numbers worth quoting; with
// USTACK_BENCH=full the same on every version.
type effort struct {
	versions []string
	window   time.Duration // of sampling, for each line of a table
	attaches int
	pairs    int // of unprofiled and profiled work, for each profiler
	rounds   int // of work in each half of a pair
	switches int // of sampling on and off, at each frequency
}

func chosenEffort() effort {
	short := effort{
		versions: []string{"24.21.0", "26.10.0"},
		window:   time.Second, attaches: 1, pairs: 1, rounds: 1, switches: 3,
	}
	long := effort{
		versions: short.versions,
		window:   10 * time.Second, attaches: 7, pairs: 9, rounds: 5, switches: 100,
	}
	switch os.Getenv("USTACK_BENCH") {
	case "long":
		return long
	case "full":
		long.versions = nodetest.Versions
		return long
	}
	return short
}

// BenchmarkCost measures what profiling costs its target and the machine, compared
// with perf record and bpftrace where these do the same, and prints a table.
func BenchmarkCost(b *testing.B) {
	nodetest.Root(b)
	e := chosenEffort()
	t := benchtable.New("Cost of profiling", costMethod, "measured", "in", "by", "result", "goal")
	all := profilers(b, build(b))
	for _, version := range e.versions {
		b.Run(fmt.Sprintf("node%d", nodetest.Major(version)), func(b *testing.B) {
			node := nodetest.Node(b, version)
			b.Run("sample", func(b *testing.B) { benchmarkSamples(b, node, e, t) })
			b.Run("attach", func(b *testing.B) { benchmarkAttach(b, node, e, t) })
			for _, j := range jobs {
				b.Run("target/"+j.name, func(b *testing.B) { benchmarkTarget(b, node, j, all, e, t) })
				b.Run("switched/"+j.name, func(b *testing.B) { benchmarkSwitched(b, node, j, e, t) })
			}
			b.Run("own", func(b *testing.B) { benchmarkOwn(b, node, all, e, t) })
		})
	}
	t.Print(b)
}

const costMethod = `Each profiler samples at 99 Hz. *Target* is what the program spends on the same work, in user
instructions where the machine counts them, else in CPU time, after a second of sampling; *switched* switches only the
sampling, in every other round, and also at a multiple of the frequency, where it exceeds
the noise; the *timer alone* interrupts as often and runs no program. *A sample in the kernel* is timed by the kernel's BPF statistics.`

// place returns the benchmark's name below BenchmarkCost.
func place(b *testing.B) string {
	_, name, _ := strings.Cut(b.Name(), "/")
	return name
}

// quantile returns the value below which the fraction q of values lies; 0 if there are no values.
func quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

// median returns the middle one of values; 0 if there are none.
func median(values []float64) float64 { return quantile(values, 0.5) }

// mean returns the average of values; 0 if there are none.
func mean(values []float64) float64 {
	var sum float64
	for _, v := range values {
		sum += v
	}
	return sum / float64(max(len(values), 1))
}

// benchmarkAttach measures the time to the first sample of a busy target.
func benchmarkAttach(b *testing.B, node string, e effort, t *benchtable.Table) {
	target := nodetest.Start(b, node, nodetest.Options{Script: "mixed.js"})
	var times []float64
	for b.Loop() {
		for range e.attaches {
			begin := time.Now()
			s, err := open(b.Context(), Options{Selection: trace.Selection{PIDs: []int{target.PID}}, Hz: defaultHz, Duration: time.Second})
			if err != nil {
				b.Fatal(err)
			}
			first := make(chan time.Duration, 1)
			s.o.Started = func(int) {
				for s.taken() == 0 && time.Since(begin) < time.Second {
					time.Sleep(time.Millisecond)
				}
				first <- time.Since(begin)
			}
			if _, err := s.run(b.Context()); err != nil {
				b.Error(err)
			}
			if err := s.Close(); err != nil {
				b.Error(err)
			}
			times = append(times, float64(<-first)/float64(time.Millisecond))
		}
	}
	b.ReportMetric(median(times), "ms/first-sample")
	t.Row("attach to first sample", place(b), "jsprof",
		fmt.Sprintf("median %.0f ms, worst %.0f", median(times), slices.Max(times)), "< 500 ms")
}
