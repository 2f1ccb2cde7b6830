// Package process inspects a live process: its identity, its mappings, its memory
// and the files it sees.
//
// Terms: a process is one or more threads that share their memory. Its number,
// here the PID, is the kernel's "tgid"; a thread's number, the TID, is what the
// kernel calls "pid". The first thread's TID is the PID. Both are numbers in our
// own PID namespace; a process in a container has another PID there, its
// NamespacePID.
//
// Nothing a process says about itself is trusted: names and paths may hold any
// byte, and files may change between two reads.
package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Causes that callers distinguish.
var (
	ErrGone       = errors.New("no such process")
	ErrPermission = errors.New("permission denied (run as root, or with CAP_SYS_PTRACE)")
)

// A Process is a process that was alive when it was opened. Its methods may be
// called concurrently, but not after Close.
type Process struct {
	pid   int
	pidfd int
	dir   int // its folder in /proc; empty once the process is gone, even if the PID is reused

	closed atomic.Bool
}

// Open starts watching the process pid. The Process stays the same process even
// if pid is reused: later calls then fail with ErrGone. Close releases it;
// mappings and files already returned stay valid. Needs Linux 5.3.
func Open(pid int) (*Process, error) {
	pidfd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil, openError(pid, err)
	}
	p := &Process{pid: pid, pidfd: pidfd, dir: -1}
	p.dir, err = unix.Open(fmt.Sprintf("/proc/%d", pid), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) && p.exists() {
		err = unix.EACCES // /proc is mounted with hidepid
	}
	if err == nil {
		// The PID may have been reused between the two opens, but not if the
		// first process still runs.
		err = unix.SetNonblock(pidfd, true) // for Wait's poller
		if !p.Alive() {
			err = unix.ESRCH
		}
	}
	if err != nil {
		return nil, errors.Join(p.fault("open", err), p.Close())
	}
	return p, nil
}

// openError explains why pid has no pidfd.
func openError(pid int, err error) error {
	switch {
	case errors.Is(err, unix.ESRCH):
		return fmt.Errorf("process %d: %w", pid, ErrGone)
	case errors.Is(err, unix.ENOSYS):
		return fmt.Errorf("open process %d: %w (needs Linux 5.3)", pid, err)
	}
	status, readErr := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if leader, ok := field(status, "Tgid"); readErr == nil && ok && leader != fmt.Sprint(pid) {
		return fmt.Errorf("open process %d: it is a thread (its process is %s)", pid, leader)
	}
	return fmt.Errorf("open process %d: %w", pid, err)
}

// Close releases the process, which keeps running. A second Close returns an error and closes nothing:
// the descriptors' numbers may be another file's by then.
func (p *Process) Close() error {
	if p.closed.Swap(true) {
		return fmt.Errorf("close process %d: %w", p.pid, os.ErrClosed)
	}
	err := unix.Close(p.pidfd)
	if p.dir >= 0 {
		err = errors.Join(err, unix.Close(p.dir))
	}
	return err
}

// PID is the PID that the process was opened with.
func (p *Process) PID() int { return p.pid }

// Alive reports whether the process still runs. It is false once the process has
// exited, even before its parent has waited for it.
func (p *Process) Alive() bool {
	fds := []unix.PollFd{{Fd: int32(p.pidfd), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(fds, 0)
		if !errors.Is(err, unix.EINTR) {
			return err == nil && n == 0
		}
	}
}

// Wait returns nil when the process has exited, or ctx's error if ctx ends first.
func (p *Process) Wait(ctx context.Context) error {
	fd, err := unix.FcntlInt(uintptr(p.pidfd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return p.fault("wait for", err)
	}
	f := os.NewFile(uintptr(fd), "pidfd") // a copy, so that the deadline is this call's own
	defer f.Close()
	stop := context.AfterFunc(ctx, func() { f.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	conn, err := f.SyscallConn()
	if err != nil {
		return p.fault("wait for", err)
	}
	err = conn.Read(func(uintptr) bool { return !p.Alive() })
	if ctx.Err() != nil && p.Alive() {
		return ctx.Err()
	}
	if err != nil && p.Alive() {
		return p.fault("wait for", err)
	}
	return nil
}

// exists reports whether the process still has its PID, which it keeps until its
// parent has waited for it.
func (p *Process) exists() bool {
	return !errors.Is(unix.PidfdSendSignal(p.pidfd, 0, nil, 0), unix.ESRCH)
}

// fault wraps err with the attempted action, using the sentinels where they
// apply.
func (p *Process) fault(action string, err error) error {
	switch {
	case errors.Is(err, unix.ESRCH), errors.Is(err, unix.ENOENT) && !p.Alive():
		return fmt.Errorf("process %d: %w", p.pid, ErrGone)
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		err = ErrPermission
	}
	return fmt.Errorf("%s process %d: %w", action, p.pid, err)
}

// field returns the value after "name:" in a status file.
func field(status []byte, name string) (string, bool) {
	for line := range strings.Lines(string(status)) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value), true
		}
	}
	return "", false
}
