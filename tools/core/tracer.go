package core

import (
	"errors"
	"os"
	"os/signal"
	"runtime"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// maxRegisters bounds a set of registers: the largest one known, with AMX, has
// some 11 KB.
const maxRegisters = 1 << 16

// signalInfo is the size of a siginfo_t.
const signalInfo = 128

var errTimeout = errors.New("it does not stop")

// A tracer runs functions on one OS thread, since the kernel accepts ptrace
// calls only from the thread that attached. If this process dies, the kernel
// detaches whatever is still attached.
//
// The thread does not end with the tracer: processes that it started for others
// may be tied to its lifetime (PR_SET_PDEATHSIG). So everything must be
// detached by then.
type tracer struct {
	calls   chan func()
	closed  chan struct{}
	changed chan os.Signal // a tracee may have stopped or ended
}

func startTracer() *tracer {
	t := &tracer{calls: make(chan func()), closed: make(chan struct{}), changed: make(chan os.Signal, 1)}
	signal.Notify(t.changed, unix.SIGCHLD)
	go t.run()
	return t
}

// close ends the tracer.
func (t *tracer) close() {
	signal.Stop(t.changed)
	close(t.closed)
}

// do runs f on the tracer's thread. It is an error if that has ended.
func (t *tracer) do(f func() error) error {
	result := make(chan error, 1)
	select {
	case t.calls <- func() { result <- f() }:
		return <-result
	case <-t.closed:
		return errors.New("the process is no longer stopped")
	}
}

func (t *tracer) run() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for {
		select {
		case call := <-t.calls:
			call()
		case <-t.closed:
			return
		}
	}
}

// doSoon is do, ahead of other programs: on a busy machine, a process would otherwise be
// stopped for longer. f only waits, or takes little time.
func (t *tracer) doSoon(f func() error) error {
	return t.do(func() error {
		h := startHurry()
		defer h.end()
		return f()
	})
}

// A stop says why a tracee is stopped.
type stop struct {
	event  int         // such as PTRACE_EVENT_STOP; 0 if stopped by a signal
	signal unix.Signal // about to be delivered to the thread, or, with PTRACE_EVENT_STOP, the one that stopped the process
}

// groupStop returns the signal that has stopped the whole process, or 0.
func (s stop) groupStop() unix.Signal {
	if s.event == unix.PTRACE_EVENT_STOP && s.signal != unix.SIGTRAP {
		return s.signal
	}
	return 0
}

// await returns tid's next stop. The error is ECHILD if the thread has ended,
// errTimeout if it has not stopped by deadline; the zero time means no
// deadline.
func (t *tracer) await(tid int, deadline time.Time) (stop, error) {
	var late <-chan time.Time
	if !deadline.IsZero() {
		late = time.After(time.Until(deadline))
	}
	for {
		s, err := poll(tid)
		if !errors.Is(err, unix.EAGAIN) {
			return s, err
		}
		select {
		case <-t.changed:
		case <-late:
			return stop{}, errTimeout
		}
	}
}

// awaitStop waits until a thread that was told to stop has stopped. A signal
// already on its way to the thread is delivered first.
func (t *tracer) awaitStop(tid int, deadline time.Time) (stop, error) {
	for {
		s, err := t.await(tid, deadline)
		if err != nil || s.event == unix.PTRACE_EVENT_STOP {
			return s, err
		}
		if err := ptrace(unix.PTRACE_CONT, tid, 0, uintptr(s.signal)); err != nil && !errors.Is(err, unix.ESRCH) {
			return stop{}, err
		}
	}
}

// poll returns tid's stop if it is stopped, EAGAIN if it is not, or ECHILD if
// the thread has ended; it does not reap the thread. It does not consume the
// stop's status (WNOWAIT), which contains any signal on its way to the thread:
// the signal would be lost if this process died before it passed the signal on.
func poll(tid int) (stop, error) {
	var info struct { // the part of siginfo_t that waitid sets
		_      [16]byte
		pid    int32
		_      uint32
		status int32
		_      [signalInfo - 28]byte
	}
	for {
		err := unix.Waitid(unix.P_PID, tid, (*unix.Siginfo)(unsafe.Pointer(&info)), unix.WSTOPPED|unix.WNOHANG|unix.WALL|unix.WNOWAIT, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return stop{}, err
		case info.pid == 0:
			return stop{}, unix.EAGAIN
		default:
			return stop{event: int(info.status >> 8), signal: unix.Signal(info.status & 0xff)}, nil
		}
	}
}

// ptrace makes a request that needs no memory in this process.
func ptrace(request, tid int, address, data uintptr) error {
	_, _, errno := unix.Syscall6(unix.SYS_PTRACE, uintptr(request), uintptr(tid), address, data, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// ptraceMemory makes a request that reads or writes what data points to.
func ptraceMemory(request, tid int, address uintptr, data unsafe.Pointer) error {
	_, _, errno := unix.Syscall6(unix.SYS_PTRACE, uintptr(request), uintptr(tid), address, uintptr(data), 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// readRegisters returns a copy of a stopped thread's regset, read through buffer.
func readRegisters(tid, regset int, buffer []byte) ([]byte, error) {
	vector := unix.Iovec{Base: &buffer[0]}
	vector.SetLen(len(buffer))
	if err := ptraceMemory(unix.PTRACE_GETREGSET, tid, uintptr(regset), unsafe.Pointer(&vector)); err != nil {
		return nil, err
	}
	return append([]byte(nil), buffer[:vector.Len]...), nil
}

// readSiginfo returns the siginfo_t of a stopped thread's stop.
func readSiginfo(tid int) ([]byte, error) {
	info := make([]byte, signalInfo)
	if err := ptraceMemory(unix.PTRACE_GETSIGINFO, tid, 0, unsafe.Pointer(&info[0])); err != nil {
		return nil, err
	}
	return info, nil
}

// readMask returns the signals that a stopped thread blocks.
func readMask(tid int) (uint64, error) {
	var mask uint64
	err := ptraceMemory(unix.PTRACE_GETSIGMASK, tid, unsafe.Sizeof(mask), unsafe.Pointer(&mask))
	return mask, err
}
