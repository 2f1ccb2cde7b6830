// Package jsprof profiles running Node.js processes: it shows which stacks, with JavaScript and
// native code in one, use CPU time or cause other events. The kernel names each JavaScript
// function as it takes the stack.
package jsprof

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cilium/ebpf"

	"ustack/symbolize"
	"ustack/tools/event"
	"ustack/tools/profile"
	"ustack/tools/sourcemaps"
	"ustack/tools/trace"
)

// Options say what to profile and how.
type Options struct {
	trace.Selection
	Maps sourcemaps.Options

	Events    []event.Event   // that take a stack, at most MaxEvents; CPU time if empty
	Predicate event.Predicate // which system calls, functions and other probes count
	Weight    event.Weight    // what each of those adds to its stack's value
	Quantize  bool            // the stacks' values are kept apart by powers of two: profile.Stack.Bucket
	Waiting   *Waiting        // stacks of waiting threads are taken, in place of Events, if not nil
	Every     uint64          // of events without a rate, one in so many is taken; 1 if zero

	// Memory has stacks of memory taken in place of Events, MemoryStep bytes of V8's heap apart
	// on average; Allocated is called with how much of it is known at the end, and may be nil.
	Memory     Memory
	MemoryStep uint64
	Allocated  func(Allocated)

	Hz       int           // samples a second on each CPU, of events with a rate; 99 if zero
	Kernel   bool          // include kernel frames
	Duration time.Duration // until the context or the targets end if zero

	Sources func(symbolize.Frame) bool // of which frames' functions the profile has the sources; of none if nil

	// Snapshot, if it is not nil, is called each Interval with what was taken in it, as RunAll
	// returns it: what that returns lacks it.
	Interval time.Duration
	Snapshot func([]*profile.Profile)

	Started func(hz int)       // called once sampling runs, with the actual rate, 0 if no event has one; may be nil
	Sampled func(count uint64) // called from time to time with the events so far; may be nil
	Added   func(pid int)      // called for each process as it is met, and when it runs a new program; may be nil
	Warn    func(error)        // called with what keeps names from being found; may be nil

	preempted bool // as if threads could be preempted in the programs, for tests
}

const defaultHz = 99 // out of step with work that repeats every 10 ms

// withDefaults returns the options with zero values replaced by defaults.
func (o Options) withDefaults() Options {
	if len(o.Events) == 0 {
		o.Events = []event.Event{{Name: event.Timers[0].Name, Timer: &event.Timers[0]}}
	}
	if o.Hz == 0 {
		o.Hz = defaultHz
	}
	o.Every = max(o.Every, 1)
	return o
}

// Check returns an error if the options make no sense.
func (o Options) Check() error {
	o = o.withDefaults()
	return o.check()
}

// ValueTypes returns the types of the profiles' values, in the order in which RunAll returns them.
func (o Options) ValueTypes() []profile.ValueType {
	var types []profile.ValueType
	o = o.withDefaults()
	if o.Waiting != nil {
		return []profile.ValueType{o.Waiting.valueType()}
	}
	values := o.eventValues()
	if o.Memory != "" {
		values = o.memoryValues()
	}
	for _, v := range values {
		types = append(types, v.ValueType)
	}
	return types
}

// Run is RunAll for one event.
func Run(ctx context.Context, o Options) (*profile.Profile, error) {
	all, err := RunAll(ctx, o)
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

// RunAll takes stacks until the duration is over, ctx is done or the last target has ended, and
// returns a profile for each event. It is not an error if ctx is done.
func RunAll(ctx context.Context, o Options) ([]*profile.Profile, error) {
	s, err := open(ctx, o)
	if err != nil {
		return nil, err
	}
	profiles, err := s.run(ctx)
	return profiles, errors.Join(err, s.Close())
}

// A session is one run: what it has in the kernel and what it has received.
type session struct {
	*trace.Session
	o         Options
	source    *source
	kernel    aggregate
	collector *collector
	probes    event.Probes
	hz        int       // of events that have a rate
	since     time.Time // start of what the next snapshot has
	ended     uint64    // ns, CLOCK_MONOTONIC: when all programs were detached
}

func open(ctx context.Context, o Options) (*session, error) {
	o = o.withDefaults()
	if err := o.check(); err != nil {
		return nil, err
	}
	newSource := newEventSource
	switch {
	case o.Waiting != nil:
		newSource = newWaitSource
	case o.Memory != "":
		newSource = newMemorySource
	case !anyProbe(o.Events):
		newSource = newSampleSource
	}
	source, err := newSource(&o)
	if err != nil {
		return nil, err
	}
	return openSource(ctx, o, source)
}

// openSource opens a session of a source.
func openSource(ctx context.Context, o Options, source *source) (*session, error) {
	s := &session{o: o, source: source}
	s.collector = newCollector(s)
	tool := trace.Tool{
		Spec: source.spec, Objects: source.objects, Variables: source.variables,
		Stack: s.collector.take, Poll: cmp.Or(source.poll, trace.UsualPoll),
	}
	tool.Added = func(pid int) error {
		if o.Added != nil {
			o.Added(pid)
		}
		if source.added != nil {
			return source.added(s, pid)
		}
		return nil
	}
	if source.ended != nil {
		tool.Ended = func(pid int) { source.ended(s, pid) }
	}
	var err error
	s.Session, err = trace.Open(ctx, trace.Options{Selection: o.Selection, Maps: o.Maps, Duration: o.Duration, Texts: o.Sources != nil, Warn: o.Warn}, tool)
	if err != nil {
		return nil, err
	}
	s.probes.Table, s.probes.Warn, s.probes.Starting = s.Table, s.Warn, len(o.Command) > 0
	s.Defer(s.probes.Close)
	if err := errors.Join(trace.Find(source.objects, &s.kernel), s.Listen()); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *session) run(ctx context.Context) ([]*profile.Profile, error) {
	var start time.Time
	err := s.Run(ctx, trace.Loop{
		Interval: s.o.Interval, Report: s.snapshot,
		Attach: func() error {
			err := s.source.attach(s)
			start = time.Now()
			s.since = start
			return err
		},
		Started: func() {
			if s.o.Started != nil {
				s.o.Started(s.hz)
			}
		},
		Tick: s.tick, FirstTick: event.FirstWait,
	})
	end := time.Now()
	if err == nil {
		s.ended, err = monotonic()
	}
	if err == nil {
		err = errors.Join(s.probes.Close(), s.Missing())
	}
	if err != nil {
		return nil, err
	}
	profiles, err := s.collector.profiles()
	if err != nil {
		return nil, err
	}
	if s.o.Snapshot != nil {
		start = s.since // of what no snapshot has
	}
	for i, p := range profiles {
		s.describe(i, p, start, end.Sub(start))
	}
	s.source.warn(s)
	s.Diagnose()
	return profiles, nil
}

// describe completes a profile of what was taken from start on.
func (s *session) describe(number int, p *profile.Profile, start time.Time, duration time.Duration) {
	if s.o.Sources != nil {
		s.readSources(p)
	}
	p.Node, p.V8 = s.Table.Versions()
	p.Start, p.Duration = start, duration
	s.source.finish(s, number, p)
}

// tick attaches to what was mapped since, reports progress, and drains the kernel's counts if
// needed.
func (s *session) tick() time.Duration {
	s.collector.relieve()
	if s.source.tick != nil {
		s.source.tick(s)
	}
	if s.o.Sampled != nil {
		s.o.Sampled(s.taken())
	}
	if s.probes.Late() > 0 {
		return event.FirstWait
	}
	return 0
}

// taken returns how many events have met all conditions.
func (s *session) taken() (n uint64) {
	for _, of := range s.counts(s.kernel.Matched) {
		n += of
	}
	return n
}

// counts reads the kernel's counters of each kind of event.
func (s *session) counts(counters *ebpf.Variable) (all [MaxEvents]uint64) {
	if err := counters.Get(&all); err != nil {
		s.Warn(fmt.Errorf("read the kernel's counters of events: %w", err))
	}
	return all
}
