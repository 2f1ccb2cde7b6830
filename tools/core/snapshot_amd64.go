package core

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"ustack/symbolize/process"
)

// DefaultWay is the way that is best where there is no reason for another: on this
// architecture.
const DefaultWay = Snapshot

const (
	reapLimit  = 500 * time.Millisecond // for one thread to stop; then another is tried
	dyingLimit = 5 * time.Second        // for a process to end whose threads have: with gigabytes to free
	dyingTurn  = 50 * time.Millisecond  // of that, before its threads are listed anew
	maxBusy    = 1 << 4                 // tries of a madvise that the kernel had no memory for
	deadStack  = 8                      // an address where nothing is
	firstKill  = "1000"                 // the highest oom_score_adj
	callNumber = 15                     // which word of struct user_regs_struct has the system call's number, orig_rax
)

// A snapshot is a child of a process with a copy-on-write copy of its memory. It
// stands still before its first instruction and dies with us.
type snapshot struct {
	target   *process.Process
	tracer   *tracer
	children []child // the last one has all memory
	closed   sync.Once
	err      error // of closing
}

// A child is a process that the target was made to make.
type child struct {
	pid   int // as we count
	inner int // as the target counts
}

// snapshot makes a copy of the process's memory as it is while its threads are
// stopped. The caller may resume them then, and closes the snapshot.
//
// V8 tells the kernel not to copy its heap to children (MADV_DONTFORK). Which
// mappings are told so is seen from a first child: what that lacks is made
// copyable for the second one, and uncopyable again. That needs no list that was
// made before the stop, which might be wrong by then, nor smaps, which takes
// longer than the rest together.
//
// The child's death sends no signal (its exit signal is 0), and waiting for any
// child does not find it. It shares the table of descriptors, instead of having
// duplicates, and lets go of it at once (from Linux 5.9 on), so that it keeps no
// socket open. Memory that the process shares with others stays shared, and what
// it has wiped in children (MADV_WIPEONFORK) is empty. Where memory gets short,
// the kernel is asked to kill the child first.
//
// If we are killed in the milliseconds that this takes, the thread that makes the
// calls goes on with registers that are not its own, so that the process likely
// crashes, and V8's heap may stay copyable; the child dies. Who must not risk
// that runs this in a process of its own that nobody kills.
//
// It fails, with all undone, where the process may have no more children or
// memory, and with process.ErrGone if it dies meanwhile.
func (t *tracee) snapshot() (*snapshot, error) {
	target, err := process.Open(t.pid)
	if err != nil {
		return nil, fmt.Errorf("take snapshot: %w", err)
	}
	s := &snapshot{target: target, tracer: t.tracer}
	err = errOver
	if s.tracer.hold() {
		if err = s.tracer.do(func() error { return s.take(t) }); err == nil {
			return s, nil
		}
		s.tracer.release()
	}
	return nil, errors.Join(fmt.Errorf("take snapshot of process %d: %w", t.pid, orGone(err)), target.Close())
}

// pid returns the child's PID.
func (s *snapshot) pid() int { return s.children[len(s.children)-1].pid }

// take borrows a thread to make the children.
func (s *snapshot) take(t *tracee) error {
	if t.over {
		return errOver
	}
	if !slices.ContainsFunc(t.stopped, func(thread Thread) bool { return thread.TID == t.pid }) {
		return errors.New("its first thread has ended, without which the kernel does not show its memory")
	}
	thread, err := borrow(s.tracer, t.idlest(), s.target)
	if err != nil {
		return err
	}
	if err = s.makeChildren(thread); err != nil {
		err = errors.Join(err, s.kill(), s.reap(thread))
		s.children = nil
	}
	err = errors.Join(err, thread.giveBack())
	if err != nil { // then the process may be dead
		err = errors.Join(err, s.findStrays(), s.kill())
	}
	return err
}

// makeChildren makes one child, or two if the first one lacks memory.
func (s *snapshot) makeChildren(thread *borrowed) error {
	last, err := s.clone(thread)
	if err != nil {
		return err
	}
	lacking, err := s.lacking()
	if err != nil {
		return err
	}
	if len(lacking) > 0 {
		unix.Kill(s.pid(), unix.SIGKILL) // it has told what it was made for; whether it dies is seen later
		if last, err = s.cloneWith(thread, lacking); err != nil {
			return err
		}
	}
	return release(last)
}

// idlest returns a thread to borrow, preferably one that waits for a futex, which
// it does anew with nothing lost. One that is in no system call might be in a
// restartable sequence (rseq), which would not be told that it was left.
func (t *tracee) idlest() int {
	rank := func(thread Thread) int {
		switch int64(binary.LittleEndian.Uint64(thread.General[8*callNumber:])) {
		case unix.SYS_FUTEX:
			return 0
		case -1:
			return 2
		}
		return 1
	}
	return slices.MinFunc(t.stopped, func(a, b Thread) int { return rank(a) - rank(b) }).TID
}

// clone has the thread make a child. Its stack is nowhere: should it ever run,
// because we died before it was told to die with us, it faults at once.
func (s *snapshot) clone(thread *borrowed) (*borrowed, error) {
	inner, err := thread.call(unix.SYS_CLONE, unix.CLONE_FILES, deadStack)
	switch {
	case errors.Is(err, unix.EAGAIN):
		return nil, fmt.Errorf("make a child: %w (are its processes limited: ulimit -u, or pids.max of its cgroup?)", err)
	case errors.Is(err, unix.ENOMEM):
		return nil, fmt.Errorf("make a child: %w (is vm.overcommit_memory 2, or its memory limited?)", err)
	case err != nil:
		return nil, fmt.Errorf("make a child: %w", err)
	}
	s.children = append(s.children, child{pid: thread.cloned, inner: inner})
	return thread.adopt()
}

// cloneWith has the thread make a child that has the ranges, too.
func (s *snapshot) cloneWith(thread *borrowed, ranges []addresses) (last *borrowed, err error) {
	defer func() { err = errors.Join(err, advise(thread, ranges, unix.MADV_DONTFORK)) }()
	if err := advise(thread, ranges, unix.MADV_DOFORK); err != nil {
		return nil, err
	}
	return s.clone(thread)
}

// release has the child let go of the descriptors, and offers it to the kernel
// as the first to be killed for memory.
func release(child *borrowed) error {
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/oom_score_adj", child.tid), []byte(firstKill), 0); err != nil {
		return fmt.Errorf("have the child killed first when memory is short: %w", err)
	}
	_, err := child.call(unix.SYS_CLOSE_RANGE, 0, math.MaxUint32, unix.CLOSE_RANGE_UNSHARE)
	if err != nil && !errors.Is(err, unix.ENOSYS) {
		return fmt.Errorf("have the child let go of the descriptors: %w", err)
	}
	return nil
}

// addresses is a range of a process's addresses.
type addresses struct{ start, end uint64 } // up to, not including, end

// lacking returns few ranges that hold all of the target's private memory that
// the first child has not, and else only addresses where nothing is.
func (s *snapshot) lacking() ([]addresses, error) {
	all, err := s.target.Maps()
	if err != nil {
		return nil, err
	}
	first, err := process.Open(s.pid())
	if err != nil {
		return nil, err
	}
	defer first.Close()
	copied, err := first.Maps()
	if err != nil {
		return nil, err
	}
	return difference(all, copied), nil
}

// difference returns the ranges of all that are not among the copied, with
// whatever hole is between two of them. A mapping is copied whole or not at all.
// Those that show files are left as they are: a driver may have good reasons.
func difference(all, copied []process.Mapping) []addresses {
	has := make(map[uint64]bool, len(copied))
	for _, m := range copied {
		has[m.Start] = true
	}
	var ranges []addresses
	adjacent := false
	for _, m := range all {
		switch {
		case has[m.Start] || m.File():
			adjacent = false
			continue
		case adjacent:
			ranges[len(ranges)-1].end = m.End
		default:
			ranges = append(ranges, addresses{m.Start, m.End})
		}
		adjacent = true
	}
	return ranges
}

// advise has the thread give the kernel an advice for all ranges.
func advise(thread *borrowed, ranges []addresses, advice uint64) error {
	var all error
	for _, r := range ranges {
		err := error(unix.EAGAIN)
		for i := 0; i < maxBusy && errors.Is(err, unix.EAGAIN); i++ {
			_, err = thread.call(unix.SYS_MADVISE, r.start, r.end-r.start, advice)
		}
		if err != nil && !errors.Is(err, unix.ENOMEM) { // which tells of the holes, when all is done
			all = errors.Join(all, fmt.Errorf("advise %d for %#x to %#x: %w", advice, r.start, r.end, err))
		}
	}
	return all
}

// close kills the child and has the target wait for it, for which one of its
// threads is stopped for some 0.1 ms. It may be called again, to no effect. If
// the target has ended, whoever inherits the child waits for it.
func (s *snapshot) close() error {
	s.closed.Do(func() {
		s.err = s.tracer.do(s.kill)
		s.err = errors.Join(s.err, s.reapAnew(), s.target.Close())
		s.tracer.release()
	})
	return s.err
}

// findStrays finds the child that a thread may have been making when it was
// killed: nobody tells of it, but it is traced by our thread as the target is.
func (s *snapshot) findStrays() error {
	all, err := process.List()
	for _, p := range all {
		status, err := readStatus(p.PID, p.PID)
		if err != nil || p.PID == s.target.PID() || status["TracerPid"] != strconv.Itoa(unix.Gettid()) {
			continue
		}
		if !slices.ContainsFunc(s.children, func(c child) bool { return c.pid == p.PID }) {
			s.children = append(s.children, child{pid: p.PID})
		}
	}
	return err
}

// kill kills the children and waits until they are dead.
func (s *snapshot) kill() error {
	var all error
	for _, c := range s.children {
		if err := unix.Kill(c.pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
			all = errors.Join(all, fmt.Errorf("kill snapshot %d: %w", c.pid, err))
			continue
		}
		s.tracer.awaitEnd(c.pid)
	}
	return all
}

// reapAnew has any thread that can be stopped wait for the dead children. If
// there is no such thread the process is likely about to end, of which it does
// not say so until its last thread has: that is waited for, or that a thread is
// free again.
func (s *snapshot) reapAnew() error {
	var err error
	for deadline := time.Now().Add(dyingLimit); time.Now().Before(deadline); {
		if err = s.reapByAny(); err == nil || s.endsWithin(dyingTurn) {
			return nil
		}
		if !errors.Is(err, process.ErrGone) && !errors.Is(err, errOurs) {
			break
		}
	}
	return fmt.Errorf("have process %d wait for its snapshot: %w", s.target.PID(), err)
}

// endsWithin reports whether the process ends before so much time has passed.
func (s *snapshot) endsWithin(limit time.Duration) bool {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	return s.target.Wait(ctx) == nil
}

// reapByAny has the first thread that can be stopped wait for the dead children.
// It fails with process.ErrGone if all have ended.
func (s *snapshot) reapByAny() error {
	tids, err := listThreads(s.target.PID())
	if err != nil {
		return err
	}
	for _, tid := range slices.Backward(tids) { // the first one has most to do
		one := &tracee{pid: s.target.PID(), tracer: s.tracer}
		s.tracer.hold()
		err = s.tracer.do(func() error { return s.reapBy(one, tid) })
		if err = errors.Join(err, one.resume()); err == nil {
			return nil
		}
	}
	return orGone(err)
}

// reapBy has the thread tid wait for the dead children.
func (s *snapshot) reapBy(one *tracee, tid int) error {
	if err := one.attach(tid); err != nil {
		return err
	}
	if err := one.awaitStops(time.Now().Add(reapLimit)); err != nil {
		return err
	}
	if len(one.stopped) == 0 {
		return unix.ECHILD
	}
	thread, err := borrow(s.tracer, tid, s.target)
	if err != nil {
		return err
	}
	return errors.Join(s.reap(thread), thread.giveBack())
}

// reap has the thread wait for the dead children.
func (s *snapshot) reap(thread *borrowed) error {
	for _, c := range s.children {
		if c.inner == 0 {
			continue // a stray's parent is dead
		}
		_, err := thread.call(unix.SYS_WAIT4, uint64(c.inner), 0, unix.WALL|unix.WNOHANG, 0)
		if err != nil && !errors.Is(err, unix.ECHILD) { // the target has waited itself
			return fmt.Errorf("wait for snapshot %d: %w", c.pid, err)
		}
	}
	return nil
}

// orGone returns process.ErrGone for what ptrace says of a dead thread.
func orGone(err error) error {
	if errors.Is(err, unix.ECHILD) || errors.Is(err, unix.ESRCH) {
		return process.ErrGone
	}
	return err
}
