// Package tcp follows the TCP connections of running processes: each change of a
// connection's state and who caused it, who closed first, what waits to be sent and to be read,
// and what is sent again. The kernel sees the sockets, in whatever network namespace they are;
// nothing runs in the processes.
package tcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"ustack/bpf"
	"ustack/loader"
	"ustack/symbolize"
	"ustack/tools/descriptors"
	"ustack/tools/event"
	"ustack/tools/sourcemaps"
	"ustack/tools/trace"
)

// Options say which processes to watch.
type Options struct {
	trace.Selection
	Maps sourcemaps.Options

	Stacks   bool          // with the stack of what a call of the process causes
	Interval time.Duration // how often changed queues are reported; a second if zero
	Duration time.Duration // until the context or the targets end if zero

	Started func()      // called once everything is attached; may be nil
	Tick    func()      // called some times a second, when no Event is being handled; may be nil
	Event   func(Event) // called with each event, by one goroutine at a time
	Warn    func(error)
	Stop    <-chan struct{}

	preempted bool // as if threads could be preempted in the programs, for tests
}

// A Kind is what happened to a socket.
type Kind uint8

// Kinds of events.
const (
	Found         = Kind(bpf.TcpHappeningHAPPENED_FOUND)         // it was open at the start, or came by another way than accept
	Changed       = Kind(bpf.TcpHappeningHAPPENED_STATE)         // its state
	Accepted      = Kind(bpf.TcpHappeningHAPPENED_ACCEPTED)      // by the process
	Retransmitted = Kind(bpf.TcpHappeningHAPPENED_RETRANSMITTED) // a segment was sent again
	Queues        = Kind(bpf.TcpHappeningHAPPENED_QUEUES)        // are not what they were when they were last reported
)

// String returns the kind as programs read it.
func (k Kind) String() string {
	return [...]string{"found", "state", "accepted", "retransmit", "queues"}[k]
}

// A Closer is the end of a connection that began to close it.
type Closer uint8

// Closers.
const (
	Nobody    = Closer(bpf.TcpCloserCLOSED_BY_NONE)
	ThisSide  = Closer(bpf.TcpCloserCLOSED_HERE)
	OtherSide = Closer(bpf.TcpCloserCLOSED_THERE)
)

// String returns the closer as programs read it; "" if nobody did.
func (c Closer) String() string { return [...]string{"", "local", "remote"}[c] }

// An Event is what happened to a socket of a process.
type Event struct {
	Kind   Kind
	Time   time.Time
	PID    int
	Inside int    // the PID in the process's own namespace; 0: the same
	TID    int    // of the thread whose call did it; 0: a packet or a timer did
	Socket uint64 // its number in this run
	// Local and Peer are its ends: addresses with ports, empty if there is none or it is not
	// known yet.
	Local, Peer string

	Old, State    State
	SendQueue     uint32 // bytes that are not acknowledged; listening: how many connections the other queue may hold
	ReceiveQueue  uint32 // bytes that are not read; listening: connections that are not accepted
	Retransmitted uint32 // segments, so far
	Errno         unix.Errno
	Closer        Closer
	Waited        time.Duration // accepted: since the connection was established; 0: not known
	Frames        []symbolize.Frame
}

// ErrnoName returns the name of the error that closed the connection; "" if none did.
func (e *Event) ErrnoName() string {
	if e.Errno == 0 {
		return ""
	}
	return event.ErrnoName(e.Errno)
}

// A State is one of TCP's, by the kernel's number.
type State = descriptors.State

// States that others compare with.
const (
	Established = State(bpf.TcpTcpStateTCP_ESTABLISHED)
	Close       = State(bpf.TcpTcpStateTCP_CLOSE)
	Listen      = State(bpf.TcpTcpStateTCP_LISTEN)
)

// Counts are what was seen in all, and what was not.
type Counts struct {
	Sockets    uint64 // of the processes
	Unfollowed uint64 // of those, there was no room for
	Lost       uint64 // events for which there was no room
	Unreported uint64 // changes of state before which the kernel did not report others
	Unended    uint64 // calls of accept whose end was not seen: threads were preempted in all the programs that see them
	Untimed    uint64 // accepted connections of which it is not known how long they waited
	Stacks     uint64 // events that are shown without their stack: there was no room for it
	Failures   trace.Failures
}

// Run watches until the duration is over, ctx is done or the last target has ended. It is not
// an error if ctx is done.
func Run(ctx context.Context, o Options) (Counts, error) {
	s, err := open(ctx, o)
	if err != nil {
		return Counts{}, err
	}
	counts, err := s.run(ctx)
	return counts, errors.Join(err, s.Close())
}

// eventBytes is the size of the kernel's buffer: some 120,000 events.
const eventBytes = 32 << 20

// accepting are the calls that accept a connection.
var accepting = []string{"accept", "accept4"}

// A session is one run.
type session struct {
	*trace.Session
	o       Options
	objects bpf.TcpObjects
	needed  map[string]bool // of the objects' programs, by name
	clock   trace.Clock
	stacks  trace.Stacks

	mutex sync.Mutex              // while an event is handled
	ends  map[uint64]event.Socket // of sockets, by number: the kernel forgets a port before the last event
}

func open(ctx context.Context, o Options) (*session, error) {
	if functions := event.KernelFunctions(accepting, nil); len(functions) > 0 && !o.preempted && !loader.Preempts() {
		if s, err := openIn(ctx, functions, o); err == nil {
			return s, nil
		}
	}
	return openIn(ctx, nil, o) // if the cause was another one, this returns it
}

// openIn is open, but sees accepting calls in these functions of the kernel, or at the
// tracepoint if functions is empty.
func openIn(ctx context.Context, functions []string, o Options) (*session, error) {
	spec, err := bpf.LoadTcp()
	if err != nil {
		return nil, err
	}
	s := &session{
		o: o, clock: trace.NewClock(), ends: make(map[uint64]event.Socket),
		needed: map[string]bool{bpf.TcpProgOnExec: true, bpf.TcpProgOnSystemCall: false, bpf.TcpProgOnSystemCallEnd: true},
	}
	switch {
	case len(functions) > 0:
		event.RunInFunctions(spec, functions, s.needed)
	case o.preempted || loader.PreemptsAtTracepoints():
		s.needed[bpf.TcpProgOnSystemCall] = true // it counts the calls whose end is not seen
		if err := loader.Repeat(spec, bpf.TcpProgOnSystemCall, bpf.TcpProgOnSystemCallEnd, bpf.TcpProgOnState); err != nil {
			return nil, err
		}
	}
	event.Prune(spec, s.needed)
	spec.Maps[bpf.TcpMapEvents].MaxEntries = eventBytes
	variables := map[string]any{
		bpf.TcpVarSyscalls: event.Rows(map[string]uint8{accepting[0]: 1, accepting[1]: 1}), bpf.TcpVarWithStacks: trace.Flag(o.Stacks),
	}
	s.Session, err = trace.Open(ctx, trace.Options{Selection: o.Selection, Maps: o.Maps, Duration: o.Duration, Warn: o.Warn}, trace.Tool{
		Spec: spec, Objects: &s.objects, Variables: variables, Poll: trace.UsualPoll,
		Stack:  s.stacks.Take,
		Events: map[bpf.TraceEventKind]func([]byte){bpf.TraceEventKindEVENT_TOOL: s.take},
	})
	if err != nil {
		return nil, err
	}
	s.stacks.Table, s.stacks.Sent = s.Table, s.objects.Sent
	if err := s.Listen(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// attach attaches the programs, those that end what others begin first.
func (s *session) attach() error {
	err := errors.Join(
		s.AttachCopies(bpf.TcpProgOnState, s.objects.OnState),
		s.Attach(loader.Trace(s.objects.OnStateMeanwhile)),
		s.Attach(loader.Trace(s.objects.OnRetransmit)),
	)
	if err != nil {
		return err
	}
	if s.needed[bpf.TcpProgOnSystemCallEnd] {
		err := s.AttachCopies(bpf.TcpProgOnSystemCallEnd, s.objects.OnSystemCallEnd)
		if err != nil || !s.needed[bpf.TcpProgOnSystemCall] {
			return err
		}
		return s.AttachCopies(bpf.TcpProgOnSystemCall, s.objects.OnSystemCall)
	}
	for _, p := range s.Others {
		if err := s.Attach(loader.Trace(p)); err != nil {
			return err
		}
	}
	return nil
}

func (s *session) run(ctx context.Context) (Counts, error) {
	started := false
	err := s.Run(ctx, trace.Loop{
		Attach: s.attach,
		Started: func() {
			started = true
			if s.o.Started != nil {
				s.o.Started()
			}
			if err := s.readFiles(); err != nil {
				s.Warn(err)
			}
		},
		Stop: s.o.Stop, Tick: s.tick,
		Interval: cmp.Or(s.o.Interval, time.Second), Report: s.readFiles,
	})
	if !started {
		return Counts{}, err
	}
	if err := errors.Join(err, s.Flush(), s.Missing()); err != nil {
		return Counts{}, err
	}
	s.Diagnose()
	o := &s.objects
	counts := Counts{
		Sockets: s.Count(o.Seen), Unfollowed: s.Count(o.Unfollowed), Lost: s.Count(o.Lost),
		Unreported: s.Count(o.Unreported), Unended: s.Count(o.Unended), Untimed: s.Count(o.Untimed), Stacks: s.stacks.Missing(),
	}
	s.warnOf(counts)
	counts.Failures, err = s.Failures(o.Failures)
	return counts, err
}

// warnOf warns of what was not seen, or not wholly.
func (s *session) warnOf(c Counts) {
	for _, missing := range []struct {
		count  uint64
		format string
	}{
		{c.Unfollowed, "%d sockets were not followed: too many were open at once"},
		{c.Lost, "%d events were lost: they came faster than they could be handled"},
		{c.Unreported, "%d changes of state came after others that the kernel did not report"},
		{c.Unended, "%d calls of accept were not seen: threads were preempted in all the programs that see them"},
		{c.Untimed, "%d connections were accepted of which it is not known how long they waited"},
		{c.Stacks, "%d events are shown without their stack: there was no room for it"},
	} {
		if missing.count > 0 {
			s.Warn(fmt.Errorf(missing.format, missing.count))
		}
	}
}

// readFiles has the kernel look at the open files of the processes.
func (s *session) readFiles() error { return loader.Iterate(s.objects.OnFile) }

func (s *session) tick() time.Duration {
	if s.o.Tick == nil {
		return 0
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.o.Tick()
	return 0
}

// take takes an event from the kernel.
func (s *session) take(raw []byte) {
	r := trace.Decode[bpf.TcpConnection](raw)
	e := Event{
		Kind: Kind(r.What), Time: s.clock.Time(r.Time), PID: int(r.Ids >> 32), TID: int(uint32(r.Ids)), Socket: r.Number,
		Old: State(r.Old), State: State(r.State), SendQueue: r.SendQueue, ReceiveQueue: r.ReceiveQueue,
		Retransmitted: r.Retransmitted, Errno: unix.Errno(r.Error), Closer: Closer(r.Closer), Waited: time.Duration(r.Waited),
	}
	e.Inside = s.Table.Inside(e.PID)
	if r.Hash != 0 {
		e.Frames = s.stacks.Frames(r.Hash)
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.setEnds(&e, event.SocketOf(bpf.TraceEnds(r.Ends)))
	s.o.Event(e)
}

// maxEnds bounds the sockets whose ends are kept: as many as the kernel half tracks.
const maxEnds = 1 << 16

// setEnds sets the ends of an event's socket: those that the kernel has now, or else had.
func (s *session) setEnds(e *Event, now *event.Socket) {
	ends := s.ends[e.Socket]
	if now != nil {
		ends.Local, ends.Peer = cmp.Or(now.Local, ends.Local), cmp.Or(now.Peer, ends.Peer)
	}
	e.Local, e.Peer = ends.Local, ends.Peer
	if e.State == Close {
		delete(s.ends, e.Socket)
		return
	}
	if len(s.ends) >= maxEnds {
		clear(s.ends) // of sockets whose last event was lost
	}
	s.ends[e.Socket] = ends
}
