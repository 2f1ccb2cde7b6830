package stopon

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"ustack/bpf"
)

// A stoppedMap is the kernel's map of the processes that stopon has stopped
// with SIGSTOP, by pid. A process is entered before it is stopped, so whoever
// holds the map can resume what a dead stopon has left stopped. Only what is in
// the map is ever resumed.
type stoppedMap struct{ *ebpf.Map }

// stop stops a process, unless somebody else has already stopped it.
func (m stoppedMap) stop(pid int) error {
	if isStopped(pid) {
		return nil
	}
	now, err := monotonic()
	if err != nil {
		return err
	}
	if err := m.Put(uint32(pid), bpf.StoponStop{Since: uint64(now)}); err != nil {
		return fmt.Errorf("record that process %d is stopped: %w", pid, err)
	}
	if err := unix.Kill(pid, unix.SIGSTOP); err != nil {
		return errors.Join(fmt.Errorf("stop process %d: %w", pid, err), m.forget(pid))
	}
	return nil
}

// isStopped reports whether a process is stopped by a signal.
func isStopped(pid int) bool { return strings.HasPrefix(procState(pid), "T") }

// procState returns a process's state as in proc(5), without the command name
// before it; empty if no such process exists.
func procState(pid int) string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text[strings.LastIndexByte(string(text), ')')+1:]))
}

// release resumes a process if stopon has stopped it. It stays stopped if
// somebody else stopped it too.
func (m stoppedMap) release(pid int) error {
	var stop, now bpf.StoponStop
	if m.Lookup(uint32(pid), &stop) != nil {
		return nil // not stopped by stopon
	}
	var err error
	if stop.Others == 0 {
		err = resume(pid)
	}
	if m.Lookup(uint32(pid), &now) == nil && now.Since == stop.Since { // not stopped again since
		err = errors.Join(err, m.forget(pid))
	}
	return err
}

// has reports whether stopon has stopped a process.
func (m stoppedMap) has(pid int) bool {
	var stop bpf.StoponStop
	return m.Lookup(uint32(pid), &stop) == nil
}

// forget removes a process from the map and leaves it stopped.
func (m stoppedMap) forget(pid int) error {
	err := m.Delete(uint32(pid))
	if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) { // the supervisor may have released it
		return fmt.Errorf("forget that process %d is stopped: %w", pid, err)
	}
	return nil
}

// releaseAfter resumes the processes that were stopped for longer than age.
func (m stoppedMap) releaseAfter(age time.Duration) error {
	now, err := monotonic()
	if err != nil {
		return err
	}
	var pids []int
	var pid uint32
	var stop bpf.StoponStop
	for entries := m.Iterate(); entries.Next(&pid, &stop); {
		if pid != paused && now-time.Duration(stop.Since) > age {
			pids = append(pids, int(pid))
		}
	}
	var errs []error
	for _, pid := range pids {
		errs = append(errs, m.release(pid))
	}
	return errors.Join(errs...)
}

// everything is less than any age.
const everything = -time.Hour

// holds reports whether stopon has stopped any process.
func (m stoppedMap) holds() bool {
	var pid uint32
	var stop bpf.StoponStop
	for entries := m.Iterate(); entries.Next(&pid, &stop); {
		if pid != paused {
			return true
		}
	}
	return false
}

// paused is the key of an entry that keeps the kernel half from stopping
// anything (bpf/act.h).
const paused = uint32(0)

// pause keeps the kernel half from stopping processes while whoever would
// resume them is suspended.
func (m stoppedMap) pause(is bool) error {
	if is {
		return m.Put(paused, bpf.StoponStop{})
	}
	return m.forget(int(paused))
}

// monotonic returns the time of CLOCK_MONOTONIC, which the kernel half uses.
func monotonic() (time.Duration, error) {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return 0, fmt.Errorf("read the clock: %w", err)
	}
	return time.Duration(now.Nano()), nil
}

// resume sends a stopped process SIGCONT. The process may have ended meanwhile.
func resume(pid int) error {
	if err := unix.Kill(pid, unix.SIGCONT); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("resume process %d: %w (kill -CONT %d)", pid, err, pid)
	}
	return nil
}
