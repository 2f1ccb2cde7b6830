// Package syscalls shows the system calls of running processes, one after the other: what they
// were given, what they returned, how long they took and which JavaScript made them. A call that
// sleeps is shown while it does. The kernel sees the calls; nothing runs in the processes.
package syscalls

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"ustack/bpf"
	"ustack/loader"
	"ustack/symbolize"
	"ustack/tools/event"
	"ustack/tools/sourcemaps"
	"ustack/tools/trace"
)

// Options say which calls of which processes to show. While they are watched, each system call
// of every process takes some 0.3 microseconds longer.
type Options struct {
	trace.Selection
	Maps sourcemaps.Options

	Names    []string      // of the calls; all if empty
	Strings  int           // so many bytes of what a call writes or reads; at most MaxStrings
	Stacks   bool          // with the stack of each
	Slower   time.Duration // only those that took this long or longer; all if zero
	Duration time.Duration // until the context or the targets end if zero

	Started func()     // called once everything is attached; may be nil
	Tick    func()     // called some times a second, when no Call is being handled; may be nil
	Call    func(Call) // called with each call, by one goroutine at a time
	Warn    func(error)
	Stop    <-chan struct{}

	preempted bool // as if threads could be preempted in the programs, for tests
}

// MaxStrings bounds Options.Strings.
const MaxStrings = int(bpf.SyscallsMadeLimitMADE_TEXT_BYTES)

// A State says whether a call has returned.
type State uint8

// States of calls.
const (
	Returned State = iota
	Sleeping       // it has not returned yet, and is shown again when it does
	Last           // it never returns
)

// A Call is a system call.
type Call struct {
	event.Call
	State    State
	Time     time.Time     // when it returned, or when it was seen to sleep
	Duration time.Duration // so far if it sleeps; 0 if it began before the run
	PID, TID int
	Inside   int    // the PID in the process's own namespace; 0: the same
	Thread   string // the thread's name
	Frames   []symbolize.Frame
}

// Counts are what was seen in all, and what was not.
type Counts struct {
	Seen     uint64 // calls that ended, whether they were slow enough or not
	Lost     uint64 // calls for which there was no room
	Unended  uint64 // calls whose end was not seen: threads were preempted in all the programs that see them
	Stacks   uint64 // calls that are shown without their stack: there was no room for it
	Failures trace.Failures
}

// ParseNames reads names of system calls, separated by commas; "*" stands for all of them.
func ParseNames(list string) ([]string, error) { return event.ParseSyscalls(list) }

// Check returns an error if the options make no sense.
func (o *Options) Check() error {
	if o.Strings < 0 || o.Strings > MaxStrings {
		return fmt.Errorf("strings of %d bytes are not between 0 and %d", o.Strings, MaxStrings)
	}
	for _, name := range o.Names {
		if event.SyscallNamed(name) == nil {
			return fmt.Errorf("no system call %q", name)
		}
	}
	return nil
}

// Run shows calls until the duration is over, ctx is done or the last target has ended. It is
// not an error if ctx is done.
func Run(ctx context.Context, o Options) (Counts, error) {
	if err := o.Check(); err != nil {
		return Counts{}, err
	}
	defer debug.SetGCPercent(debug.SetGCPercent(gcPercent))
	s, err := open(ctx, o)
	if err != nil {
		return Counts{}, err
	}
	counts, err := s.run(ctx)
	return counts, errors.Join(err, s.Close())
}

// gcPercent is how much the heap may grow between collections: little is kept, and much comes and
// goes.
const gcPercent = 400

// eventBytes is the size of the kernel's buffer: some 40,000 calls.
const eventBytes = 32 << 20

// A session is one run.
type session struct {
	*trace.Session
	o       Options
	wanted  map[string]uint8
	objects bpf.SyscallsObjects
	record  bpf.SyscallsMade // the latest; what handles records is one goroutine
	clock   trace.Clock

	stacks trace.Stacks

	mutex  sync.Mutex        // while a call is handled
	asleep map[uint64]uint64 // by thread: when the call began that was shown asleep
}

// neverReturn are the calls that are shown when they begin. The last one restores the registers
// of another moment.
var neverReturn = []string{"exit", "exit_group", "rt_sigreturn"}

// names returns the calls to see, with how, as syscalls[].wanted has it.
func (o *Options) names() map[string]uint8 {
	all := o.Names
	if len(all) == 0 {
		all = event.Syscalls()
	}
	wanted := make(map[string]uint8)
	for _, name := range all {
		wanted[name] = uint8(bpf.SyscallsWantedWANTED)
	}
	for _, name := range neverReturn {
		switch {
		case o.Slower > 0:
			delete(wanted, name) // it takes no time
		case wanted[name] > 0:
			wanted[name] = uint8(bpf.SyscallsWantedWANTED_NEVER_RETURNS)
		}
	}
	return wanted
}

func open(ctx context.Context, o Options) (*session, error) {
	spec, err := bpf.LoadSyscalls()
	if err != nil {
		return nil, err
	}
	s := &session{o: o, wanted: o.names(), clock: trace.NewClock(), asleep: make(map[uint64]uint64)}
	spec.Maps[bpf.SyscallsMapEvents].MaxEntries = eventBytes
	if o.preempted || loader.PreemptsAtTracepoints() {
		if err := loader.Repeat(spec, bpf.SyscallsProgOnSystemCall, bpf.SyscallsProgOnSystemCallEnd); err != nil {
			return nil, err
		}
	}
	rows := event.RowsOfData(s.wanted)
	if len(o.Names) == 0 {
		wantUnnamed(rows[:])
	}
	variables := map[string]any{
		bpf.SyscallsVarSyscalls: rows, bpf.SyscallsVarWithPath: uint32(1),
		bpf.SyscallsVarWithStacks: trace.Flag(o.Stacks), bpf.SyscallsVarStringBytes: uint32(o.Strings),
		bpf.SyscallsVarSlower: uint64(o.Slower),
	}
	s.Session, err = trace.Open(ctx, trace.Options{Selection: o.Selection, Maps: o.Maps, Duration: o.Duration, Warn: o.Warn}, trace.Tool{
		Spec: spec, Objects: &s.objects, Variables: variables, Poll: trace.UsualPoll,
		Stack:  s.stacks.Take,
		Events: map[bpf.TraceEventKind]func([]byte){bpf.TraceEventKindEVENT_TOOL: s.made},
		Added:  s.forget,
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

// wantUnnamed has the kernel half see the system calls that have no name here, too.
func wantUnnamed(rows []bpf.TraceSyscall) {
	for number := range rows {
		if event.SyscallName(number) == "" {
			rows[number].Wanted = uint8(bpf.SyscallsWantedWANTED)
		}
	}
}

// attach attaches the programs that see calls.
func (s *session) attach() error {
	return errors.Join(
		s.AttachCopies(bpf.SyscallsProgOnSystemCallEnd, s.objects.OnSystemCallEnd),
		s.AttachCopies(bpf.SyscallsProgOnSystemCall, s.objects.OnSystemCall),
	)
}

func (s *session) run(ctx context.Context) (Counts, error) {
	err := s.Run(ctx, trace.Loop{
		Attach: s.attach,
		Started: func() {
			if s.o.Started != nil {
				s.o.Started()
			}
			s.showBlocked()
		},
		Stop: s.o.Stop,
		Tick: s.tick,
	})
	if err != nil {
		return Counts{}, err
	}
	if err := errors.Join(s.Flush(), s.Missing()); err != nil {
		return Counts{}, err
	}
	s.Diagnose()
	counts := Counts{Seen: s.Count(s.objects.Seen), Lost: s.Count(s.objects.Lost), Unended: s.Count(s.objects.Unended), Stacks: s.stacks.Missing()}
	counts.Failures, err = s.Failures(s.objects.Failures)
	if n := counts.Lost; n > 0 {
		s.Warn(fmt.Errorf("%d calls were lost: they came faster than they could be handled (watch fewer: --syscalls=LIST, --slower)", n))
	}
	if n := counts.Unended; n > 0 {
		s.Warn(fmt.Errorf("%d calls are missing: their ends came on a CPU on which threads were preempted in all the programs that see them", n))
	}
	if n := counts.Stacks; n > 0 {
		s.Warn(fmt.Errorf("%d calls are shown without their stack: there was no room for it", n))
	}
	return counts, err
}

// made takes a call from the kernel.
func (s *session) made(raw []byte) {
	r := &s.record
	trace.DecodeTo(raw, r)
	h := &r.Hit
	c := Call{
		Call: event.Call{
			Syscall: event.SyscallOf(h.What), Values: h.Arguments, Result: h.Result,
			Address: event.Sockaddr(field(h.Address[:], h.AddressLength)), Socket: event.SocketOf(bpf.TraceEnds(h.Ends)),
			Data: string(field(r.Text[:], r.Length)),
		},
		Time: s.clock.Time(h.Time), Duration: time.Duration(h.Duration),
		PID: int(h.Ids >> 32), TID: int(uint32(h.Ids)), Thread: unix.ByteSliceToString(r.Comm[:]),
	}
	c.DataCut = c.Data != "" && int64(len(c.Data)) < h.Result
	c.SetPath(bpf.TraceMatch(h.Match))
	switch {
	case s.wanted[c.Syscall.Name] == uint8(bpf.SyscallsWantedWANTED_NEVER_RETURNS):
		c.State = Last
	case r.Unbegun != 0 && c.isBirth():
		return
	}
	s.show(c, h.Hash)
}

// isBirth reports whether the call is the return of one that has made the thread: its parent's is
// shown.
func (c *Call) isBirth() bool {
	switch c.Syscall.Name {
	case "clone", "clone3", "fork", "vfork":
		return c.Result == 0
	}
	return false
}

// field returns the first n bytes of a field, or all that it has.
func field(f []byte, n uint32) []byte { return f[:min(int(n), len(f))] }

// show reports a call with the stack of that hash; 0: none.
func (s *session) show(c Call, hash uint64) {
	c.Inside = s.Table.Inside(c.PID)
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.o.Stacks && (hash != 0 || c.Duration > 0) {
		c.Frames = s.stacks.Frames(hash)
	}
	s.o.Call(c)
}
