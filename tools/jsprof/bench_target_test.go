package jsprof

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"ustack/bpf"
	"ustack/loader"
	"ustack/testdata/nodetest"
	"ustack/testdata/nodetest/benchtable"
	"ustack/tools/trace"
)

// A job is a program that does the same work again each time it is asked to.
type job struct {
	name, script string
	count        string // so much of it takes about 0.2 s
}

var jobs = []job{{"mix", "work.js", "1200"}, {"http", "answers.js", "6000"}}

func (j job) start(b *testing.B, node string) *nodetest.Target {
	b.Helper()
	target := nodetest.Start(b, node, nodetest.Options{Flags: []string{"--single-threaded"}, Script: j.script, Args: []string{j.count}})
	hurry(b, target.PID)
	return target
}

// benchmarkTarget measures how much more a target spends on the same work while it
// is profiled. One process does all of it, alternating with and without.
func benchmarkTarget(b *testing.B, node string, j job, rivals []profiler, e effort, t *benchtable.Table) {
	target := j.start(b, node)
	w := newWork(b, target)
	ratios := make(map[string][]float64)
	for b.Loop() {
		w.rounds(e.rounds)
		for range e.pairs {
			for _, p := range rivals {
				before := w.rounds(e.rounds)
				running, _ := p.start(b, target.PID)
				w.rounds(e.rounds) // the profiler sees functions for the first time
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
			goal = targetGoal
		}
		t.Row("target's "+w.unit, place(b), p.name, "× "+spread(got), goal)
	}
}

const targetGoal = "≤ 1.01"

// spread describes ratios of pairs.
func spread(ratios []float64) string {
	return fmt.Sprintf("%.4f (quartiles %.4f to %.4f of %d pairs)", median(ratios), quantile(ratios, 0.25), quantile(ratios, 0.75), len(ratios))
}

// benchmarkSwitched measures the same with everything on, while sampling is switched on in
// every other round, so that a busy machine's noise is that of neighbouring rounds. At 99 Hz
// what is added is less than that noise; at a multiple, it shows.
func benchmarkSwitched(b *testing.B, node string, j job, e effort, t *benchtable.Table) {
	target := j.start(b, node)
	w := newWork(b, target)
	s, err := open(b.Context(), Options{Selection: trace.Selection{PIDs: []int{target.PID}}, Kernel: true})
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
	for b.Loop() {
		for _, times := range []int{1, 20} {
			for _, sampling := range []switchable{sessionSampling(s), {"timer alone", openTimers, nothing}} {
				ratios := w.switched(sampling, times*defaultHz, e.switches)
				result, scaled := fmt.Sprintf("× %s at %d Hz", spread(ratios), times*defaultHz), median(ratios)
				goal := ""
				if sampling.by == ours {
					goal = targetGoal
				}
				if times > 1 {
					scaled = 1 + (median(ratios)-1)/float64(times)
					result += fmt.Sprintf(", so × %.4f at %d", scaled, defaultHz)
				}
				b.ReportMetric(scaled, fmt.Sprintf("x-%s-by-%dHz", strings.ReplaceAll(sampling.by, " ", "-"), times*defaultHz))
				t.Row("target's "+w.unit, place(b), sampling.by, result, goal)
			}
		}
	}
}

// A switchable is something that interrupts all CPUs hz times a second until it is closed.
type switchable struct {
	by     string
	open   func(hz int) (io.Closer, error)
	closed func() // after each round with it
}

func nothing() {}

// sessionSampling samples for a session.
func sessionSampling(s *session) switchable {
	return switchable{ours, func(hz int) (io.Closer, error) {
		return loader.Sample(s.source.objects.(*bpf.SampleObjects).OnSample, loader.CPUClock, loader.Sampling{Hz: hz})
	}, s.collector.relieve}
}

// timers are perf events that run no program.
type timers []int

// openTimers opens the events that sampling uses, on each CPU: what they cost is the
// machine's price of a timer interrupt, which no profiler that samples by time avoids.
func openTimers(hz int) (io.Closer, error) {
	attr := unix.PerfEventAttr{
		Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_CPU_CLOCK,
		Sample: uint64(hz), Bits: unix.PerfBitFreq, Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{})),
	}
	var opened timers
	for cpu := range runtime.NumCPU() {
		fd, err := unix.PerfEventOpen(&attr, -1, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
		if err != nil {
			return nil, errors.Join(err, opened.Close())
		}
		opened = append(opened, fd)
	}
	return opened, nil
}

func (t timers) Close() error {
	var errs []error
	for _, fd := range t {
		errs = append(errs, unix.Close(fd))
	}
	return errors.Join(errs...)
}

// switched returns what rounds cost with a sampling, in terms of those before and after them.
func (w *work) switched(sampling switchable, hz, n int) (ratios []float64) {
	w.b.Helper()
	before := w.rounds(1)
	for range n {
		opened, err := sampling.open(hz)
		if err != nil {
			w.b.Fatal(err)
		}
		with := w.rounds(1)
		if err := opened.Close(); err != nil {
			w.b.Fatal(err)
		}
		sampling.closed()
		after := w.rounds(1)
		ratios = append(ratios, 2*with/(before+after))
		before = after
	}
	return ratios
}

// A work measures what a job spends.
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
func benchmarkOwn(b *testing.B, node string, rivals []profiler, e effort, t *benchtable.Table) {
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
				goal = "< 2 %, < 60 MB (< 0.3 s)"
			}
			t.Row("own CPU and memory", place(b), p.name, fmt.Sprintf(
				"%.1f %% of a core, %.0f MB (%.2f s of CPU to start)", share, rss, startup.Seconds()), goal)
		}
	}
}
