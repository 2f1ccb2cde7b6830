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
	"ustack/loader"
	"ustack/tools/quantize"
	"ustack/tools/trace"
)

// Options say which processes to measure and how.
type Options struct {
	trace.Selection

	By       By
	Builtin  bool                // node's own work too
	Linear   *quantize.LQuantize // also count totals in these equal steps; nil: do not
	Duration time.Duration       // until the context or the targets end if zero
	Interval time.Duration       // report this often and restart the counts; never if zero

	Started  func()              // called once everything is attached; may be nil
	Progress func(Pool)          // called from time to time with the sum of the pools so far; may be nil
	Report   func(*Report) error // called at each Interval; may be nil
	Warn     func(error)         // called with what keeps something from being measured; may be nil
}

// Run measures until the duration is over, ctx is done or the last target has ended,
// and returns what was measured since the start or the last interval. It is not an
// error if ctx is done.
func Run(ctx context.Context, o Options) (*Report, error) {
	s, err := open(o)
	if err != nil {
		return nil, err
	}
	s.table.Hurry(ctx)
	report, err := s.run(ctx)
	return report, errors.Join(err, s.close())
}

// A session is one run: what it has in the kernel and what it has received.
type session struct {
	o       Options
	objects bpf.AddonlatObjects
	table   *trace.Table
	targets *trace.Targets
	events  *trace.Events
	closers []func() error // called in reverse order
	begun   time.Time      // start of the current report

	mutex    sync.Mutex
	numbers  numbering            // of pools, in the kernel
	kinds    map[uint64]submitter // by the kernel's hash
	targeted map[int]*target      // by pid: those that are running
	all      map[uint64]*target   // by generation
}

func open(o Options) (s *session, err error) {
	s = &session{
		o: o, kinds: make(map[uint64]submitter),
		targeted: make(map[int]*target), all: make(map[uint64]*target),
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	if err := s.load(); err != nil {
		return s, err
	}
	s.table = trace.NewTable(trace.Maps{
		Processes: s.objects.Processes, Scripts: s.objects.Scripts, Rows: s.objects.UnwindRows, Described: s.objects.Described,
	})
	s.closers = append(s.closers, s.table.Close)
	s.targets = trace.NewTargets(s.table, o.Selection)
	s.targets.Added, s.targets.Ended, s.targets.Warn = s.attach, s.detach, s.warn
	s.closers = append(s.closers, s.detachAll, s.targets.Close)
	s.events, err = trace.Listen(s.objects.Events, s.targets, trace.Receiver{Stack: s.take, Wakes: true})
	if err != nil {
		return s, err
	}
	s.closers = append(s.closers, s.events.Close)
	exec, err := loader.RawTracepoint("sched_process_exec", s.objects.OnExec)
	if err != nil {
		return s, err
	}
	s.closers = append(s.closers, exec.Close)
	return s, nil
}

// load loads the programs into the kernel, configured by the options.
func (s *session) load() error {
	spec, err := bpf.LoadAddonlat()
	if err != nil {
		return err
	}
	namespace, err := loader.PIDNamespace()
	if err != nil {
		return err
	}
	var low, step, levels int64
	if l := s.o.Linear; l != nil {
		low, step, levels = l.Low, l.Step, int64(l.Levels())
	}
	err = errors.Join(
		spec.Variables[bpf.AddonlatVarPidNamespace].Set(namespace),
		spec.Variables[bpf.AddonlatVarKeyedBy].Set(uint32(s.o.By)),
		spec.Variables[bpf.AddonlatVarLinearLow].Set(low),
		spec.Variables[bpf.AddonlatVarLinearStep].Set(step),
		spec.Variables[bpf.AddonlatVarLinearLevels].Set(levels))
	if err != nil {
		return fmt.Errorf("configure BPF programs: %w", err)
	}
	loader.PrepareProbes(spec)
	if err := loader.Load(spec, &s.objects); err != nil {
		return err
	}
	s.closers = append(s.closers, s.objects.Close)
	var empty bpf.AddonlatKind
	for i := range empty.Parts {
		empty.Parts[i].Min = math.MaxUint64
	}
	if err := s.objects.Empty.Put(uint32(0), &empty); err != nil {
		return fmt.Errorf("configure BPF programs: %w", err)
	}
	return nil
}

func (s *session) close() error {
	var errs []error
	for i := len(s.closers) - 1; i >= 0; i-- {
		errs = append(errs, s.closers[i]())
	}
	s.closers = nil
	return errors.Join(errs...)
}

func (s *session) warn(err error) {
	if s.o.Warn != nil {
		s.o.Warn(err)
	}
}

// A submitter identifies a kind.
type submitter struct {
	stack  trace.Stack
	jumped string // the function that was left by a tail call before the first frame; empty if none
}

// take stores a stack that identifies a kind.
func (s *session) take(raw []byte) {
	hash, stack := s.table.Stack(raw)
	by := submitter{stack: stack}
	if stack.Addon && s.o.By <= Resource {
		by.jumped = jumpedFrom(s.table, stack)
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.kinds[hash] = by
}

func (s *session) run(ctx context.Context) (*Report, error) {
	if err := s.targets.Add(); err != nil {
		s.warnOfTroubles()
		return nil, err
	}
	s.begun = time.Now()
	if s.o.Started != nil {
		s.o.Started()
	}
	if err := s.targets.Start(); err != nil {
		return nil, err
	}
	err := s.wait(ctx)
	end := time.Now()
	s.stop()
	if err := errors.Join(err, s.events.Flush(), s.targets.Missing()); err != nil {
		return nil, err
	}
	s.warnOfTroubles()
	return s.report(end)
}

// tick is how often progress is reported.
const tick = 250 * time.Millisecond

// wait returns when there is nothing left to measure.
func (s *session) wait(ctx context.Context) error {
	if s.o.Duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.o.Duration)
		defer cancel()
	}
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	var interval <-chan time.Time
	if s.o.Interval > 0 {
		t := time.NewTicker(s.o.Interval)
		defer t.Stop()
		interval = t.C
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.targets.Gone():
			return nil
		case <-interval:
			report, err := s.report(time.Now())
			if err == nil {
				err = s.o.Report(report)
			}
			if err != nil {
				return err
			}
		case <-ticker.C:
			s.tick()
		}
	}
}

func (s *session) warnOfTroubles() {
	for _, err := range s.table.Troubles() {
		s.warn(err)
	}
}

func (s *session) tick() {
	s.warnOfTroubles()
	var sum Pool
	for _, p := range s.pools(time.Now()) { // this also reads libuv's thread counts, while they can be read
		sum.Submitted += p.Submitted
		sum.Completed += p.Completed
		sum.InFlight += p.InFlight
	}
	if s.o.Progress != nil {
		s.o.Progress(sum)
	}
}
