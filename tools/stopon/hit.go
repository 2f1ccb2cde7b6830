package stopon

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
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
	Arguments []Argument
	Result    int64         // of a system call or function; an exit's status
	Errno     unix.Errno    // of a system call that failed
	Duration  time.Duration // of the call or the stall; 0 if it was not measured
	Path      string        // passed to the system call
	Written   string        // the text around what was searched for
	Address   string        // passed to or returned by the system call, as in Socket
	Socket    *Socket       // that the system call worked on, or accepted; nil if none

	Class     string // of an exception: the name of its constructor, or the type if it is a primitive value
	Message   string // of an exception
	Rejection bool   // the uncaught exception is a promise's rejection
	Thrower   bool   // Frames are those of the function that threw the uncaught exception

	Raised unix.Signal // that the kernel sent the thread; 0: none
	Core   *core.Result
	Stays  bool    // the process was left stopped
	Errors []error // of actions
}

// An Argument of a system call or function.
type Argument struct {
	Name  string
	Value uint64
	Text  string // for people
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
		h.Event = fmt.Sprintf("%s(%s)", h.Function, list(h.Arguments))
	case bpf.TraceTriggerTRIGGER_RETURN:
		h.Trigger, h.Function = "return", s.o.Functions[r.What].String()
		arguments := "…"
		if s.o.needsCalls() {
			h.registers(r)
			arguments = list(h.Arguments)
		}
		h.Event = fmt.Sprintf("%s(%s) = %s%s", h.Function, arguments, integer(uint64(r.Result)), h.took())
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
		a := Argument{Name: fmt.Sprintf("arg%d", i), Value: r.Arguments[i], Text: integer(r.Arguments[i])}
		if text != "" && event.MayBeText(place) {
			a.Text, text = fmt.Sprintf("%q", text), ""
		}
		h.Arguments = append(h.Arguments, a)
	}
	h.Event = fmt.Sprintf("%s(%s)", h.Function, list(h.Arguments))
}

// explainCall describes the system call, its arguments and its result.
func (h *Hit) explainCall(r *bpf.StoponHit) {
	text := string(r.Match.Text[:min(int(r.Match.Length), len(r.Match.Text))])
	call := event.SyscallOf(r.What)
	if call == nil {
		call = &event.Syscall{Name: fmt.Sprintf("syscall_%d", r.What)}
	}
	h.Syscall = call.Name
	if call.First(event.KindPath) >= 0 {
		h.Path = text
	} else if text != "" {
		h.Written = text
	}
	h.Address = sockaddr(r.Address[:min(int(r.AddressLength), len(r.Address))])
	h.Socket = socketOf(&r.Ends)
	h.Arguments = arguments(call, h, r)
	result := fmt.Sprint(r.Result)
	const lastErrno = 4095 // include/linux/err.h: MAX_ERRNO
	if r.Result < 0 && r.Result >= -lastErrno {
		h.Errno = unix.Errno(-r.Result)
		result = fmt.Sprintf("-1 %s (%v)", errnoName(h.Errno), h.Errno)
	}
	if a, _ := call.Address(); a.Accepts() && r.Result >= 0 {
		result += h.Socket.shown()
	}
	h.Event = fmt.Sprintf("%s(%s) = %s%s", call.Name, list(shown(call, h)), result, h.took())
}

// arguments returns all of a call's arguments.
func arguments(s *event.Syscall, h *Hit, r *bpf.StoponHit) (all []Argument) {
	path, address := s.First(event.KindPath), -1
	a, addressed := s.Address()
	if addressed {
		address = a.Argument
	}
	for i, p := range s.Parameters[:min(len(s.Parameters), len(r.Arguments))] {
		a := Argument{Name: p.Name, Value: r.Arguments[i], Text: argumentText(p, r.Arguments[i])}
		switch {
		case i == path:
			a.Text = fmt.Sprintf("%q", h.Path)
		case i == address && h.Address != "":
			a.Text = quotedName(h.Address)
		case p.Kind == event.KindDescriptor && addressed: // the address includes it
		case p.Kind == event.KindDescriptor && h.Socket != nil && i == s.First(event.KindDescriptor):
			a.Text += h.Socket.shown()
		case p.Kind == event.KindDescriptor:
			a.Text += h.opened(int32(a.Value))
		}
		all = append(all, a)
	}
	return all
}

// shown returns the arguments for an event's line. Of an address that was
// decoded, it omits the pointer and the length.
func shown(s *event.Syscall, h *Hit) []Argument {
	a, ok := s.Address()
	if !ok || h.Address == "" || a.Argument+1 >= len(h.Arguments) {
		return h.Arguments
	}
	at := a.Argument
	shown := slices.Clone(h.Arguments)
	shown[at].Name = ""
	return slices.Delete(shown, at+1, at+2)
}

func errnoName(e unix.Errno) string {
	if name := unix.ErrnoName(e); name != "" {
		return name
	}
	return fmt.Sprintf("E%d", int(e)) // the kernel's own, such as ERESTARTSYS
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
		h.Arguments = append(h.Arguments, Argument{Name: fmt.Sprintf("arg%d", i), Value: v, Text: integer(v)})
	}
}

// argumentText formats a system call's argument for people.
func argumentText(p event.Parameter, v uint64) string {
	switch p.Kind {
	case event.KindDescriptor, event.KindSigned:
		if int32(v) == unix.AT_FDCWD && p.Kind == event.KindDescriptor {
			return "AT_FDCWD"
		}
		return fmt.Sprint(int32(v))
	case event.KindUnsigned:
		return fmt.Sprint(v)
	}
	return integer(v)
}

// integer formats a number in the base that suits its size.
func integer(v uint64) string {
	if s := int64(v); s >= -1<<15 && s < 1<<15 {
		return fmt.Sprint(s)
	}
	if v>>32 == 0 && int32(v) < 0 && int32(v) >= -1<<15 {
		return fmt.Sprint(int32(v))
	}
	return fmt.Sprintf("%#x", v)
}

func list(arguments []Argument) string {
	var b bytes.Buffer
	for i, a := range arguments {
		if i > 0 {
			b.WriteString(", ")
		}
		if a.Name != "" {
			b.WriteString(a.Name + "=")
		}
		b.WriteString(a.Text)
	}
	return b.String()
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
