package stopon

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/cilium/ebpf"

	"ustack/bpf"
	"ustack/loader"
	"ustack/tools/trace"
)

// A Result says how a run ended.
type Result struct {
	Matches uint64 // times that a trigger's conditions held
	Acted   uint64 // of those, reported and acted on
	Failed  uint64 // actions that failed
	Limited uint64 // matches that came too soon after another
	Lost    uint64 // matches that the kernel had no room for: neither reported nor acted on
	// Hits that the kernel recorded, but that were not reported before the run
	// ended because of its context, its duration or an error.
	Unreported uint64
	Unnamed    uint64 // records of functions and scripts for which the kernel had no room
	Missed     uint64 // stalls that ended before a stack was taken
	// Writes that were not searched to their end: they are longer than the
	// bound, or could not be read.
	Unsearched uint64
	Failures   trace.Failures // what could not be read of stacks
}

// Run waits for the triggers and acts until it has acted as often as it should,
// the duration is over, ctx is done or the last target has ended. It is no
// error if ctx ends. On every exit path, the processes that Run has stopped are
// resumed, except those that an action leaves stopped.
func Run(ctx context.Context, o Options) (*Result, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	s, err := open(o)
	if err != nil {
		return nil, err
	}
	s.table.Hurry(ctx)
	result, err := s.run(ctx)
	return result, errors.Join(err, s.close())
}

// A session is one run: what it has in the kernel and the hits so far.
type session struct {
	o       Options
	objects bpf.StoponObjects
	needed  map[string]bool // of the objects' programs, by name
	// inFunctions are copies of two of the programs, which see system calls in
	// the kernel's functions for them; empty if system calls are seen at the
	// tracepoints.
	inFunctions map[string]*ebpf.Program
	table       *trace.Table
	targets     *trace.Targets
	stopped     stoppedMap  // those that this session has stopped
	supervisor  *supervisor // nil if no action holds processes
	lifelines   lifelines   // of the processes that the session may stop
	events      *trace.Events
	hits        chan *Hit
	over        chan struct{} // closed when hits are no longer received
	acted       uint64
	stalled     uint64 // number of the last stall that was reported, 0 once it is over
	failed      uint64
	closers     []func() error // undone in reverse
	resources   int            // how many of closers were there before anything was attached to the kernel

	mutex   sync.Mutex
	pending map[hitKey]*bpf.StoponHit // until their stacks arrive
	probes  map[int]*probes           // by pid
	facts   map[int]processFacts      // by pid
}

type hitKey struct{ ids, hash uint64 }

// maxWaiting is how many hits may wait to be reported; any more stay in the
// kernel's buffer.
const maxWaiting = 64

// open prepares a run. Where the kernel does not allow programs in its
// functions, or they would miss some calls there, system calls are seen at the
// tracepoints.
func open(o Options) (*session, error) {
	if functions := o.kernelFunctions(); len(functions) > 0 && !loader.Preempts() {
		if s, err := openIn(functions, o); err == nil {
			return s, nil
		}
	}
	return openIn(nil, o) // if the cause was another one, this returns it
}

// openIn is open, but sees system calls in these functions of the kernel, or at
// the tracepoints if functions is empty.
func openIn(functions []string, o Options) (s *session, err error) {
	s = &session{
		o: o, hits: make(chan *Hit, maxWaiting), over: make(chan struct{}),
		pending: make(map[hitKey]*bpf.StoponHit), probes: make(map[int]*probes), facts: make(map[int]processFacts),
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	if err := s.load(functions); err != nil {
		return s, err
	}
	s.stopped.Map = s.objects.Stopped
	if o.needsSupervisor() { // before anything can be stopped
		if err := s.startSupervisor(); err != nil {
			return s, err
		}
		s.closers = append(s.closers, s.supervisor.close, s.lifelines.cutAll)
	}
	s.closers = append(s.closers,
		func() error { return s.stopped.releaseAfter(everything) }, s.detachAll) // once nothing is probed, nothing more is stopped
	s.table = trace.NewTable(trace.Maps{
		Processes: s.objects.Processes, Scripts: s.objects.Scripts, Rows: s.objects.UnwindRows, Described: s.objects.Described,
	})
	s.closers = append(s.closers, s.table.Close)
	s.targets = trace.NewTargets(s.table, o.Selection)
	s.targets.Added, s.targets.Ended, s.targets.Warn = s.attach, s.end, s.warn
	s.closers = append(s.closers, s.targets.Close)
	s.events, err = trace.Listen(s.objects.Events, s.targets, trace.Receiver{Stack: s.takeStack, Hit: s.takeHit, Wakes: true})
	if err != nil {
		return s, err
	}
	s.closers = append(s.closers, s.events.Close, func() error {
		close(s.over) // otherwise a hit that nobody receives would block the events
		return nil
	})
	s.resources = len(s.closers)
	return s, s.attachToKernel()
}

// load loads the programs into the kernel, configured by the options.
func (s *session) load(functions []string) error {
	spec, err := bpf.LoadStopon()
	if err != nil {
		return err
	}
	if err := configure(spec, &s.o); err != nil {
		return err
	}
	s.needed = s.o.programs()
	if len(functions) > 0 {
		runInFunctions(spec, functions, s.needed)
	}
	prune(spec, s.needed)
	loader.PrepareProbes(spec)
	s.inFunctions, err = loader.LoadAll(spec, &s.objects)
	if err != nil {
		return err
	}
	s.closers = append(s.closers, s.objects.Close)
	for _, p := range s.inFunctions {
		s.closers = append(s.closers, p.Close)
	}
	return nil
}

// attachToKernel attaches the programs that are not specific to one process.
// Most of them cost every process something, so only the needed ones are
// attached.
func (s *session) attachToKernel() error {
	exec, err := loader.RawTracepoint("sched_process_exec", s.objects.OnExec)
	if err != nil {
		return err
	}
	s.closers = append(s.closers, exec.Close)
	if s.needed[bpf.StoponProgOnOwnerEnd] {
		ours, err := loader.RawTracepoint("sched_process_exit", s.objects.OnOwnerEnd)
		if err != nil {
			return err
		}
		s.closers = append(s.closers, ours.Close)
	}
	programs := slices.Collect(maps.Values(s.inFunctions))
	for name, program := range map[string]*ebpf.Program{
		bpf.StoponProgOnSystemCall:    s.objects.OnSystemCall,
		bpf.StoponProgOnSystemCallEnd: s.objects.OnSystemCallEnd,
		bpf.StoponProgOnSignal:        s.objects.OnSignal,
		bpf.StoponProgOnSignalSent:    s.objects.OnSignalSent,
	} {
		if s.needed[name] {
			programs = append(programs, program)
		}
	}
	for _, p := range programs {
		l, err := loader.Trace(p)
		if err != nil {
			return err
		}
		s.closers = append(s.closers, l.Close)
	}
	return nil
}

// Rates at which running threads are sampled, per second on each CPU.
const (
	minHz      = 11
	maxHz      = 997
	hzForJS    = 199
	hzPerStall = 40 // samples in the time that makes a stall
)

// sample starts to sample running threads, if a trigger needs that.
func (s *session) sample() error {
	if !s.o.samples() {
		return nil
	}
	hz := hzForJS
	if s.o.Stall > 0 {
		hz = max(minHz, min(maxHz, int(hzPerStall*time.Second/s.o.Stall)))
	}
	sampler, err := loader.Sample(s.objects.OnTick, loader.CPUClock, hz)
	if err != nil {
		return err
	}
	s.closers = append(s.closers, sampler.Close)
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

// stopMatching detaches all programs from the kernel, so that its counters are
// final.
func (s *session) stopMatching() error {
	var errs []error
	for i := len(s.closers) - 1; i >= s.resources; i-- {
		errs = append(errs, s.closers[i]())
	}
	s.closers = s.closers[:s.resources]
	return errors.Join(append(errs, s.detachAll())...)
}

func (s *session) warn(err error) {
	if s.o.Warn != nil {
		s.o.Warn(err)
	}
}

func (s *session) run(ctx context.Context) (*Result, error) {
	if err := s.targets.Add(); err != nil {
		return nil, err
	}
	if err := s.sample(); err != nil {
		return nil, err
	}
	if s.o.Started != nil {
		s.o.Started()
	}
	if err := s.targets.Start(); err != nil {
		return nil, err
	}
	if s.supervisor != nil {
		defer s.guard()()
	}
	err := errors.Join(s.wait(ctx), s.stopMatching())
	s.table.ReportDropped()
	s.warnOfTroubles()
	result, countErr := s.result()
	return result, errors.Join(err, countErr, s.targets.Missing())
}

// tick is how often the session checks for functions that have been loaded
// since, and for processes that have been stopped for too long.
const tick = 250 * time.Millisecond

// wait acts on hits until there is nothing left to wait for.
func (s *session) wait(ctx context.Context) error {
	if s.o.Duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.o.Duration)
		defer cancel()
	}
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	late := time.NewTicker(firstWait)
	defer late.Stop()
	for s.o.Count == 0 || s.acted < s.o.Count {
		select {
		case <-ctx.Done():
			return nil
		case <-s.supervisorEnded():
			return nil // close returns the error
		case <-s.targets.Gone():
			return s.rest(ctx)
		case hit := <-s.hits:
			if err := s.act(ctx, hit); err != nil {
				return err
			}
		case <-late.C:
			if s.attachLate() == 0 {
				late.Reset(tick)
			}
		case <-ticker.C:
			s.warnOfTroubles()
		}
	}
	return s.awaitStallEnd(ctx)
}

// rest acts on everything that was sent before the last target ended, in order,
// however long that takes.
func (s *session) rest(ctx context.Context) error {
	flushed := make(chan error, 1)
	go func() { flushed <- s.events.Flush() }()
	for all := false; !all || len(s.hits) > 0; {
		if s.o.Count > 0 && s.acted >= s.o.Count {
			return nil // closing the session ends the flush
		}
		select {
		case <-ctx.Done():
			return nil
		case hit := <-s.hits:
			if err := s.act(ctx, hit); err != nil {
				return err
			}
		case err := <-flushed:
			if err != nil {
				return err
			}
			all, flushed = true, nil
		}
	}
	return nil
}

// warnOfTroubles reports why names and lines could not be found.
func (s *session) warnOfTroubles() {
	for _, err := range s.table.Troubles() {
		s.warn(err)
	}
}

// result sums the kernel's counters.
func (s *session) result() (*Result, error) {
	r := &Result{Acted: s.acted, Failed: s.failed}
	var errs []error
	for _, c := range []struct {
		variable *ebpf.Variable
		sum      *uint64
	}{
		{s.objects.Matches, &r.Matches},
		{s.objects.Limited, &r.Limited},
		{s.objects.Lost, &r.Lost},
		{s.objects.LostEvents, &r.Unnamed},
		{s.objects.Sent, &r.Unreported},
		{s.objects.Missed, &r.Missed},
		{s.objects.Unsearched, &r.Unsearched},
	} {
		var n uint64
		errs = append(errs, c.variable.Get(&n))
		*c.sum += n
	}
	r.Unreported -= min(r.Unreported, r.Acted)
	var err error
	r.Failures, err = trace.ReadFailures(s.objects.Failures)
	errs = append(errs, err, s.checkUnseen())
	return r, errors.Join(errs...)
}
