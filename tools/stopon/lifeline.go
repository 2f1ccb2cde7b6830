package stopon

import (
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sys/unix"
)

// A lifeline has the kernel resume a process if we die before the lifeline is cut,
// whatever we die of, and whatever else dies with us. It is a pair of connected
// sockets, both of which the kernel closes then: the one that is closed first makes
// the other one ready, and it is set up to send the process SIGCONT when it is
// (fcntl(2): O_ASYNC, F_SETOWN, F_SETSIG).
//
// The kernel sends it in the name of whoever made the lifeline, who must be root or
// the process's user: CAP_KILL does not count.
type lifeline [2]int

func newLifeline(pid int) (lifeline, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	l := lifeline(pair)
	if err != nil {
		return l, fmt.Errorf("make a lifeline for process %d: %w", pid, err)
	}
	for _, fd := range l {
		for _, set := range []struct{ command, value int }{
			{unix.F_SETSIG, int(unix.SIGCONT)}, {unix.F_SETOWN, pid}, {unix.F_SETFL, unix.O_ASYNC},
		} {
			if _, err := unix.FcntlInt(uintptr(fd), set.command, set.value); err != nil {
				return l, errors.Join(fmt.Errorf("make a lifeline for process %d: %w", pid, err), l.cut())
			}
		}
	}
	return l, nil
}

// cut ends the lifeline, without a signal.
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

// lifelines are those of the processes that we may stop, by pid. The kernel half
// stops processes before we know of it, so a process has one from the beginning.
type lifelines struct {
	mutex sync.Mutex
	of    map[int]lifeline
}

// tie makes a lifeline for a process, unless it has one.
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
	return nil
}

// cut ends a process's lifeline, if it has one.
func (l *lifelines) cut(pid int) error {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	line, ok := l.of[pid]
	if !ok {
		return nil
	}
	delete(l.of, pid)
	return line.cut()
}

// cutAll ends all lifelines.
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
