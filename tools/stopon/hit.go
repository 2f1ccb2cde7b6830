package stopon

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"ustack/bpf"
	"ustack/symbolize"
	"ustack/tools/core"
	"ustack/tools/event"
	"ustack/tools/trace"
)

// A Hit is one occurrence at which all of a trigger's conditions held.
type Hit struct {
	Number uint64 // of the match, from 1
	Time   time.Time
	PID    int
	Inside int // its PID in its own PID namespace, as a container's; 0 if it is the same
	TID    int
	Comm   string // the process's name
	Thread string
	// The command line that the process was started with, and its working
	// directory; empty if they could not be read.
	Command   []string
	Directory string
	Trigger   string // "syscall", "function", "return", "usdt", "signal", "exit", "stall", "js", "throw", "uncaught", "stall-end"
	Event     string // what happened, in one line
	Frames    []symbolize.Frame
	Failures  trace.Failures // what could not be read of stacks, in the run so far

	Syscall   string
	Function  string // or static probe
	Signal    unix.Signal
	Arguments []event.Argument
	Result    int64         // of a system call or function; an exit's status
	Errno     unix.Errno    // of a system call that failed
	Duration  time.Duration // of the call or the stall; 0 if it was not measured
	Path      string        // passed to the system call
	Written   string        // the text around what was searched for
	Address   string        // passed to or returned by the system call, as in event.Socket
	Socket    *event.Socket // that the system call worked on, or accepted; nil if none

	Class     string // of an exception: the name of its constructor, or the type if it is a primitive value
	Message   string // of an exception
	Rejection bool   // the uncaught exception is a promise's rejection
	Thrower   bool   // Frames are those of the function that threw the uncaught exception

	Raised unix.Signal // that the kernel sent the thread; 0: none
	Core   *core.Result
	Stays  bool    // the process was left stopped
	Errors []error // of actions
}

// takeHit keeps a record until its stack arrives.
func (s *session) takeHit(raw []byte) {
	r := trace.Decode[bpf.StoponHit](raw)
	if bpf.TraceTrigger(r.Trigger) == bpf.TraceTriggerTRIGGER_STALL_END {
		s.takeStallEnd(r)
		return
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.pending[hitKey{r.Ids, r.Hash}] = r
	if s.supervisor != nil && s.probes.Has(int(r.Ids>>32)) { // once left stopped, it lost its lifeline
		if err := s.lifelines.tie(int(r.Ids >> 32)); err != nil {
			s.warn(err)
		}
	}
}

// stallEnd is the trigger of a Hit that only reports how long the stall of its
// number was.
const stallEnd = "stall-end"

func (s *session) takeStallEnd(r *bpf.StoponHit) {
	h := &Hit{
		Number: r.Number, Time: wall(r.Time), PID: int(r.Ids >> 32), TID: int(uint32(r.Ids)),
		Trigger: stallEnd, Duration: time.Duration(r.Duration),
	}
	h.Event = fmt.Sprintf("event loop polls again: it was stalled for %v", h.Duration.Round(time.Millisecond))
	h.Comm = comm(h.PID)
	s.describe(h)
	s.countFailures(h)
	s.deliver(h)
}

func (s *session) countFailures(h *Hit) {
	var err error
	if h.Failures, err = s.Failures(s.objects.Failures); err != nil {
		s.warn(err)
	}
}

func (s *session) deliver(h *Hit) {
	s.deliverWork(func(ctx context.Context) error { return s.handle(ctx, h) })
}

func (s *session) deliverWork(work func(context.Context) error) {
	select {
	case s.hits <- work:
	case <-s.over:
	}
}

// comm returns a process's name, or "" if it has ended.
func comm(pid int) string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	return strings.TrimSuffix(string(text), "\n")
}

// takeStack makes a Hit of a stack and the record that preceded it.
func (s *session) takeStack(hash uint64, stack trace.Stack) {
	key := hitKey{uint64(stack.PID)<<32 | uint64(stack.TID), hash}
	s.mutex.Lock()
	r := s.pending[key]
	delete(s.pending, key)
	s.mutex.Unlock()
	if r == nil {
		return // cannot happen: the kernel sends no stack without a record
	}
	h := &Hit{
		Number: r.Number, Time: wall(r.Time), PID: stack.PID, TID: stack.TID,
		Comm: stack.Thread, Thread: stack.Thread, Result: r.Result, Duration: time.Duration(r.Duration), Raised: unix.Signal(r.Raised),
	}
	h.Frames, _ = s.Table.Frames(stack)
	for len(h.Frames) > 0 && isOurs(h.Frames[0]) {
		h.Frames = h.Frames[1:]
	}
	h.Comm = cmp.Or(comm(h.PID), h.Comm)
	s.describe(h)
	s.countFailures(h)
	s.explain(h, r)
	s.deliver(h)
}

// isOurs reports whether a frame is the kernel running this tool's own program.
func isOurs(f symbolize.Frame) bool {
	return f.Kind == symbolize.Kernel && (strings.HasPrefix(f.Name, "bpf_") || strings.HasPrefix(f.Name, "__bpf_"))
}

// wall returns the time of day for a CLOCK_MONOTONIC time in ns.
func wall(monotonic uint64) time.Time {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return time.Now()
	}
	return time.Now().Add(time.Duration(int64(monotonic) - now.Nano()))
}

// explain describes in words what has happened.
func (s *session) explain(h *Hit, r *bpf.StoponHit) {
	switch bpf.TraceTrigger(r.Trigger) {
	case bpf.TraceTriggerTRIGGER_SYSCALL:
		h.Trigger = "syscall"
		h.explainCall(r)
	case bpf.TraceTriggerTRIGGER_ENTRY:
		h.Trigger, h.Function = "function", s.o.Functions[r.What].String()
		h.registers(r)
		h.Event = fmt.Sprintf("%s(%s)", h.Function, event.List(h.Arguments))
	case bpf.TraceTriggerTRIGGER_RETURN:
		h.Trigger, h.Function = "return", s.o.Functions[r.What].String()
		arguments := "…"
		if s.o.needsCalls() {
			h.registers(r)
			arguments = event.List(h.Arguments)
		}
		h.Event = fmt.Sprintf("%s(%s) = %s%s", h.Function, arguments, event.Integer(uint64(r.Result)), h.took())
	case bpf.TraceTriggerTRIGGER_USDT:
		h.Trigger, h.Function = "usdt", s.o.USDTs[r.What].String()
		h.explainUSDT(r, s.usdts.Numbered(uint32(r.Result)))
	case bpf.TraceTriggerTRIGGER_SIGNAL:
		h.Trigger, h.Signal = "signal", unix.Signal(r.What)
		h.Event = signalEvent(h.Signal, int32(r.Arguments[0]), r.Arguments[1])
	case bpf.TraceTriggerTRIGGER_EXIT:
		h.Trigger, h.Event = "exit", fmt.Sprintf("exit with status %d", r.Result)
	case bpf.TraceTriggerTRIGGER_STALL:
		h.Trigger = "stall"
		h.Event = fmt.Sprintf("event loop stalled: %v since its last poll", h.Duration.Round(time.Millisecond))
	case bpf.TraceTriggerTRIGGER_JS:
		h.Trigger, h.Event = "js", s.o.JS+" is running"
	case bpf.TraceTriggerTRIGGER_THROW:
		h.Trigger = "throw"
		h.explainException(r)
		h.Event = "throw " + h.exception()
	case bpf.TraceTriggerTRIGGER_UNCAUGHT:
		h.Trigger = "uncaught"
		h.explainException(r)
		h.Event = "uncaught " + h.exception()
		if h.Rejection {
			h.Event = "uncaught rejection of a promise: " + h.exception()
		}
	}
}

// explainUSDT describes a static probe and its arguments. The kernel half has read the text of the
// first that may be one's address.
func (h *Hit) explainUSDT(r *bpf.StoponHit, probe event.Description) {
	h.Function, h.Result = probe.String(), 0
	text := string(r.Match.Text[:min(int(r.Match.Length), len(r.Match.Text))])
	for i, place := range probe.Arguments {
		if place.Size == 0 { // it has no more
			break
		}
		a := event.Argument{Name: fmt.Sprintf("arg%d", i), Value: r.Arguments[i], Text: event.Integer(r.Arguments[i])}
		if text != "" && event.MayBeText(place) {
			a.Text, text = fmt.Sprintf("%q", text), ""
		}
		h.Arguments = append(h.Arguments, a)
	}
	h.Event = fmt.Sprintf("%s(%s)", h.Function, event.List(h.Arguments))
}

// explainCall describes the system call, its arguments and its result.
func (h *Hit) explainCall(r *bpf.StoponHit) {
	text := string(r.Match.Text[:min(int(r.Match.Length), len(r.Match.Text))])
	call := event.Call{
		Syscall: event.SyscallOf(r.What), Values: r.Arguments, Result: r.Result,
		Address: event.Sockaddr(r.Address[:min(int(r.AddressLength), len(r.Address))]), Socket: event.SocketOf(bpf.TraceEnds(r.Ends)),
		Opened: h.opened,
	}
	h.Syscall = call.Syscall.Name
	call.SetPath(bpf.TraceMatch(r.Match))
	if call.Syscall.First(event.KindPath) < 0 {
		h.Written = text
	}
	h.Path, h.Address, h.Socket = call.Path, call.Address, call.Socket
	h.Arguments, h.Errno = call.Arguments(), call.Errno()
	h.Event = fmt.Sprintf("%s = %s%s", call.Called(), call.Returned(), h.took())
}

// opened returns what a file descriptor refers to, if that can still be read.
func (h *Hit) opened(fd int32) string {
	target, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", h.PID, fd))
	if err != nil {
		return ""
	}
	return "<" + target + ">"
}

func (h *Hit) took() string {
	if h.Duration == 0 {
		return ""
	}
	return fmt.Sprintf(" in %v", h.Duration)
}

// registers are a function's arguments, as if it took that many integers.
func (h *Hit) registers(r *bpf.StoponHit) {
	for i, v := range r.Arguments {
		h.Arguments = append(h.Arguments, event.Argument{Name: fmt.Sprintf("arg%d", i), Value: v, Text: event.Integer(v)})
	}
}

// signalEvent says which signal it is and where it comes from (sigaction(2)):
// fields is the first word of siginfo_t after the code.
func signalEvent(s unix.Signal, code int32, fields uint64) string {
	event := fmt.Sprintf("%s (%v)", unix.SignalName(s), s)
	switch s {
	case unix.SIGSEGV, unix.SIGBUS, unix.SIGFPE, unix.SIGILL, unix.SIGTRAP:
		if code > 0 {
			return fmt.Sprintf("%s at address %#x", event, fields)
		}
	}
	if code <= 0 { // by kill, tgkill, sigqueue …
		return fmt.Sprintf("%s from process %d", event, uint32(fields))
	}
	return event
}
