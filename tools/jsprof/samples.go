package jsprof

import (
	"math"
	"math/bits"
	"slices"
	"time"

	"github.com/cilium/ebpf"

	"ustack/bpf"
	"ustack/loader"
	"ustack/symbolize"
	"ustack/tools/event"
	"ustack/tools/profile"
	"ustack/tools/trace"
)

// longestTick is how long a throttled perf event may wait for the tick of a busy CPU:
// the kernel's HZ is at least 100.
const longestTick = 10 * time.Millisecond

// samples are the source of a run that takes stacks at the interrupts of timers and at perf events.
type samples struct {
	o        *Options
	needed   map[string]bool // of the programs, by name
	programs samplePrograms
}

// samplePrograms are what takes samples (bpf/sample.h).
type samplePrograms struct {
	OnSample    *ebpf.Program  `ebpf:"on_sample"`
	OnPerfEvent *ebpf.Program  `ebpf:"on_perf_event"`
	Sampled     *ebpf.Variable `ebpf:"sampled"`
}

func newSamples(o *Options) samples {
	return samples{o: o, needed: map[string]bool{bpf.SampleProgOnExec: true}}
}

func newSampleSource(o *Options) (*source, error) {
	spec, err := bpf.LoadSample()
	if err != nil {
		return nil, err
	}
	x := newSamples(o)
	for _, ev := range o.Events {
		x.needForSample(ev)
	}
	event.Prune(spec, x.needed)
	spec.Maps[bpf.SampleMapWalks].MaxEntries = 1 // no perf event interrupts another's program on its CPU
	poll := time.Duration(0)
	if onlyTimers(o.Events) {
		x.fit(spec)
		poll = samplesPoll
	}
	return &source{
		spec: spec, objects: new(bpf.SampleObjects), variables: x.variables(), values: o.eventValues(), poll: poll,
		attach: x.attach, finish: x.finish, warn: func(*session) {}, place: placeOf,
	}, nil
}

// placeOf is source.place where each event has a profile.
func placeOf(key bpf.TraceStackKey) (int, []symbolize.Frame) { return int(key.Event), nil }

func (x *samples) variables() map[string]any {
	return map[string]any{
		bpf.SampleVarMaxElapsed: uint64(2*time.Second/time.Duration(loader.SampleRate(x.o.Hz)) + longestTick),
		bpf.SampleVarWithKernel: number(x.o.Kernel),
	}
}

func (x *samples) need(program string, is bool) { x.needed[program] = x.needed[program] || is }

// needForSample decides which programs take an event's samples.
func (x *samples) needForSample(ev event.Event) {
	x.need(bpf.SampleProgOnSample, ev.Timer != nil)
	x.need(bpf.SampleProgOnPerfEvent, ev.Perf != nil || ev.Hardware != nil)
}

// fewSamples is how many samples a second of one process, on all CPUs, need a quarter of the kernel's
// memory for stacks and for what user space has of functions, scripts and code, which it gets again of
// those that are forgotten.
const fewSamples = 1000

// fit makes the maps fit the rate at which timers interrupt: the kernel sets up all of their entries.
func (x *samples) fit(spec *ebpf.CollectionSpec) {
	perSecond := math.MaxInt
	if cpus, err := ebpf.PossibleCPU(); err == nil {
		perSecond = cpus * len(x.o.Events) * loader.SampleRate(x.o.Hz)
	}
	buffer := spec.Maps[bpf.SampleMapEvents]
	buffer.MaxEntries = min(buffer.MaxEntries, sampleBuffer(perSecond))
	if len(x.o.PIDs) != 1 || perSecond > fewSamples {
		return
	}
	for _, name := range []string{bpf.SampleMapCounts, bpf.SampleMapNames, bpf.SampleMapScripts, bpf.SampleMapCodes} {
		spec.Maps[name].MaxEntries /= 4
	}
}

const (
	minSampleBuffer = 2 << 20
	sampleBytes     = 4 << 10 // a stack of 120 frames, and what is new of its functions
)

// sampleBuffer returns how many bytes the kernel's buffer needs for so many samples, if no two have
// the same stack; a power of two. What is mapped of it counts twice as our memory.
func sampleBuffer(samples int) uint32 {
	return max(minSampleBuffer, uint32(1)<<min(31, bits.Len(uint(min(samples, math.MaxInt32)*sampleBytes))))
}

// samplesPoll is how long samples' stacks may wait: each wake-up takes CPU time from the target.
const samplesPoll = 200 * time.Millisecond

func onlyTimers(all []event.Event) bool {
	return !slices.ContainsFunc(all, func(e event.Event) bool { return e.Timer == nil })
}

func (x *samples) attach(s *session) error {
	if err := trace.Find(s.source.objects, &x.programs); err != nil {
		return err
	}
	for i, ev := range x.o.Events {
		if err := x.attachEvent(s, ev, uint64(i)); err != nil {
			return err
		}
	}
	return nil
}

func (x *samples) attachEvent(s *session, ev event.Event, number uint64) (err error) {
	switch {
	case ev.Timer != nil:
		s.hz, err = s.Sample(x.programs.OnSample, *ev.Timer, loader.Sampling{Hz: x.o.Hz, Cookie: number})
	case ev.Perf != nil:
		_, err = s.Sample(x.programs.OnPerfEvent, *ev.Perf, loader.Sampling{Every: x.o.Every, Cookie: number})
	case ev.Hardware != nil:
		s.hz, err = s.Sample(x.programs.OnPerfEvent, *ev.Hardware, loader.Sampling{Hz: x.o.Hz, Cookie: number})
	}
	return err
}

// finish adds what is known about an event's samples.
func (x *samples) finish(s *session, number int, p *profile.Profile) {
	ev := x.o.Events[number]
	switch {
	case ev.Timer != nil:
		p.HzAsked = x.o.Hz
		p.Hz, p.Throttled = x.rate(s, number)
	case ev.Perf != nil && x.o.Every > 1:
		p.Every = x.o.Every
	}
}

// rate returns the rate at which samples were taken while the targets ran, in Hz,
// and how many samples are missing at the requested rate: 0 if it was reached.
func (x *samples) rate(s *session, number int) (reached int, throttled uint64) {
	taken := s.counts(s.kernel.Matched)[number]
	seconds := float64(s.counts(x.programs.Sampled)[number]) / float64(time.Second)
	expected := uint64(seconds * float64(x.o.Hz))
	// The kernel controls the rate of cycles: an idle CPU counts none.
	if *x.o.Events[number].Timer == loader.Cycles || taken == 0 {
		return s.hz, 0
	}
	const usual = 0.95 // a few per cent are late on any machine
	if float64(taken) >= usual*float64(expected) {
		return x.o.Hz, 0
	}
	return max(1, int(float64(taken)/seconds+0.5)), expected - taken
}
