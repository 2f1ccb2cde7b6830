package jsprof

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"ustack/bpf"
	"ustack/loader"
	"ustack/symbolize"
	"ustack/tools/event"
	"ustack/tools/profile"
)

// Waiting says that stacks are taken of threads that are off the CPU, and with what.
type Waiting struct {
	Running bool          // also of threads that run, at the rate of Options.Hz: all of a thread's time
	Idle    bool          // also of threads that have nothing to do, such as an event loop that polls
	Least   time.Duration // shorter waits are ignored; 0: none is
	Quantum time.Duration // shorter waits are sampled, in proportion to their length; 500 µs if zero
}

// defaultQuantum keeps the number of stacks that are taken of short waits at 2000 for each second that
// a thread waits.
const defaultQuantum = 500 * time.Microsecond

// Types of the values of stacks of waiting threads.
var (
	offCPU = profile.ValueType{Type: "off-cpu", Unit: profile.Time.Unit}
	wall   = profile.ValueType{Type: "wall", Unit: profile.Time.Unit}
)

func (w *Waiting) valueType() profile.ValueType {
	if w.Running {
		return wall
	}
	return offCPU
}

// waits are the source of a run that takes stacks of waiting threads.
type waits struct {
	o       *Options
	objects bpf.OffcpuObjects

	begun   uint64        // ns, CLOCK_MONOTONIC: when everything was attached
	unknown int           // threads whose last wait has no stack, since it followed short ones
	waited  time.Duration // in those waits
}

func newWaitSource(o *Options) (*source, error) {
	spec, err := bpf.LoadOffcpu()
	if err != nil {
		return nil, err
	}
	spec.Maps[bpf.OffcpuMapHits].MaxEntries = 1 // no condition is checked
	event.Prune(spec, map[string]bool{bpf.OffcpuProgOnSample: o.Waiting.Running})
	// The scheduler runs the others with preemption off. A wait that no copy charges is charged when the
	// next call ends, or counted as displaced.
	if o.preempted || loader.PreemptsAtTracepoints() {
		if err := loader.Repeat(spec, bpf.OffcpuProgOnSystemCallEnd); err != nil {
			return nil, err
		}
	}
	quantum := o.Waiting.Quantum
	if quantum == 0 {
		quantum = defaultQuantum
	}
	w := &waits{o: o}
	return &source{
		spec: spec, objects: &w.objects,
		variables: map[string]any{
			bpf.OffcpuVarQuantum: uint64(quantum), bpf.OffcpuVarLeast: uint64(o.Waiting.Least),
			bpf.OffcpuVarWithRunning: number(o.Waiting.Running),
			bpf.OffcpuVarWithKernel:  number(o.Kernel), bpf.OffcpuVarSyscalls: event.Rows(nil),
		},
		values: []value{{ValueType: o.Waiting.valueType(), event: o.Waiting.valueType().Type}},
		keeps:  true,
		attach: w.attach, rest: w.rest, finish: w.finish, warn: w.warn,
		place: func(key bpf.TraceStackKey) (int, []symbolize.Frame) { return 0, waitingIn(key) },
	}, nil
}

func (w *waits) attach(s *session) (err error) {
	if w.o.Waiting.Running {
		if s.hz, err = s.Sample(w.objects.OnSample, loader.CPUClock, loader.Sampling{Hz: w.o.Hz}); err != nil {
			return err
		}
	}
	// The end of a system call is seen before a wait within it is.
	for _, program := range []func() error{
		func() error { return s.AttachCopies(bpf.OffcpuProgOnSystemCallEnd, w.objects.OnSystemCallEnd) },
		func() error { return s.Attach(loader.Trace(w.objects.OnWake)) },
		func() error { return s.Attach(loader.Trace(w.objects.OnSwitch)) },
	} {
		if err := program(); err != nil {
			return err
		}
	}
	if w.begun, err = monotonic(); err != nil {
		return err
	}
	if err := w.objects.Begun.Set(w.begun); err != nil {
		return fmt.Errorf("set when everything was attached: %w", err)
	}
	return nil
}

// monotonic returns the kernel's time, in ns, that the programs note.
func monotonic() (uint64, error) {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return 0, fmt.Errorf("read the clock: %w", err)
	}
	return uint64(now.Nano()), nil
}

// rest returns the waits that had not ended when nothing was seen any more: how long they had lasted.
func (w *waits) rest(end uint64) (map[bpf.TraceStackKey]bpf.TraceTotal, error) {
	all := make(map[bpf.TraceStackKey]bpf.TraceTotal)
	var pid uint32
	var a bpf.OffcpuAbsence
	absences := w.objects.Absences.Iterate()
	for absences.Next(&pid, &a) {
		from := max(a.Left, w.begun)
		if a.Left == 0 || from > end || time.Duration(end-from) < w.o.Waiting.Least {
			continue
		}
		if a.Hash == 0 && a.Late == 0 {
			continue // counted as lost when it left
		}
		if a.Hash == 0 && !w.o.Waiting.Idle { // whether it is idle is not known
			if !isPoll(a.Place & noSyscall) {
				w.unknown++
				w.waited += time.Duration(end - from)
			}
			continue
		}
		key := bpf.TraceStackKey{Ids: a.Ids, Hash: a.Hash, Event: uint16(bpf.OffcpuTimeKindTIME_BLOCKED), Bucket: a.Place}
		if a.Runs != 0 {
			key.Event = uint16(bpf.OffcpuTimeKindTIME_RUNNABLE)
		}
		all[key] = sum(all[key], bpf.TraceTotal{Events: 1, Value: end - from})
	}
	if err := absences.Err(); err != nil {
		return nil, fmt.Errorf("read the waits that have not ended: %w", err)
	}
	return all, nil
}

// finish removes what is idle.
func (w *waits) finish(_ *session, _ int, p *profile.Profile) {
	if !w.o.Waiting.Idle {
		*p = *p.WithoutIdle()
	}
}

// warn warns of what could not be charged.
func (w *waits) warn(s *session) {
	if n := s.Count(w.objects.Displaced); n > 0 {
		s.Warn(fmt.Errorf("%d waits began after their system call had returned its result: they are not in the profile", n))
	}
	if n := s.Count(w.objects.Unreported); n > 0 {
		s.Warn(fmt.Errorf("%d waits are not in the profile: the kernel did not report the context switches that ended them", n))
	}
	if w.unknown > 0 {
		s.Warn(fmt.Errorf("%d threads still waited at the end, after short waits: their last waits, %v in all, are not in the profile", w.unknown, w.waited))
	}
	if ns := s.Count(w.objects.Unforeseen); ns > 0 {
		s.Warn(fmt.Errorf("%v of waits for a CPU came unforeseen, after many shorter ones of the same threads: they are in the profile without a stack", time.Duration(ns)))
	}
}

// Where the parts of a wait's place begin (bpf/offcpu.bpf.c).
const (
	waitKindShift = 16
	noSyscall     = 0xffff
)

// waitingIn returns a frame that says what a thread does: it runs, could run, or waits.
func waitingIn(key bpf.TraceStackKey) []symbolize.Frame {
	name := ""
	switch bpf.OffcpuTimeKind(key.Event) {
	case bpf.OffcpuTimeKindTIME_RUNNING:
		return nil
	case bpf.OffcpuTimeKindTIME_RUNNABLE:
		name = "[runnable]"
	default:
		name = "[" + waitsFor(key.Bucket&noSyscall, bpf.OffcpuWaitKind(key.Bucket>>waitKindShift)) + "]"
	}
	return []symbolize.Frame{{Name: name, Kind: symbolize.Runtime}}
}

// files are the words for the files that system calls wait for.
var files = map[bpf.OffcpuWaitKind]string{
	bpf.OffcpuWaitKindWAIT_FILE: "file", bpf.OffcpuWaitKindWAIT_DIRECTORY: "directory", bpf.OffcpuWaitKindWAIT_PIPE: "pipe",
	bpf.OffcpuWaitKindWAIT_SOCKET: "socket", bpf.OffcpuWaitKindWAIT_DEVICE: "device",
}

// sleeps are the words for what system calls without a file wait for.
var sleeps = map[string]string{
	"futex": "lock", "clock_nanosleep": "sleep", "nanosleep": "sleep", "epoll_wait": "events", "epoll_pwait": "events",
	"epoll_pwait2": "events", "poll": "events", "ppoll": "events", "wait4": "child", "waitid": "child",
}

// isPoll reports whether a system call waits for any of several events.
func isPoll(call uint32) bool {
	s := event.SyscallOf(call)
	return s != nil && sleeps[s.Name] == "events"
}

func waitsFor(call uint32, kind bpf.OffcpuWaitKind) string {
	switch kind {
	case bpf.OffcpuWaitKindWAIT_FAULT:
		return "page fault"
	case bpf.OffcpuWaitKindWAIT_STOPPED:
		return "stopped"
	}
	if call == noSyscall {
		return "blocked"
	}
	name := event.SyscallOf(call).Name
	if sleep := sleeps[name]; sleep != "" {
		return name + ": " + sleep
	}
	if file := files[kind]; file != "" {
		return name + ": " + file
	}
	return name
}
