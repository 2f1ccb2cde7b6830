// Package jsprof profiles running Node.js processes: it shows where their CPU time
// goes, with JavaScript and native code in one stack. The kernel names each
// JavaScript function as it takes the sample.
package jsprof

import (
	"context"
	"errors"
	"slices"
	"time"

	"ustack/bpf"
	"ustack/loader"
	"ustack/symbolize"
	"ustack/tools/profile"
	"ustack/tools/sourcemaps"
	"ustack/tools/trace"
)

// Options say what to profile and how.
type Options struct {
	trace.Selection
	Maps sourcemaps.Options

	Event    loader.Event  // what is sampled; CPU time if zero
	Hz       int           // samples a second on each CPU, of CPU time and cycles; 99 if zero
	In       uint64        // of other events, one in so many on each CPU is sampled; 1 if zero
	Kernel   bool          // include kernel frames
	Duration time.Duration // until the context or the targets end if zero

	Sources func(symbolize.Frame) bool // of which frames' functions the profile has the sources; of none if nil

	// Snapshot, if it is not nil, is called each Interval with what was sampled in it: the
	// profile that Run returns lacks that.
	Interval time.Duration
	Snapshot func(*profile.Profile)

	Started func(hz int)       // called once sampling runs, with the actual rate; may be nil
	Sampled func(count uint64) // called from time to time with the samples so far; may be nil
	Warn    func(error)        // called with what keeps names from being found; may be nil
}

const defaultHz = 99 // out of step with work that repeats every 10 ms

// Run samples until the duration is over, ctx is done or the last target has ended,
// and returns the profile. It is not an error if ctx is done.
func Run(ctx context.Context, o Options) (*profile.Profile, error) {
	s, err := open(ctx, o)
	if err != nil {
		return nil, err
	}
	profile, err := s.run(ctx)
	return profile, errors.Join(err, s.Close())
}

// A session is one run: what it has in the kernel and what it has received.
type session struct {
	*trace.Session
	o         Options
	objects   bpf.JsprofObjects
	collector *collector
	since     time.Time // start of what the next snapshot has
}

// longestTick is how long a throttled perf event may wait for the tick of a busy CPU:
// the kernel's HZ is at least 100.
const longestTick = 10 * time.Millisecond

func open(ctx context.Context, o Options) (*session, error) {
	if o.Event == (loader.Event{}) {
		o.Event = loader.CPUClock
	}
	if o.Hz == 0 {
		o.Hz = defaultHz
	}
	o.In = max(o.In, 1)
	spec, err := bpf.LoadJsprof()
	if err != nil {
		return nil, err
	}
	spec.Maps[bpf.JsprofMapWalks].MaxEntries = 1 // no sample interrupts another on its CPU
	kernel := uint32(0)
	if o.Kernel {
		kernel = 1
	}
	s := &session{o: o}
	s.collector = newCollector(s)
	s.Session, err = trace.Open(ctx, trace.Options{Selection: o.Selection, Maps: o.Maps, Duration: o.Duration, Texts: o.Sources != nil, Warn: o.Warn}, trace.Tool{
		Spec: spec, Objects: &s.objects,
		Variables: map[string]any{
			bpf.JsprofVarMaxElapsed: uint64(2*time.Second/time.Duration(loader.SampleRate(o.Hz)) + longestTick),
			bpf.JsprofVarWithKernel: kernel,
		},
		Stack: s.collector.take, Polled: true,
	})
	if err != nil {
		return nil, err
	}
	if err := s.Listen(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *session) run(ctx context.Context) (*profile.Profile, error) {
	var hz int
	var start time.Time
	err := s.Run(ctx, trace.Loop{
		Interval: s.o.Interval, Report: s.snapshot,
		Attach: func() (err error) {
			hz, err = s.attach()
			start = time.Now()
			s.since = start
			return err
		},
		Started: func() {
			if s.o.Started != nil {
				s.o.Started(hz)
			}
		},
		Tick: s.tick,
	})
	if err == nil {
		err = s.Missing()
	}
	if err != nil {
		return nil, err
	}
	duration := time.Since(start)
	profile, err := s.collector.profile()
	if err != nil {
		return nil, err
	}
	if s.o.Sources != nil {
		s.readSources(profile)
	}
	s.Diagnose()
	profile.Node, profile.V8 = s.Table.Versions()
	profile.Start, profile.Duration = start, duration
	if !s.o.counted() {
		profile.HzAsked = s.o.Hz
		profile.Hz, profile.Throttled = s.rate(hz)
	}
	return profile, nil
}

// counted reports whether values are numbers of events, and not samples of time.
func (o *Options) counted() bool { return slices.Contains(loader.Counted, o.Event) }

// ValueType returns the type of the profile's values.
func (o *Options) ValueType() profile.ValueType {
	if o.counted() {
		return profile.ValueType{Type: o.Event.Name, Unit: profile.Samples.Unit}
	}
	return profile.Samples
}

// attach starts sampling and returns the rate, 0 if events are counted.
func (s *session) attach() (hz int, err error) {
	if s.o.counted() {
		return 0, s.SampleEach(s.objects.OnSample, s.o.Event, s.o.In)
	}
	return s.Sample(s.objects.OnSample, s.o.Event, s.o.Hz)
}

// tick reports progress, and drains the kernel's counts if needed.
func (s *session) tick() time.Duration {
	s.collector.relieve()
	if s.o.Sampled != nil {
		s.o.Sampled(s.Count(s.objects.Samples))
	}
	return 0
}

// rate returns the rate at which samples were taken while the targets ran, in Hz,
// and how many samples are missing at the requested rate: 0 if it was reached. hz is
// the rate that was set.
func (s *session) rate(hz int) (reached int, throttled uint64) {
	taken := s.Count(s.objects.Samples)
	seconds := float64(s.Count(s.objects.Sampled)) / float64(time.Second)
	expected := uint64(seconds * float64(s.o.Hz))
	// The kernel controls the rate of cycles: an idle CPU counts none.
	if s.o.Event == loader.Cycles || taken == 0 {
		return hz, 0
	}
	const usual = 0.95 // a few per cent are late on any machine
	if float64(taken) >= usual*float64(expected) {
		return s.o.Hz, 0
	}
	return max(1, int(float64(taken)/seconds+0.5)), expected - taken
}
