package stopon

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/cilium/ebpf"

	"ustack/bpf"
	"ustack/loader"
	"ustack/tools/event"
	"ustack/tools/trace"
)

// A Result says how a run ended.
type Result struct {
	Matches  uint64  // times that a trigger's conditions held
	Triggers []Tally // Matches by trigger, those with the most first
	Acted    uint64  // of those, reported and acted on
	Failed   uint64  // actions that failed
	Limited  uint64  // matches that came too soon after others
	Lost     uint64  // matches that the kernel had no room for: neither reported nor acted on
	// Hits that the kernel recorded, but that were not reported before the run
	// ended because of its context, its duration or an error.
	Unreported uint64
	Unnamed    uint64 // records of functions and scripts for which the kernel had no room
	Missed     uint64 // stalls that ended before a stack was taken
	// Writes that were not searched to their end: they are longer than the
	// bound, or could not be read.
	Unsearched uint64
	Unended    uint64         // system calls whose end was not seen: threads were preempted in all the programs that see them
	Unclassed  uint64         // exceptions whose class could not be read, if one of a class is waited for
	Untallied  uint64         // matches that are in Matches, but for lack of room not in Triggers
	Unnumbered uint64         // static probes whose arguments are not known, since there are too many kinds of them
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
	s, err := open(ctx, o)
	if err != nil {
		return nil, err
	}
	result, err := s.run(ctx)
	return result, errors.Join(err, s.Close())
}

// A session is one run: what it has in the kernel and the hits so far.
type session struct {
	*trace.Session
	o          Options
	objects    bpf.StoponObjects
	needed     map[string]bool // of the objects' programs, by name
	repeated   bool            // system calls are seen at the tracepoints, by copies of the programs, too
	stopped    stoppedMap      // those that this session has stopped
	supervisor *supervisor     // nil if no action holds processes
	probes     event.Probes
	usdts      event.Descriptions
	lifelines  lifelines                        // of the processes that the session may stop
	hits       chan func(context.Context) error // act on hits
	over       chan struct{}                    // closed when hits are no longer received
	acted      uint64
	rested     bool   // rest was called
	stalled    uint64 // number of the last stall that was reported, 0 once it is over
	failed     uint64

	mutex   sync.Mutex
	pending map[hitKey]*bpf.StoponHit // until their stacks arrive
	facts   map[int]processFacts      // by pid
}

type hitKey struct{ ids, hash uint64 }

// maxWaiting is how many hits may wait to be reported; any more stay in the
// kernel's buffer.
const maxWaiting = 64

// open prepares a run. Where the kernel does not allow programs in its
// functions, or they would miss some calls there, system calls are seen at the
// tracepoints.
func open(ctx context.Context, o Options) (*session, error) {
	if functions := o.kernelFunctions(); len(functions) > 0 && !o.preempted && !loader.Preempts() {
		if s, err := openIn(ctx, functions, o); err == nil {
			return s, nil
		}
	}
	return openIn(ctx, nil, o) // if the cause was another one, this returns it
}

// kernelFunctions returns the kernel functions in which all wanted system calls can be seen;
// none if the tracepoints are needed.
func (o *Options) kernelFunctions() []string {
	if o.Stall > 0 {
		return nil
	}
	return event.KernelFunctions(o.Syscalls, o.Errnos)
}

// openIn is open, but sees system calls in these functions of the kernel, or at
// the tracepoints if functions is empty.
func openIn(ctx context.Context, functions []string, o Options) (*session, error) {
	spec, err := bpf.LoadStopon()
	if err != nil {
		return nil, err
	}
	s := &session{
		o: o, needed: o.programs(), hits: make(chan func(context.Context) error, maxWaiting), over: make(chan struct{}),
		pending: make(map[hitKey]*bpf.StoponHit), facts: make(map[int]processFacts),
	}
	switch {
	case len(functions) > 0:
		event.RunInFunctions(spec, functions, s.needed)
	case o.preempted || loader.PreemptsAtTracepoints():
		if err := s.repeat(spec); err != nil {
			return nil, err
		}
	}
	event.Prune(spec, s.needed)
	variables := o.variables()
	variables[bpf.StoponVarBurst] = uint64(o.Burst)
	s.Session, err = trace.Open(ctx, trace.Options{Selection: o.Selection, Maps: o.Maps, Duration: o.Duration, Warn: o.Warn}, trace.Tool{
		Spec: spec, Objects: &s.objects, Variables: variables,
		Stack:  s.takeStack,
		Events: map[bpf.TraceEventKind]func([]byte){bpf.TraceEventKindEVENT_TOOL: s.takeHit},
		Added:  s.attach, Ended: s.end,
	})
	if err != nil {
		return nil, err
	}
	s.probes.Table, s.probes.Warn, s.probes.Starting = s.Table, s.warn, len(o.Command) > 0
	if err := s.listen(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// repeat has copies of the programs that see system calls see what these do not. Signals are delivered
// under a lock: no thread is preempted in the programs that see them.
func (s *session) repeat(spec *ebpf.CollectionSpec) error {
	var names []string
	for _, name := range []string{bpf.StoponProgOnSystemCallEnd, bpf.StoponProgOnCallInLoop} {
		if s.needed[name] {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	s.repeated = true
	s.needed[bpf.StoponProgOnSystemCall] = true // it counts the calls whose end is not seen
	return loader.Repeat(spec, append(names, bpf.StoponProgOnSystemCall)...)
}

// listen makes sure that everything is resumed at the end, then has hits come in.
func (s *session) listen() error {
	s.stopped.Map = s.objects.Stopped
	if s.o.needsSupervisor() { // before anything can be stopped
		if err := s.startSupervisor(); err != nil {
			return err
		}
		s.Defer(s.supervisor.close)
		s.Defer(s.lifelines.cutAll)
	}
	s.Defer(func() error { return s.stopped.releaseAfter(everything) })
	s.Defer(s.probes.Close) // once nothing is probed, nothing more is stopped
	if err := s.Listen(); err != nil {
		return err
	}
	s.Defer(func() error {
		close(s.over) // otherwise a hit that nobody receives would block the events
		return nil
	})
	return s.attachToKernel()
}

// attachToKernel attaches the programs that are not specific to one process.
// Most of them cost every process something, so only the needed ones are
// attached.
func (s *session) attachToKernel() error {
	if s.needed[bpf.StoponProgOnOwnerEnd] {
		if err := s.Attach(loader.RawTracepoint("sched_process_exit", s.objects.OnOwnerEnd)); err != nil {
			return err
		}
	}
	for _, p := range []struct {
		name    string
		program *ebpf.Program
	}{
		{bpf.StoponProgOnSystemCallEnd, s.objects.OnSystemCallEnd},
		{bpf.StoponProgOnCallInLoop, s.objects.OnCallInLoop},
		{bpf.StoponProgOnSystemCall, s.objects.OnSystemCall}, // after those that see the ends
		{bpf.StoponProgOnSignal, s.objects.OnSignal},
		{bpf.StoponProgOnSignalSent, s.objects.OnSignalSent},
	} {
		if s.needed[p.name] {
			if err := s.AttachCopies(p.name, p.program); err != nil {
				return err
			}
		}
	}
	if s.repeated {
		return nil
	}
	for _, p := range s.Others {
		if err := s.Attach(loader.Trace(p)); err != nil {
			return err
		}
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
	_, err := s.Sample(s.objects.OnTick, loader.CPUClock, loader.Sampling{Hz: hz})
	return err
}

func (s *session) run(ctx context.Context) (*Result, error) {
	started := false
	endGuard := func() {}
	defer func() { endGuard() }()
	l := trace.Loop{
		Attach: func() error {
			if err := s.sample(); err != nil {
				return err
			}
			if s.supervisor != nil {
				endGuard = s.guard()
			}
			return nil
		},
		Started: func() {
			started = true
			if s.o.Timeout > 0 {
				timer := time.AfterFunc(s.o.Timeout, func() { s.deliverWork(s.timeOut) })
				s.Defer(func() error {
					timer.Stop()
					return nil
				})
			}
			if s.o.Started != nil {
				s.o.Started()
			}
		},
		Tick: s.tick, FirstTick: event.FirstWait,
		Work: s.hits, Last: s.rest, Stop: s.supervisorEnded(), // if that is closed, Close returns the error
	}
	err := s.Run(ctx, l)
	if !started {
		return nil, err
	}
	err = errors.Join(err, s.probes.Close())
	if err == nil && s.o.Rest && !s.rested && !s.hasActed() {
		err = unlessDone(s.rest(context.WithoutCancel(ctx)))
	}
	s.Diagnose()
	result, countErr := s.result()
	return result, errors.Join(err, countErr, s.Missing())
}

// timeOut ends the run if nothing has been seen.
func (s *session) timeOut(context.Context) error {
	for _, c := range []*ebpf.Variable{s.objects.Sent, s.objects.Lost} {
		var n uint64
		if err := c.Get(&n); err != nil || n > 0 {
			return err
		}
	}
	return trace.ErrDone
}

func (s *session) warn(err error) {
	if s.o.Warn != nil {
		s.o.Warn(err)
	}
}

// Seen reports whether there was anything to act on.
func (r *Result) Seen() bool { return r.Acted+r.Unreported+r.Lost > 0 }

// tick checks for functions that have been loaded since, soon again if some are
// still missing.
func (s *session) tick() time.Duration {
	if s.probes.Late() == 0 {
		return 0
	}
	return event.FirstWait
}

// handle acts on a hit. It returns trace.ErrDone once the session has acted as often
// as it should.
func (s *session) handle(ctx context.Context, h *Hit) error {
	if s.hasActed() && h.Trigger != stallEnd {
		return nil
	}
	if err := s.act(ctx, h); err != nil || !s.hasActed() || h.Trigger == stallEnd {
		return err
	}
	if err := s.awaitStallEnd(ctx); err != nil {
		return err
	}
	return trace.ErrDone
}

// hasActed reports whether the session has acted as often as it should.
func (s *session) hasActed() bool { return s.o.Count > 0 && s.acted >= s.o.Count }

// rest acts on everything that was sent before the last target ended, in order,
// however long that takes.
func (s *session) rest(ctx context.Context) error {
	s.rested = true
	flushed := make(chan error, 1)
	go func() { flushed <- s.Flush() }() // closing the session ends it
	for all := false; !all || len(s.hits) > 0; {
		select {
		case <-ctx.Done():
			return nil
		case act := <-s.hits:
			if err := act(ctx); err != nil {
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

func unlessDone(err error) error {
	if errors.Is(err, trace.ErrDone) {
		return nil
	}
	return err
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
		{s.objects.Unended, &r.Unended},
		{s.objects.Unclassed, &r.Unclassed},
		{s.objects.Untallied, &r.Untallied},
		{s.objects.Unnumbered, &r.Unnumbered},
	} {
		var n uint64
		errs = append(errs, c.variable.Get(&n))
		*c.sum += n
	}
	r.Unreported -= min(r.Unreported, r.Acted)
	var err error
	r.Triggers, err = s.tallies()
	errs = append(errs, err)
	r.Failures, err = s.Failures(s.objects.Failures)
	errs = append(errs, err)
	return r, errors.Join(errs...)
}
