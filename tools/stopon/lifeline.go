package stopon

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// A lifeline has the kernel resume a process if both this process and its
// supervisor die, for whatever reason, before the lifeline is cut. It is a pair
// of connected sockets that both of them have open. When neither has them open
// any longer, the kernel closes both: closing the first makes the other one
// ready, which is set up to send the process SIGCONT then (fcntl(2): O_ASYNC,
// F_SETOWN, F_SETSIG). While one of the two lives, it resumes only what stopon
// has stopped.
//
// The kernel sends the signal with the credentials of whoever made the
// lifeline, who must be root or the process's user: CAP_KILL does not count.
type lifeline [2]int

func newLifeline(pid int) (lifeline, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	l := lifeline(pair)
	if err != nil {
		return l, fmt.Errorf("make a lifeline for process %d: %w", pid, err)
	}
	for _, fd := range l {
		for _, set := range []struct{ command, value int }{
			{unix.F_SETSIG, int(unix.SIGCONT)}, {unix.F_SETOWN, pid},
		} {
			if _, err := unix.FcntlInt(uintptr(fd), set.command, set.value); err != nil {
				return l, errors.Join(fmt.Errorf("make a lifeline for process %d: %w", pid, err), l.cut())
			}
		}
	}
	return l, nil
}

// arm makes the kernel send the signal from then on.
func (l lifeline) arm() error {
	var errs []error
	for _, fd := range l {
		_, err := unix.FcntlInt(uintptr(fd), unix.F_SETFL, unix.O_ASYNC)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// greet reports through the lifeline that the supervisor has it open.
func (l lifeline) greet() { _, _ = unix.Write(l[0], []byte{0}) } // the parent does not wait forever

// awaitGreeting waits until the supervisor has the lifeline open, for endLimit at most.
func (l lifeline) awaitGreeting() {
	deadline := time.Now().Add(endLimit)
	for left := endLimit; left > 0; left = time.Until(deadline) {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(l[1]), Events: unix.POLLIN}}, int(left.Milliseconds())+1)
		if !errors.Is(err, unix.EINTR) {
			if n > 0 {
				_, _ = unix.Read(l[1], make([]byte, 1)) // a byte is there
			}
			return
		}
	}
}

// cut closes the lifeline without a signal.
func (l lifeline) cut() error {
	var errs []error
	for _, fd := range l {
		_, err := unix.FcntlInt(uintptr(fd), unix.F_SETFL, 0)
		errs = append(errs, err)
	}
	for _, fd := range l {
		errs = append(errs, unix.Close(fd))
	}
	return errors.Join(errs...)
}

// close closes those of the lifeline's sockets that are open.
func (l lifeline) close() {
	for _, fd := range l {
		if fd >= 0 {
			_ = unix.Close(fd) // nothing was written
		}
	}
}

// lifelines are the lifelines of the processes that may be stopped, by pid. The
// kernel half stops a process before user space knows, so a process has its
// lifeline from the start.
type lifelines struct {
	supervisor *supervisor
	mutex      sync.Mutex
	of         map[int]lifeline
}

// tie makes a lifeline for a process, unless it already has one.
func (l *lifelines) tie(pid int) error {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if _, ok := l.of[pid]; ok {
		return nil
	}
	line, err := newLifeline(pid)
	if errors.Is(err, unix.ESRCH) {
		return nil // it has ended
	}
	if err != nil {
		return err
	}
	if l.of == nil {
		l.of = make(map[int]lifeline)
	}
	l.of[pid] = line
	l.supervisor.send(order{Hold: &heldLine{PID: pid, FDs: line}})
	line.awaitGreeting() // if armed earlier, it would send its signal when this process alone died
	return line.arm()
}

// cut cuts a process's lifeline, if it has one.
func (l *lifelines) cut(pid int) error {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	line, ok := l.of[pid]
	if !ok {
		return nil
	}
	delete(l.of, pid)
	l.supervisor.send(order{Drop: pid})
	return line.cut()
}

// cutAll cuts all lifelines.
func (l *lifelines) cutAll() error {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	var errs []error
	for _, line := range l.of {
		errs = append(errs, line.cut())
	}
	clear(l.of)
	return errors.Join(errs...)
}

// startSupervisor starts the session's supervisor, which shares its lifelines.
func (s *session) startSupervisor() (err error) {
	s.supervisor, err = startSupervisor(s.stopped.Map, s.o.MaxStop)
	s.lifelines.supervisor = s.supervisor
	return err
}

// A heldLine is a lifeline that the supervisor is to hold open, too.
type heldLine struct {
	PID int
	FDs lifeline // the parent's descriptors
}

// take opens the parent's descriptors. Needs Linux 5.6.
func (h *heldLine) take(parent int) (l lifeline, err error) {
	for i, theirs := range h.FDs {
		fd, getErr := unix.PidfdGetfd(parent, theirs, 0)
		err = errors.Join(err, getErr)
		l[i] = fd
	}
	return l, err
}

// heldLines are the lifelines that a supervisor holds open, by pid.
type heldLines map[int]lifeline

func (l heldLines) hold(h *heldLine, parent int) {
	line, err := h.take(parent)
	if err != nil { // the parent has died or cut it: no need to hold it
		line.close()
		return
	}
	l.drop(h.PID)
	l[h.PID] = line
	line.greet()
}

func (l heldLines) drop(pid int) {
	if line, ok := l[pid]; ok {
		line.close()
		delete(l, pid)
	}
}

// cutAll cuts all lifelines, without a signal.
func (l heldLines) cutAll() error {
	var errs []error
	for _, line := range l {
		errs = append(errs, line.cut())
	}
	clear(l)
	return errors.Join(errs...)
}
