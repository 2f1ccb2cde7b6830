package jsprof

import (
	"encoding/binary"
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"ustack/bpf"
	"ustack/loader"
	"ustack/testdata/nodetest"
	"ustack/tools/trace"
)

// workRounds makes a round of work.js take about 0.2 s.
const workRounds = "300"

// benchmarkTarget measures how much more a target spends on the same work while it
// is profiled. One process does all of it, alternating with and without.
func benchmarkTarget(b *testing.B, node string, rivals []profiler, e effort, t *table) {
	target := nodetest.Start(b, node, nodetest.Options{
		Flags: []string{"--single-threaded"}, Script: "work.js", Args: []string{workRounds},
	})
	w := newWork(b, target)
	ratios := make(map[string][]float64)
	for b.Loop() {
		w.rounds(e.rounds)
		for range e.pairs {
			for _, p := range rivals {
				before := w.rounds(e.rounds)
				running, _ := p.start(b, target.PID)
				with := w.rounds(e.rounds)
				running.stop()
				after := w.rounds(e.rounds) // the machine's drift is in both
				ratios[p.name] = append(ratios[p.name], 2*with/(before+after))
			}
		}
	}
	for _, p := range rivals {
		got := ratios[p.name]
		b.ReportMetric(median(got), "x-"+p.name)
		goal := ""
		if p.name == ours {
			goal = "≤ 1.003"
		}
		t.row("target's "+w.unit, place(b), p.name, fmt.Sprintf("× %.4f (quartiles %.4f to %.4f of %d pairs)",
			median(got), quantile(got, 0.25), quantile(got, 0.75), len(got)), goal)
	}
}

// benchmarkDense measures the same at many times the frequency, with sampling
// switched on in every other round. All that one sample adds is too small to show
// at 99 Hz above the machine's own noise.
func benchmarkDense(b *testing.B, node string, e effort, t *table) {
	const times = 20
	target := nodetest.Start(b, node, nodetest.Options{
		Flags: []string{"--single-threaded"}, Script: "work.js", Args: []string{workRounds},
	})
	w := newWork(b, target)
	s, err := open(b.Context(), Options{Selection: trace.Selection{PIDs: []int{target.PID}}})
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			b.Error(err)
		}
	}()
	if err := s.Add(); err != nil {
		b.Fatal(err)
	}
	var ratios []float64
	for b.Loop() {
		before := w.rounds(e.rounds)
		for range e.switches {
			sampler, err := loader.Sample(s.source.objects.(*bpf.JsprofObjects).OnSample, loader.CPUClock, loader.Sampling{Hz: times * defaultHz})
			if err != nil {
				b.Fatal(err)
			}
			with := w.rounds(1)
			if err := sampler.Close(); err != nil {
				b.Fatal(err)
			}
			s.collector.relieve()
			after := w.rounds(1)
			ratios = append(ratios, 2*with/(before+after))
			before = after
		}
	}
	scaled := 1 + (median(ratios)-1)/times
	b.ReportMetric(scaled, "x-scaled")
	t.row("target's "+w.unit, place(b), ours, fmt.Sprintf(
		"× %.4f at %d Hz (quartiles %.4f to %.4f of %d pairs), so × %.4f at %d",
		median(ratios), times*defaultHz, quantile(ratios, 0.25), quantile(ratios, 0.75), len(ratios),
		scaled, defaultHz), "≤ 1.003")
}

// A work measures what work.js spends.
type work struct {
	b      *testing.B
	target *nodetest.Target
	unit   string
	event  int
}

// newWork counts user instructions of the target's main thread, or its CPU time if
// the machine has no counter for them.
func newWork(b *testing.B, target *nodetest.Target) *work {
	b.Helper()
	w := &work{b: b, target: target, unit: "user instructions"}
	attr := unix.PerfEventAttr{
		Type:   unix.PERF_TYPE_HARDWARE,
		Config: unix.PERF_COUNT_HW_INSTRUCTIONS,
		Size:   uint32(unsafe.Sizeof(unix.PerfEventAttr{})),
		Bits:   unix.PerfBitExcludeKernel | unix.PerfBitExcludeHv,
	}
	var err error
	w.event, err = unix.PerfEventOpen(&attr, target.PID, -1, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if errors.Is(err, unix.ENOENT) {
		w.unit = "CPU time"
		attr.Type, attr.Config, attr.Bits = unix.PERF_TYPE_SOFTWARE, unix.PERF_COUNT_SW_TASK_CLOCK, 0
		w.event, err = unix.PerfEventOpen(&attr, target.PID, -1, -1, unix.PERF_FLAG_FD_CLOEXEC)
	}
	if err != nil {
		b.Fatalf("open perf event: %v", err)
	}
	b.Cleanup(func() { _ = unix.Close(w.event) })
	return w
}

// rounds makes the target do n rounds and returns what the median round took.
func (w *work) rounds(n int) float64 {
	w.b.Helper()
	var spent []float64
	for range n {
		before := w.read()
		w.target.Signal(syscall.SIGUSR2)
		w.target.Line()
		spent = append(spent, float64(w.read()-before))
	}
	return median(spent)
}

func (w *work) read() uint64 {
	w.b.Helper()
	var value [8]byte
	if _, err := unix.Read(w.event, value[:]); err != nil {
		w.b.Fatalf("read perf event: %v", err)
	}
	return binary.NativeEndian.Uint64(value[:])
}

// benchmarkOwn measures what the profilers themselves use.
func benchmarkOwn(b *testing.B, node string, rivals []profiler, e effort, t *table) {
	target := nodetest.Start(b, node, nodetest.Options{Script: "mixed.js"})
	for b.Loop() {
		for _, p := range rivals {
			running, _ := p.start(b, target.PID)
			begin, startup := time.Now(), running.cpu()
			time.Sleep(e.window)
			share := 100 * float64(running.cpu()-startup) / float64(time.Since(begin))
			rss := running.peakRSS()
			running.stop()
			b.ReportMetric(share, "%CPU-"+p.name)
			b.ReportMetric(rss, "MB-"+p.name)
			goal := ""
			if p.name == ours {
				goal = "< 3 %, < 100 MB"
			}
			t.row("own CPU and memory", place(b), p.name, fmt.Sprintf(
				"%.1f %% of a core, %.0f MB (%.2f s of CPU to start)", share, rss, startup.Seconds()), goal)
		}
	}
}
