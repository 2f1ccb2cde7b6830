package core

import (
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"ustack/symbolize/process"
)

const (
	stopLimit   = 2 * time.Second        // for all threads of a process to stop; one in an uninterruptible sleep may never
	turn        = 100 * time.Millisecond // for one thread to stop, if others wait for the same tracer
	settle      = time.Second            // for threads that did not stop in time to be detached; they run
	look        = time.Millisecond       // how often to check whether a thread that another tracer of this process has is free
	maxPasses   = 1 << 6                 // over a process's threads; each stops all that the previous one found running
	maxRefusals = 20                     // in a row to be traced, for no known reason
	maxThreads  = 1 << 16                // of a process; the kernel's usual limit for the whole machine is below
)

var errOurs = errors.New("it is stopped already, by another part of this program")

// A Thread is a thread as it was when its process was stopped.
type Thread struct {
	TID     int
	General []byte      // registers, in the layout of the regset NT_PRSTATUS
	Float   []byte      // the regset NT_PRFPREG
	XState  []byte      // the regset NT_X86_XSTATE; empty on other machines
	TLS     []byte      // the regset NT_ARM_TLS; likewise
	PACMask []byte      // the regset NT_ARM_PAC_MASK; likewise, and where addresses are not signed
	Call    []byte      // the regset NT_ARM_SYSTEM_CALL; likewise
	Siginfo []byte      // of the stop itself: 128 bytes, as from PTRACE_GETSIGINFO; may be empty
	Signal  unix.Signal // that had already stopped the whole process, such as SIGSTOP; else 0
	Pending uint64      // signals pending for the thread or its process; signal n is bit n-1
	Held    uint64      // signals that the thread blocks
}

// A tracee is a process all of whose threads are stopped by ptrace, until
// resume. If a signal had already stopped the process, it stays stopped
// afterwards.
//
// Should the tracing process die, the kernel detaches the threads and they
// continue, with no register changed and no signal lost.
type tracee struct {
	pid     int
	tracer  *tracer
	stopped []Thread
	running []int // threads that were told to stop and have not yet stopped
	resumed sync.Once
	err     error // of resuming
}

// stopThreads stops all threads of the process pid and reads their registers.
// The caller calls resume, even if the process has died meanwhile. A signal
// that arrives during the stop stays pending until then.
//
// It waits for its turn if another tracee in this process is the same process,
// or was and could not detach all threads at once.
//
// It fails with process.ErrGone if the process does not exist or has ended, and
// with process.ErrPermission. It also fails if another process already traces
// this one, or if a thread does not stop within limit. Nothing is stopped then.
func stopThreads(pid int, limit time.Duration) (*tracee, error) {
	t := &tracee{pid: pid, tracer: startTracer()}
	if err := t.tracer.doSoon(func() error { return t.stop(time.Now().Add(limit)) }); err != nil {
		return nil, errors.Join(err, t.resume())
	}
	return t, nil
}

// threads returns the threads as they were when they stopped, starting with the
// main thread if it has not ended.
func (t *tracee) threads() []Thread { return t.stopped }

// resume resumes the threads. It may be called again, to no effect. It waits
// only briefly for threads that did not stop in time: they are detached as they
// stop.
func (t *tracee) resume() error {
	t.resumed.Do(func() {
		t.err = t.tracer.doSoon(t.detachStopped)
		done := make(chan struct{})
		go func() {
			defer close(done)
			t.letGo()
		}()
		select {
		case <-done:
		case <-time.After(settle):
		}
	})
	return t.err
}

// detachStopped detaches the stopped threads. A thread that is no longer
// stopped was killed, and all others with it: they run to their end.
func (t *tracee) detachStopped() error {
	var all error
	for _, thread := range t.stopped {
		err := ptrace(unix.PTRACE_DETACH, thread.TID, 0, 0)
		if errors.Is(err, unix.ESRCH) {
			t.running = append(t.running, thread.TID)
		} else if err != nil {
			all = errors.Join(all, fmt.Errorf("resume thread %d of process %d: %w", thread.TID, t.pid, err))
		}
	}
	return all
}

// letGo waits for the threads that did not stop in time, since only a stopped
// thread can be detached, and for those that end. They run meanwhile. No thread
// waits for another that does not stop. The main thread comes last: it ends
// only after all others.
func (t *tracee) letGo() {
	defer t.tracer.close()
	slices.Reverse(t.running)
	for wait := time.Duration(0); len(t.running) > 0; wait = turn {
		t.running = slices.DeleteFunc(t.running, func(tid int) bool {
			err := t.tracer.do(func() error { return t.letGoOf(tid, wait) })
			return !errors.Is(err, errTimeout)
		})
	}
}

// letGoOf detaches a thread if it stops soon, or reaps it if it has ended;
// otherwise it returns errTimeout.
func (t *tracee) letGoOf(tid int, wait time.Duration) error {
	_, err := t.tracer.awaitStop(tid, time.Now().Add(wait))
	switch {
	case errors.Is(err, errTimeout):
		return err
	case err != nil:
		t.reap(tid)
	default:
		ptrace(unix.PTRACE_DETACH, tid, 0, 0)
	}
	return nil
}

// reap waits for an exited thread: the process is not gone until all its
// threads are reaped. The main thread of a child of this process is left to
// whoever waits for the child.
func (t *tracee) reap(tid int) {
	if tid == t.pid && parent(t.pid) == os.Getpid() {
		return
	}
	for errors.Is(unix.Waitid(unix.P_PID, tid, nil, unix.WEXITED|unix.WNOHANG|unix.WALL, nil), unix.EINTR) {
	}
}

// stop stops all threads, including those created meanwhile.
func (t *tracee) stop(deadline time.Time) error {
	known := make(map[int]bool)
	for range maxPasses {
		fresh, err := t.seize(known, deadline)
		if err == nil {
			err = t.awaitStops(deadline)
		}
		if err != nil {
			return err
		}
		if fresh > 0 {
			continue
		}
		if len(t.stopped) == 0 {
			return fmt.Errorf("stop process %d: %w", t.pid, process.ErrGone)
		}
		return t.readThreads()
	}
	return fmt.Errorf("stop process %d: it starts threads faster than they can be stopped", t.pid)
}

// seize attaches to the threads that are not known yet, tells them to stop, and
// returns how many it attached to.
func (t *tracee) seize(known map[int]bool, deadline time.Time) (int, error) {
	tids, err := listThreads(t.pid)
	if err != nil {
		return 0, err
	}
	for _, tid := range tids {
		if known[tid] {
			continue
		}
		known[tid] = true
		if err := t.attachInTurn(tid, deadline); err != nil {
			return 0, err
		}
	}
	return len(t.running), nil
}

// attachInTurn attaches to a thread once no other tracer in this process has
// it.
func (t *tracee) attachInTurn(tid int, deadline time.Time) error {
	refusals := 0
	for {
		err := t.attach(tid)
		switch {
		case errors.Is(err, process.ErrPermission):
			refusals++ // perhaps because of a tracer that was gone by the time of the check
		case errors.Is(err, errOurs):
			refusals = 0
		default:
			return err
		}
		if refusals == maxRefusals || time.Now().After(deadline) {
			return err
		}
		time.Sleep(look)
	}
}

// attach attaches to a thread and tells it to stop, unless it has ended.
func (t *tracee) attach(tid int) error {
	err := ptrace(unix.PTRACE_SEIZE, tid, 0, 0)
	if err == nil {
		t.running = append(t.running, tid)
		err = ptrace(unix.PTRACE_INTERRUPT, tid, 0, 0)
	}
	if err != nil && !errors.Is(err, unix.ESRCH) {
		return t.explain(tid, err)
	}
	return nil
}

// explain says why attaching to the thread failed; it returns nil if the thread
// has ended.
func (t *tracee) explain(tid int, cause error) error {
	status, err := readStatus(t.pid, tid)
	if err != nil {
		return nil // its directory disappears with the thread
	}
	state, tracer := status["State"], status["TracerPid"]
	switch {
	case strings.HasPrefix(state, "Z"), strings.HasPrefix(state, "X"):
		return nil
	case tracer != "" && processOf(tracer) == strconv.Itoa(os.Getpid()):
		return fmt.Errorf("stop process %d: %w", t.pid, errOurs)
	case tracer != "" && tracer != "0":
		return fmt.Errorf("stop process %d: process %s traces it already (end that first)", t.pid, processOf(tracer))
	case status["VmSize"] == "":
		return fmt.Errorf("stop process %d: it is a thread of the kernel", t.pid)
	case t.pid == os.Getpid():
		return fmt.Errorf("stop process %d: it is this one", t.pid)
	case errors.Is(cause, unix.EPERM):
		cause = process.ErrPermission
	}
	return fmt.Errorf("stop thread %d of process %d: %w", tid, t.pid, cause)
}

// awaitStops waits until the running threads have stopped or ended.
func (t *tracee) awaitStops(deadline time.Time) error {
	for len(t.running) > 0 {
		tid := t.running[0]
		stop, err := t.tracer.awaitStop(tid, deadline)
		switch {
		case errors.Is(err, unix.ECHILD):
			t.reap(tid)
		case err != nil:
			return t.stuck(tid, err)
		default:
			t.stopped = append(t.stopped, Thread{TID: tid, Signal: stop.groupStop()})
		}
		t.running = t.running[1:]
	}
	return nil
}

// stuck says which thread did not stop, and in what state it is.
func (t *tracee) stuck(tid int, cause error) error {
	status, err := readStatus(t.pid, tid)
	if err != nil {
		return fmt.Errorf("stop thread %d of process %d: %w", tid, t.pid, cause)
	}
	return fmt.Errorf("stop thread %d (%s) of process %d: %w (its state is %s)",
		tid, status["Name"], t.pid, cause, status["State"])
}

// readThreads reads the registers and signals of the stopped threads.
func (t *tracee) readThreads() error {
	buffer := make([]byte, maxRegisters)
	for i := range t.stopped {
		err := t.stopped[i].read(t.pid, buffer)
		if errors.Is(err, unix.ESRCH) {
			err = process.ErrGone // only SIGKILL ends a stopped thread, and all others with it
		}
		if err != nil {
			return fmt.Errorf("read registers of thread %d of process %d: %w", t.stopped[i].TID, t.pid, err)
		}
	}
	return nil
}

// A regset is a set of a thread's registers, and the type of its note.
type regset struct {
	note uint32
	to   *[]byte
}

// special returns the sets that only some architectures have.
func (t *Thread) special(machine elf.Machine) []regset {
	switch machine {
	case elf.EM_X86_64:
		return []regset{{noteXState, &t.XState}}
	case elf.EM_AARCH64:
		return []regset{{noteTLS, &t.TLS}, {notePACMask, &t.PACMask}, {noteCall, &t.Call}}
	}
	return nil
}

// read sets all fields but TID and Signal.
func (t *Thread) read(pid int, buffer []byte) (err error) {
	if t.General, err = readRegisters(t.TID, unix.NT_PRSTATUS, buffer); err != nil {
		return err
	}
	if t.Float, err = readRegisters(t.TID, unix.NT_PRFPREG, buffer); err != nil {
		return err
	}
	for _, set := range t.special(Machine()) {
		*set.to, err = readRegisters(t.TID, int(set.note), buffer)
		if err != nil && !errors.Is(err, unix.ENODEV) && !errors.Is(err, unix.EINVAL) { // this machine has no such registers
			return err
		}
	}
	if t.Siginfo, err = readSiginfo(t.TID); err != nil && !errors.Is(err, unix.EINVAL) {
		return err
	}
	if t.Held, err = readMask(t.TID); err != nil {
		return err
	}
	status, err := readStatus(pid, t.TID)
	if err != nil {
		return unix.ESRCH
	}
	own, _ := strconv.ParseUint(status["SigPnd"], 16, 64)
	shared, _ := strconv.ParseUint(status["ShdPnd"], 16, 64)
	t.Pending = own | shared
	return nil
}

// listThreads returns the process's threads, the main thread first.
func listThreads(pid int) ([]int, error) {
	dir, err := os.Open(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return nil, fmt.Errorf("list threads of process %d: %w", pid, process.ErrGone)
	}
	defer dir.Close()
	names, err := dir.Readdirnames(maxThreads)
	if err != nil {
		return nil, fmt.Errorf("list threads of process %d: %w", pid, process.ErrGone)
	}
	if len(names) == maxThreads {
		return nil, fmt.Errorf("list threads of process %d: %d or more", pid, maxThreads)
	}
	tids := make([]int, 0, len(names))
	for _, name := range names { // in the order in which they started
		tid, err := strconv.Atoi(name)
		if err != nil {
			return nil, fmt.Errorf("list threads of process %d: %w", pid, err)
		}
		tids = append(tids, tid)
	}
	return tids, nil
}

// parent returns the PID of the process's parent, or 0 if it has none.
func parent(pid int) int {
	status, err := readStatus(pid, pid)
	if err != nil {
		return 0
	}
	number, err := strconv.Atoi(status["PPid"])
	if err != nil {
		return 0
	}
	return number
}

// processOf returns the PID of a thread's process, or the thread's own number
// if it has ended.
func processOf(tid string) string {
	if number, err := strconv.Atoi(tid); err == nil {
		if status, err := readStatus(number, number); err == nil {
			return status["Tgid"]
		}
	}
	return tid
}

// readStatus returns the fields of a thread's status file by name.
func readStatus(pid, tid int) (map[string]string, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/status", pid, tid))
	if err != nil {
		return nil, err
	}
	fields := make(map[string]string)
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(line, ":")
		fields[name] = strings.TrimSpace(value)
	}
	return fields, nil
}
