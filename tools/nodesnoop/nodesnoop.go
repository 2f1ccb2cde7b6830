// Package nodesnoop shows the HTTP requests that running Node.js processes serve and
// make, what else they wait for, and their garbage collections, one event for each. Nothing is injected: the
// requests are read from node's own calls as it makes them.
package nodesnoop

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cilium/ebpf/link"

	"ustack/bpf"
	"ustack/loader"
	"ustack/symbolize/nodehttp"
	"ustack/tools/sourcemaps"
	"ustack/tools/trace"
)

// Options say which processes to watch, and for what.
type Options struct {
	trace.Selection

	Maps  sourcemaps.Options
	Kinds Kinds
	// Stacks is for collections and iterations: the stack that a collection interrupted, and
	// what ran when an iteration had taken as long as Slower, which is needed then.
	Stacks   bool
	Slower   time.Duration // only what took longer; all if zero
	Statuses []StatusRange // only responses with one of these; all if empty
	Duration time.Duration // until the context or the targets end if zero
	Interval time.Duration

	Started func() // called once everything is attached; may be nil
	Tick    func() // called some times a second, when no Event is being handled; may be nil
	// Report is called each Interval, if that is not zero, when no Event is being handled,
	// with how the loops of those processes have spent it of which that is known.
	Report func(loops []Loop, now time.Time) error

	Event func(*Event) // called with each event, by one goroutine at a time; it is used again for the next
	Warn  func(error)  // called with what keeps something from being seen; may be nil
	Stop  <-chan struct{}

	preempted bool                          // as if threads could be preempted in the programs, for tests
	proof     proof                         // usualProof if zero; other for tests
	reads     func(int, bpf.NodesnoopReads) // called with a process when that has changed; nil but in tests
}

// Kinds are the kinds of events.
type Kinds struct {
	Server, Client, GC bool
	// Loop is for what event loops do between two waits. While it is watched, each system
	// call of each process takes some 0.3 microseconds longer.
	Loop bool
	// IO is for asynchronous operations besides HTTP: jobs of libuv's pool, and connections.
	IO bool
}

// A StatusRange is a range of HTTP statuses, both ends included.
type StatusRange struct{ Low, High int }

// MaxStatuses is how many Statuses there may be.
const MaxStatuses = 8

// Counts are what was seen in all, and what was not.
type Counts struct {
	Served, Requested, Collections, Iterations, Operations uint64 // that ended, whether they were wanted or not

	Unsent       uint64 // events for which there was no room
	Unfollowed   uint64 // requests for which there was no room
	NotFollowed  uint64 // operations for which there was no room
	Implausible  uint64 // requests that were not where they should be
	Unattributed uint64 // requests whose connection is not known
	Endless      uint64 // messages whose end was not found
	Unended      uint64 // waits of event loops whose end was not seen: threads were preempted in all the programs that see them
	Unscanned    uint64 // writes and reads that came while others were handled on their CPU
	Stackless    uint64 // events whose stack was taken, but had no room
	Late         uint64 // processes that began meanwhile, and had connections before they were watched
	Missed       uint64 // processes that began meanwhile, had connections, and ended before they were watched: with Command, of any kind
}

// Run watches until the duration is over, ctx is done or the last target has ended. It is
// not an error if ctx is done.
func Run(ctx context.Context, o Options) (Counts, error) {
	s, err := open(ctx, o)
	if err != nil {
		return Counts{}, err
	}
	counts, err := s.run(ctx)
	return counts, errors.Join(err, s.Close())
}

// A Watchable is a process that could be watched, or why it cannot.
type Watchable struct {
	trace.Identity
	Err error
}

// List returns the selected processes that contain Node.js. Nothing is attached to them.
func List(ctx context.Context, o Options) (all []Watchable, err error) {
	s, err := open(ctx, o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	s.listing = make(map[int]error)
	if err := s.Add(); err != nil {
		return nil, err
	}
	for _, id := range s.Table.Identities() {
		if err, ok := s.listing[id.PID]; ok {
			all = append(all, Watchable{id, err})
		}
	}
	return all, s.Missing()
}

// A session is one run: what it has in the kernel.
type session struct {
	*trace.Session
	o       Options
	objects bpf.NodesnoopObjects
	clock   clock
	stacks  trace.Stacks
	record  bpf.NodesnoopTransaction // the latest; what handles records is one goroutine
	event   Event                    // the latest, likewise
	listing map[int]error            // why processes cannot be watched; nil: they are
	started atomic.Bool              // what is attached from now on began to run before that
	late    atomic.Uint64            // see Counts.Late
	missed  atomic.Uint64            // see Counts.Missed
	sends   link.Link                // nil: what is written is read where node writes it, or no longer
	noted   bool                     // the kernel half notes what processes send before they are watched
	chosen  time.Time                // when chooseReads was called last

	handling sync.Mutex // while an event is handled

	mutex    sync.Mutex
	numbers  trace.Numbering // of nodes, in the kernel
	slots    [nodeSlots]slot
	receipts link.Link          // nil: no process's requests are found in what it receives
	targeted map[int]*target    // by pid: those that are running
	all      map[uint64]*target // by generation
	files    map[trace.FileID]found
}

func open(ctx context.Context, o Options) (s *session, err error) {
	spec, err := bpf.LoadNodesnoop()
	if err != nil {
		return nil, err
	}
	if o.Kinds.Loop && (o.preempted || loader.PreemptsAtTracepoints()) {
		if err := loader.Repeat(spec, bpf.NodesnoopProgOnWait, bpf.NodesnoopProgOnWoken); err != nil {
			return nil, err
		}
	}
	if o.proof == (proof{}) {
		o.proof = usualProof
	}
	s = &session{o: o, chosen: time.Now(), clock: newClock(), targeted: make(map[int]*target), all: make(map[uint64]*target), files: make(map[trace.FileID]found)}
	s.Session, err = trace.Open(ctx, trace.Options{Selection: o.Selection, Maps: o.Maps, Duration: o.Duration, Warn: o.Warn}, trace.Tool{
		Spec: spec, Objects: &s.objects, Variables: o.variables(), Symbols: nodehttp.Symbols, Poll: trace.UsualPoll,
		Stack: s.stacks.Take,
		Events: map[bpf.TraceEventKind]func([]byte){
			bpf.TraceEventKind(bpf.NodesnoopSnoopEventEVENT_TRANSACTION): s.transaction,
			bpf.TraceEventKind(bpf.NodesnoopSnoopEventEVENT_PAUSE):       s.pause,
			bpf.TraceEventKind(bpf.NodesnoopSnoopEventEVENT_ITERATION):   s.iteration,
			bpf.TraceEventKind(bpf.NodesnoopSnoopEventEVENT_OPERATION):   s.operation,
			bpf.TraceEventKind(bpf.NodesnoopSnoopEventEVENT_UNFIT):       s.unfit,
		},
		Added: s.attach, Ended: s.detach, Missed: s.miss,
	})
	if err != nil {
		return nil, err
	}
	s.stacks.Table, s.stacks.Sent = s.Table, s.objects.Sent
	s.Defer(s.detachAll)
	if err := errors.Join(s.attachSends(), s.Listen()); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// variables returns the constants of the programs.
func (o *Options) variables() map[string]any {
	var statuses [MaxStatuses]bpf.NodesnoopRangeOfStatus
	for i, r := range o.Statuses {
		statuses[i] = bpf.NodesnoopRangeOfStatus{Low: uint16(r.Low), High: uint16(r.High)}
	}
	return map[string]any{
		bpf.NodesnoopVarSlower:      uint64(o.Slower),
		bpf.NodesnoopVarWithStacks:  flag(o.Stacks),
		bpf.NodesnoopVarWithServers: flag(o.Kinds.Server),
		bpf.NodesnoopVarWithClients: flag(o.Kinds.Client),
		bpf.NodesnoopVarWithPauses:  flag(o.Kinds.GC),
		bpf.NodesnoopVarStatuses:    statuses,
		bpf.NodesnoopVarWaits:       waits,
		bpf.NodesnoopVarStatusCount: uint32(len(o.Statuses)),
	}
}

func flag(b bool) uint32 {
	if b {
		return 1
	}
	return 0
}

func (s *session) run(ctx context.Context) (Counts, error) {
	err := s.Run(ctx, trace.Loop{
		Attach: s.attachLoops,
		Started: func() {
			s.started.Store(true)
			if s.o.Started != nil {
				s.o.Started()
			}
		},
		Stop:     s.o.Stop,
		Interval: s.o.Interval, Report: s.reportInterval,
		Tick: func() time.Duration {
			s.chooseReads()
			s.handling.Lock()
			defer s.handling.Unlock()
			if s.o.Tick != nil {
				s.o.Tick()
			}
			return 0
		},
	})
	if err := s.detachAll(); err != nil {
		s.Warn(err)
	}
	if err != nil {
		return Counts{}, err
	}
	if err := errors.Join(s.Flush(), s.Missing()); err != nil {
		return Counts{}, err
	}
	s.Diagnose()
	counts := s.counts()
	s.warnOf(counts)
	return counts, nil
}

// attachLoops runs programs at the system calls in which loops wait.
func (s *session) attachLoops() error {
	if !s.o.Kinds.Loop {
		return nil
	}
	err := errors.Join(
		s.AttachCopies(bpf.NodesnoopProgOnWoken, s.objects.OnWoken),
		s.AttachCopies(bpf.NodesnoopProgOnWait, s.objects.OnWait), // after what sees the ends of the calls
	)
	if err != nil || !s.o.Stacks {
		return err
	}
	hz := max(minHz, min(maxHz, int(hzPerIteration*time.Second/max(s.o.Slower, 1))))
	_, err = s.Sample(s.objects.OnLoopTick, loader.CPUClock, loader.Sampling{Hz: hz})
	return err
}

// Rates at which running threads are sampled for the stacks of iterations, per second on each
// CPU.
const (
	minHz          = 11
	maxHz          = 997
	hzPerIteration = 40 // samples in the time that makes an iteration long
)

func (s *session) counts() Counts {
	o := &s.objects
	return Counts{
		Served: s.Count(o.Served), Requested: s.Count(o.Requested), Collections: s.Count(o.Collections), Iterations: s.Count(o.Iterations), Operations: s.Count(o.Operations),
		Unsent: s.Count(o.Unsent), Unfollowed: s.Count(o.Unfollowed), NotFollowed: s.Count(o.UnfollowedOperations), Implausible: s.Count(o.Implausible),
		Unattributed: s.Count(o.Unattributed), Endless: s.Count(o.Endless), Unscanned: s.Count(o.Unscanned), Unended: s.Count(o.Unended),
		Stackless: s.stacks.Missing(), Late: s.late.Load(), Missed: s.missed.Load(),
	}
}

// warnOf warns of what was not seen, or not wholly.
func (s *session) warnOf(c Counts) {
	for _, lost := range []struct {
		count  uint64
		format string
	}{
		{c.Unsent, "%d events were lost: they came faster than they could be handled"},
		{c.Unfollowed, "%d requests were not followed: too many were unanswered at once"},
		{c.NotFollowed, "%d operations were not followed: too many were under way at once"},
		{c.Implausible, "%d requests are not shown: they were not where this Node.js should have them"},
		{c.Unattributed, "%d requests are not shown: what connection they came from is not known"},
		{c.Endless, "the ends of %d messages were not found: their times are those of their last known bytes"},
		{c.Stackless, "%d events are shown without their stack: there was no room for it"},
		{c.Unended, "%d iterations of event loops were not seen: threads were preempted in all the programs that see them"},
		{c.Late, "the first requests of %d processes may be missing: they had connections before they were watched"},
		{c.Missed, "%d processes had connections, and ended before they were watched: if they were Node.js, their requests are missing"},
		{c.Unscanned, "%d writes or reads were not seen: others were handled on their CPU"},
	} {
		if lost.count > 0 {
			s.Warn(fmt.Errorf(lost.format, lost.count))
		}
	}
}
