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

	"ustack/testdata/nodetest"
	"ustack/tools/flamegraph"
)

// poll is how often the kernel's statistics are read: so often that a sample
// at 99 Hz is alone between two looks.
const poll = 2 * time.Millisecond

// A load is a program whose samples are timed.
type load struct {
	name    string
	options nodetest.Options
	frames  int     // of JavaScript, which deep.js is made to have; 0: as they come
	goal    float64 // µs, the mean's upper bound; 0 for none
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
func benchmarkSamples(b *testing.B, node string, e effort, t *table) {
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
			var p *flamegraph.Profile
			for b.Loop() {
				times, p = timeSamples(b, target, e.window)
			}
			frames := javascriptFrames(p)
			b.ReportMetric(frames, "JS-frames")
			b.ReportMetric(median(times), "µs/sample-p50")
			b.ReportMetric(mean(times), "µs/sample-mean")
			b.ReportMetric(quantile(times, 0.99), "µs/sample-p99")
			goal := ""
			if l.goal > 0 {
				goal = fmt.Sprintf("≤ %.0f µs", l.goal)
			}
			t.row("a sample in the kernel", place(b), "jsprof", fmt.Sprintf(
				"median %.1f µs, mean %.1f, p99 %.1f (%d samples, %.0f JS frames)",
				median(times), mean(times), quantile(times, 0.99), len(times), frames), goal)
		})
	}
}

// depthFor returns the argument for which deep.js has that many JavaScript
// frames: node's own below the script differ from version to version.
func depthFor(b *testing.B, node string, frames int) int {
	b.Helper()
	const trial = 20
	target := nodetest.Start(b, node, nodetest.Options{Script: "deep.js", Args: []string{strconv.Itoa(trial)}})
	defer target.Stop()
	p, err := Run(b.Context(), Options{PIDs: []int{target.PID}, Duration: time.Second / 2})
	if err != nil {
		b.Fatal(err)
	}
	return trial + frames - int(javascriptFrames(p))
}

// javascriptFrames is the median sample's number of JavaScript frames.
func javascriptFrames(p *flamegraph.Profile) float64 {
	var depths []float64
	for _, s := range p.Stacks {
		depth := float64(len(javascript(s.Frames)))
		for range s.Count {
			depths = append(depths, depth)
		}
	}
	return median(depths)
}

// timeSamples samples the target at 99 Hz and returns each sample's time in µs,
// but for the first ones: they find no name in the kernel's cache.
func timeSamples(b *testing.B, target *nodetest.Target, window time.Duration) ([]float64, *flamegraph.Profile) {
	b.Helper()
	const warm = 20
	s, err := open(Options{PIDs: []int{target.PID}, Hz: defaultHz})
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := s.close(); err != nil {
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
	p, err := s.run(ctx)
	if err != nil {
		b.Fatal(err)
	}
	all := <-times
	return all[min(warm, len(all)):], p
}

// A reading is what the kernel has counted of the program on_sample.
type reading struct {
	samples, runs uint64 // of described processes; of all
	time          time.Duration
}

func read(b *testing.B, s *session) reading {
	stats, err := s.objects.OnSample.Stats()
	if err != nil {
		b.Errorf("read the program's statistics: %v", err)
		return reading{}
	}
	return reading{s.collector.count(s.objects.Samples), stats.RunCount, stats.Runtime}
}

// timeMisses returns what a run costs for a process that is not profiled.
func timeMisses(b *testing.B, s *session, window time.Duration) time.Duration {
	before := read(b, s)
	time.Sleep(window)
	after := read(b, s)
	return (after.time - before.time) / time.Duration(max(after.runs-before.runs, 1))
}

// watchSamples returns the time of each sample in µs that had a run of the
// program for itself, or with runs that cost a miss. Only readings between
// which nothing happened bound a sample: it may be under way at others.
func watchSamples(b *testing.B, s *session, miss, window time.Duration) []float64 {
	var times []float64
	last, previous := read(b, s), reading{}
	for end := time.Now().Add(window); time.Now().Before(end); {
		time.Sleep(poll)
		now := read(b, s)
		if quiet := now == previous; quiet {
			samples, runs := now.samples-last.samples, now.runs-last.runs
			if samples == 1 && runs >= 1 {
				cost := now.time - last.time - time.Duration(runs-1)*miss
				times = append(times, float64(cost)/float64(time.Microsecond))
			}
			last = now
		}
		previous = now
	}
	return times
}
