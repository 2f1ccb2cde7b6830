package jsprof

import (
	"context"
	"fmt"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"ustack/bpf"
	"ustack/testdata/nodetest"
	"ustack/testdata/nodetest/benchtable"
	"ustack/tools/profile"
	"ustack/tools/trace"
)

// readEvery is the time between two reads of the kernel's statistics: long enough that
// reading does not evict from the caches what the samples would find there.
const readEvery = 100 * time.Millisecond

// A load is a program whose samples are timed.
type load struct {
	name    string
	options nodetest.Options
	frames  int     // JavaScript frames that deep.js is made to have; 0: whatever there are
	goal    float64 // µs, upper bound of the mean; 0 for none
}

var loads = []load{
	{name: "40", options: nodetest.Options{Script: "deep.js"}, frames: 40, goal: 8},
	{name: "116", options: nodetest.Options{Script: "deep.js"}, frames: 116, goal: 16},
	{name: "mixed", options: nodetest.Options{Script: "mixed.js"}},
	{name: "collector", options: nodetest.Options{
		Flags: []string{"--max-semi-space-size=1"}, Script: "gcstress.js",
	}, goal: 30},
}

// benchmarkSamples measures the BPF program's run time for a sample.
func benchmarkSamples(b *testing.B, node string, e effort, t *benchtable.Table) {
	stats, err := ebpf.EnableStats(uint32(unix.BPF_STATS_RUN_TIME))
	if err != nil {
		b.Fatalf("enable BPF statistics: %v", err)
	}
	defer stats.Close()
	for _, l := range loads {
		b.Run(l.name, func(b *testing.B) {
			o := l.options
			if l.frames > 0 {
				o.Args = []string{strconv.Itoa(depthFor(b, node, l.frames))}
			}
			target := nodetest.Start(b, node, o)
			var times []float64
			var p *profile.Profile
			for b.Loop() {
				times, p = timeSamples(b, target, e.window)
			}
			frames := javascriptFrames(p)
			b.ReportMetric(frames, "JS-frames")
			b.ReportMetric(median(times), "µs/sample-p50")
			b.ReportMetric(mean(times), "µs/sample-mean")
			goal := ""
			if l.goal > 0 {
				goal = fmt.Sprintf("≤ %.0f µs", l.goal)
			}
			t.Row("a sample in the kernel", place(b), "jsprof", fmt.Sprintf(
				"mean %.1f µs (means of %d intervals: median %.1f, quartiles %.1f to %.1f; %.0f JS frames)",
				mean(times), len(times), median(times), quantile(times, 0.25), quantile(times, 0.75), frames), goal)
		})
	}
}

// depthFor returns the argument that makes deep.js have that many JavaScript frames:
// the number of node's own frames below the script differs between versions.
func depthFor(b *testing.B, node string, frames int) int {
	b.Helper()
	const trial = 20
	target := nodetest.Start(b, node, nodetest.Options{Script: "deep.js", Args: []string{strconv.Itoa(trial)}})
	defer target.Stop()
	p, err := Run(b.Context(), Options{Selection: trace.Selection{PIDs: []int{target.PID}}, Duration: time.Second / 2})
	if err != nil {
		b.Fatal(err)
	}
	return trial + frames - int(javascriptFrames(p))
}

// javascriptFrames returns the median sample's number of JavaScript frames.
func javascriptFrames(p *profile.Profile) float64 {
	var depths []float64
	for _, s := range p.Stacks {
		depth := float64(len(javascript(s.Frames)))
		for range s.Value {
			depths = append(depths, depth)
		}
	}
	return median(depths)
}

// timeSamples samples the target at 99 Hz and returns the mean time of a sample, in
// µs, for each read but the first, during which the kernel's name cache is still empty.
func timeSamples(b *testing.B, target *nodetest.Target, window time.Duration) ([]float64, *profile.Profile) {
	b.Helper()
	s, err := open(b.Context(), Options{Selection: trace.Selection{PIDs: []int{target.PID}}, Hz: defaultHz})
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			b.Error(err)
		}
	}()
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	times := make(chan []float64, 1)
	s.o.Started = func(int) {
		target.Signal(syscall.SIGSTOP)
		miss := timeMisses(b, s, window/4)
		target.Signal(syscall.SIGCONT)
		go func() {
			defer cancel()
			times <- watchSamples(b, s, miss, window)
		}()
	}
	profiles, err := s.run(ctx)
	if err != nil {
		b.Fatal(err)
	}
	all := <-times
	return all[min(1, len(all)):], profiles[0]
}

// A reading is the kernel's statistics of the program on_sample.
type reading struct {
	samples, runs uint64 // samples of described processes; runs for all processes
	time          time.Duration
}

func read(b *testing.B, s *session) reading {
	stats, err := s.source.objects.(*bpf.SampleObjects).OnSample.Stats()
	if err != nil {
		b.Errorf("read the program's statistics: %v", err)
		return reading{}
	}
	return reading{s.taken(), stats.RunCount, stats.Runtime}
}

// timeMisses returns what a run costs for a process that is not profiled.
func timeMisses(b *testing.B, s *session, window time.Duration) time.Duration {
	before := read(b, s)
	time.Sleep(window)
	after := read(b, s)
	return (after.time - before.time) / time.Duration(max(after.runs-before.runs, 1))
}

// watchSamples returns the mean time of a sample, in µs, for each read. It subtracts
// the other CPUs' runs, which find nothing to do, at miss apiece.
func watchSamples(b *testing.B, s *session, miss, window time.Duration) []float64 {
	var means []float64
	last := read(b, s)
	for end := time.Now().Add(window); time.Now().Before(end); {
		time.Sleep(readEvery)
		now := read(b, s)
		if samples := now.samples - last.samples; samples > 0 {
			misses := time.Duration(now.runs-last.runs-samples) * miss
			cost := (now.time - last.time - misses) / time.Duration(samples)
			means = append(means, float64(cost)/float64(time.Microsecond))
		}
		last = now
	}
	return means
}
