// Package logsnoop shows what running processes log: what any of their threads writes to logs, line
// by line, and what their static probes say, such as bunyan's records below the level of its
// loggers. The kernel copies each text as it is written; nothing runs in the processes.
package logsnoop

import (
	"context"
	"errors"
	"fmt"
	"path"
	"runtime/debug"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"ustack/bpf"
	"ustack/loader"
	"ustack/symbolize"
	"ustack/symbolize/elfsym"
	"ustack/tools/event"
	"ustack/tools/sourcemaps"
	"ustack/tools/trace"
)

// Options say which processes to watch, and what of them. Probes or Writes are needed.
type Options struct {
	trace.Selection
	Maps sourcemaps.Options

	Probes []event.USDT // static probes, also those that a process makes later
	// Wanted says which of these probes are watched; all if nil. One that is not costs nothing.
	Wanted func(provider, name string) bool

	Writes bool   // what is written to standard output, standard error and files that are only appended to
	FDs    []int  // or instead, to these descriptors, MaxFDs at most
	Path   string // or instead, to files whose path or base name matches this pattern of path.Match

	Stacks   bool          // with the stack of each
	Duration time.Duration // if zero, until the context or the targets end

	Started func()             // called once everything is attached; may be nil
	Report  func(*Event) error // called with each event, in the kernel's order; an error ends the run
	Warn    func(error)        // called with whatever keeps something from being seen; may be nil

	preempted bool // as if threads could be preempted in the programs, for tests
}

// MaxFDs is how many descriptors Options may name.
const MaxFDs = 16

// An Event is a line that was written, or a static probe that was reached.
type Event struct {
	Time     time.Time
	PID, TID int
	Text     string // the line without its end; the first text among the arguments
	Cut      bool   // more of the text is missing: it is too long, or could not be read
	Frames   []symbolize.Frame

	Probe     *event.Description // nil if it was written
	Arguments []Argument

	FD   int    // that it was written to
	File string // what that is: "stdout", "stderr", a path, or "pipe:[123]"
}

// An Argument of a static probe.
type Argument struct {
	Value  uint64
	Text   string // at the address that Value is, if IsText
	IsText bool   // there may be a text: the value is as long as an address and has no sign
	Signed bool
}

// A Result says how a run ended.
type Result struct {
	Events  uint64 // that were reported
	Lost    uint64 // that the kernel had no room for
	Unread  uint64 // writes of which text could not be read
	Cut     uint64 // events with too much text
	Closed  uint64 // writes to files that were closed before they could be examined
	Unended uint64 // writes whose end was not seen: threads were preempted in all the programs that see them
	Broken  uint64 // lines of which a part is missing: they were not reported
	Unnamed uint64 // writes to files whose name could not be read, if files are chosen by name
	// Arguments of static probes that are not known, since there are too many kinds of them.
	Unnumbered uint64
	Failures   trace.Failures // what could not be read of stacks
}

// Check returns an error if the options make no sense.
func (o *Options) Check() error {
	switch {
	case len(o.Probes) == 0 && !o.Writes:
		return errors.New("nothing to watch (name a static probe, or watch what is written)")
	case len(o.FDs) > MaxFDs:
		return fmt.Errorf("%d file descriptors are more than %d", len(o.FDs), MaxFDs)
	case len(o.FDs) > 0 && o.Path != "":
		return errors.New("give only one of file descriptors and a path")
	}
	if _, err := path.Match(o.Path, ""); err != nil {
		return fmt.Errorf("path %q: %w", o.Path, err)
	}
	return nil
}

// Run watches until the duration is over, ctx is done or the last target has ended. It is no error
// if ctx ends.
func Run(ctx context.Context, o Options) (*Result, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	defer debug.SetGCPercent(debug.SetGCPercent(gcPercent))
	s, err := open(ctx, o)
	if err != nil {
		return nil, err
	}
	result, err := s.run(ctx)
	return result, errors.Join(err, s.Close())
}

// gcPercent is how much the heap may grow between collections: little is kept, and much comes and
// goes.
const gcPercent = 400

// eventBytes is the size of the kernel's buffer: at 100,000 records of 300 bytes each second, the
// records of a second.
const eventBytes = 32 << 20

// A session is one run.
type session struct {
	*trace.Session
	o       Options
	objects bpf.LogsnoopObjects
	needed  map[string]bool // of the objects' programs, by name
	probes  event.Probes
	usdts   event.Descriptions
	stop    chan struct{} // closed when Report fails
	failed  error         // why

	lines  *lines
	stacks map[uint64]pendingStack // by thread, until their event comes
	parts  map[uint64]*parts       // by thread
	chunk  bpf.LogsnoopChunk       // used again for each record
	result Result
	offset time.Duration // from CLOCK_MONOTONIC to the time of day
}

func open(ctx context.Context, o Options) (*session, error) {
	if functions := event.KernelFunctions(writing(o), nil); len(functions) > 0 && !o.preempted && !loader.Preempts() {
		if s, err := openIn(ctx, functions, o); err == nil {
			return s, nil
		}
	}
	return openIn(ctx, nil, o) // if the cause was another one, this returns it
}

// writing returns the system calls to see.
func writing(o Options) []string {
	if !o.Writes {
		return nil
	}
	return []string{"write", "writev", "pwrite64", "pwritev", "pwritev2"}
}

// openIn is open, but sees system calls in these functions of the kernel, or at the tracepoints if
// functions is empty.
func openIn(ctx context.Context, functions []string, o Options) (*session, error) {
	spec, err := bpf.LoadLogsnoop()
	if err != nil {
		return nil, err
	}
	s := &session{
		o: o, stop: make(chan struct{}),
		stacks: make(map[uint64]pendingStack), parts: make(map[uint64]*parts),
		needed: map[string]bool{
			bpf.LogsnoopProgOnExec: true, bpf.LogsnoopProgOnSystemCall: false, bpf.LogsnoopProgOnSystemCallEnd: o.Writes,
			bpf.LogsnoopProgOnUsdt: len(o.Probes) > 0,
		},
	}
	s.lines = newLines(s.reportLine)
	switch {
	case len(functions) > 0:
		event.RunInFunctions(spec, functions, s.needed)
	case o.Writes && (o.preempted || loader.PreemptsAtTracepoints()):
		s.needed[bpf.LogsnoopProgOnSystemCall] = true
		if err := loader.Repeat(spec, bpf.LogsnoopProgOnSystemCall, bpf.LogsnoopProgOnSystemCallEnd); err != nil {
			return nil, err
		}
	}
	event.Prune(spec, s.needed)
	spec.Maps[bpf.LogsnoopMapEvents].MaxEntries = eventBytes
	s.Session, err = trace.Open(ctx, trace.Options{Selection: o.Selection, Maps: o.Maps, Duration: o.Duration, Warn: o.Warn}, trace.Tool{
		Spec: spec, Objects: &s.objects, Variables: o.variables(), Stack: s.takeStack, Poll: trace.UsualPoll,
		Events: map[bpf.TraceEventKind]func([]byte){bpf.TraceEventKindEVENT_TOOL: s.takeChunk},
		Added:  s.attach, Ended: func(pid int) { s.probes.Detach(pid) },
	})
	if err != nil {
		return nil, err
	}
	s.probes.Table, s.probes.Warn, s.probes.Starting = s.Table, s.Warn, len(o.Command) > 0
	if err := s.listen(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// variables returns the constants of the programs.
func (o *Options) variables() map[string]any {
	wanted := make(map[string]uint8)
	for _, name := range writing(*o) {
		wanted[name] = 1
	}
	var fds [MaxFDs]int32
	for i, fd := range o.FDs {
		fds[i] = int32(fd)
	}
	flag := func(is bool) uint32 {
		if is {
			return 1
		}
		return 0
	}
	return map[string]any{
		bpf.LogsnoopVarSyscalls: event.Rows(wanted), bpf.LogsnoopVarFds: fds, bpf.LogsnoopVarFdCount: uint32(len(o.FDs)),
		bpf.LogsnoopVarByName: flag(o.Path != ""), bpf.LogsnoopVarWithStacks: flag(o.Stacks),
	}
}

// listen attaches what sees the writes of all processes, and listens to the kernel.
func (s *session) listen() error {
	s.Defer(s.probes.Close)
	if err := s.Listen(); err != nil {
		return err
	}
	if s.needed[bpf.LogsnoopProgOnSystemCallEnd] {
		err := s.AttachCopies(bpf.LogsnoopProgOnSystemCallEnd, s.objects.OnSystemCallEnd)
		if err != nil || !s.needed[bpf.LogsnoopProgOnSystemCall] {
			return err
		}
		return s.AttachCopies(bpf.LogsnoopProgOnSystemCall, s.objects.OnSystemCall)
	}
	for _, p := range s.Others {
		if err := s.Attach(loader.Trace(p)); err != nil {
			return err
		}
	}
	return nil
}

// attach attaches to the probes of process pid.
func (s *session) attach(pid int) error {
	s.probes.Detach(pid) // in case it runs a new program
	var places []event.Place
	for _, u := range s.o.Probes {
		places = append(places, event.Place{
			Name: u.String(), Find: s.find(u), Programs: []event.Program{{Program: s.objects.OnUsdt}}, Repeats: true,
		})
	}
	return s.probes.Attach(pid, places)
}

// find returns a function for Place.Find that leaves out probes that are not wanted.
func (s *session) find(u event.USDT) func(*trace.Table, int) ([]event.Site, error) {
	return func(t *trace.Table, pid int) ([]event.Site, error) {
		wanted := func(p elfsym.USDT) bool { return s.o.Wanted == nil || s.o.Wanted(p.Provider, p.Name) }
		return u.FindWanted(wanted, func(p elfsym.USDT) uint64 { return s.usdts.Cookie(s.objects.Usdts, p, 0) })(t, pid)
	}
}

func (s *session) run(ctx context.Context) (*Result, error) {
	started := false
	err := s.Run(ctx, trace.Loop{
		Started: func() {
			started = true
			if s.o.Started != nil {
				s.o.Started()
			}
		},
		Tick: func() time.Duration { s.probes.Late(); return 0 },
		Stop: s.stop,
	})
	if !started {
		return nil, err
	}
	err = errors.Join(err, s.probes.Close(), s.Flush())
	s.lines.flush()
	s.Diagnose()
	for _, c := range []struct {
		counter *ebpf.Variable
		sum     *uint64
	}{
		{s.objects.Lost, &s.result.Lost},
		{s.objects.Unread, &s.result.Unread},
		{s.objects.Cut, &s.result.Cut},
		{s.objects.Closed, &s.result.Closed},
		{s.objects.Unended, &s.result.Unended},
		{s.objects.Unnumbered, &s.result.Unnumbered},
	} {
		*c.sum += s.Count(c.counter)
	}
	s.result.Broken = s.lines.broken
	var failures error
	s.result.Failures, failures = s.Failures(s.objects.Failures)
	return &s.result, errors.Join(err, failures, s.failed, s.Missing())
}

// report passes an event on, unless an earlier one could not be.
func (s *session) report(e *Event) {
	if s.failed != nil {
		return
	}
	s.result.Events++
	if err := s.o.Report(e); err != nil {
		s.failed = err
		close(s.stop)
	}
}

// wall returns the time of day for a CLOCK_MONOTONIC time in ns.
func (s *session) wall(monotonic uint64) time.Time {
	if s.offset == 0 {
		var now unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
			return time.Now()
		}
		s.offset = time.Duration(time.Now().UnixNano() - now.Nano())
	}
	return time.Unix(0, int64(monotonic)+int64(s.offset))
}
