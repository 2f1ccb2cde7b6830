// Package addonlat measures the asynchronous work that add-ons and node itself
// hand to libuv's thread pool: how long it waits for a thread, runs, and waits
// for the event loop to take its result, by who submitted it.
package addonlat

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"ustack/bpf"
	"ustack/tools/quantize"
	"ustack/tools/sourcemaps"
	"ustack/tools/trace"
)

// Options say which processes to measure and how.
type Options struct {
	trace.Selection
	Maps sourcemaps.Options

	By       By
	Builtin  bool                // node's own work too
	Tiers    bool                // by Stack: stacks that differ in tiers are of several kinds
	Linear   *quantize.LQuantize // also count totals in these equal steps; nil: do not
	Duration time.Duration       // until the context or the targets end if zero
	Interval time.Duration       // report this often and restart the counts; never if zero
	Every    time.Duration       // after this long, call Slice for the first time; never if zero

	Started  func()              // called once everything is attached; may be nil
	Progress func(Pool)          // called from time to time with the sum of the pools so far; may be nil
	Report   func(*Report) error // called at each Interval; may be nil
	// Slice is called with what was counted since the last Slice, regardless of
	// Interval and for the last time at the end. It returns the time until the next.
	Slice func(*Slice) time.Duration
	Warn  func(error) // called with what keeps something from being measured; may be nil
}

// Run measures until the duration is over, ctx is done or the last target has ended,
// and returns what was measured since the start or the last interval. It is not an
// error if ctx is done.
func Run(ctx context.Context, o Options) (*Report, error) {
	s, err := open(ctx, o)
	if err != nil {
		return nil, err
	}
	report, err := s.run(ctx)
	return report, errors.Join(err, s.Close())
}

// A session is one run: what it has in the kernel and what it has received.
type session struct {
	*trace.Session
	o       Options
	objects bpf.AddonlatObjects
	begun   time.Time // start of the current report
	slicer  slicer

	mutex    sync.Mutex
	numbers  trace.Numbering      // of pools, in the kernel
	kinds    map[uint64]submitter // by the kernel's hash
	targeted map[int]*target      // by pid: those that are running
	all      map[uint64]*target   // by generation
}

func open(ctx context.Context, o Options) (s *session, err error) {
	spec, err := bpf.LoadAddonlat()
	if err != nil {
		return nil, err
	}
	s = &session{
		o: o, kinds: make(map[uint64]submitter),
		targeted: make(map[int]*target), all: make(map[uint64]*target),
	}
	s.Session, err = trace.Open(ctx, trace.Options{Selection: o.Selection, Maps: o.Maps, Duration: o.Duration, Warn: o.Warn}, trace.Tool{
		Spec: spec, Objects: &s.objects, Variables: o.variables(),
		Stack: s.take, Added: s.attach, Ended: s.detach,
	})
	if err != nil {
		return nil, err
	}
	s.Defer(s.detachAll)
	if err := errors.Join(s.putEmpty(), s.Listen()); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// variables returns the constants of the programs.
func (o *Options) variables() map[string]any {
	var low, step, levels int64
	if l := o.Linear; l != nil {
		low, step, levels = l.Low, l.Step, int64(l.Levels())
	}
	return map[string]any{
		bpf.AddonlatVarKeyedBy:      uint32(o.By),
		bpf.AddonlatVarLinearLow:    low,
		bpf.AddonlatVarLinearStep:   step,
		bpf.AddonlatVarLinearLevels: levels,
	}
}

// putEmpty gives the kernel a kind without jobs.
func (s *session) putEmpty() error {
	var empty bpf.AddonlatKind
	for i := range empty.Parts {
		empty.Parts[i].Min = math.MaxUint64
	}
	if err := s.objects.Empty.Put(uint32(0), &empty); err != nil {
		return fmt.Errorf("configure BPF programs: %w", err)
	}
	return nil
}

// A submitter identifies a kind.
type submitter struct {
	stack  trace.Stack
	jumped string // the function that was left by a tail call before the first frame; empty if none
}

// take stores a stack that identifies a kind.
func (s *session) take(hash uint64, stack trace.Stack) {
	by := submitter{stack: stack}
	if stack.Addon && s.o.By <= Resource {
		by.jumped = jumpedFrom(s.Table, stack)
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.kinds[hash] = by
}

func (s *session) run(ctx context.Context) (*Report, error) {
	err := s.Run(ctx, trace.Loop{
		Attach: func() error {
			s.begun = time.Now()
			s.slicer.begin(s.begun, s.o.Every)
			return nil
		},
		Started: s.o.Started,
		Tick:    s.tick, Interval: s.o.Interval, Report: s.reportInterval,
	})
	end := time.Now()
	s.stop()
	if err != nil {
		return nil, err
	}
	if err := errors.Join(s.Flush(), s.Missing()); err != nil {
		return nil, err
	}
	s.Diagnose()
	return s.report(end)
}

func (s *session) reportInterval() error {
	report, err := s.report(time.Now())
	if err != nil {
		return err
	}
	return s.o.Report(report)
}

// tick takes a slice if it is time, and reports progress.
func (s *session) tick() time.Duration {
	next, err := s.sliceIfDue(time.Now())
	if err != nil {
		s.Warn(err)
	}
	var sum Pool
	for _, p := range s.pools(time.Now()) { // this also reads libuv's thread counts, while they can be read
		sum.Submitted += p.Submitted
		sum.Completed += p.Completed
		sum.InFlight += p.InFlight
	}
	if s.o.Progress != nil {
		s.o.Progress(sum)
	}
	return next
}
