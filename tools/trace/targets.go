package trace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"ustack/bpf"
	"ustack/symbolize/contain"
	"ustack/symbolize/process"
	"ustack/symbolize/v8"
)

// ErrNotFound reports that no process was ever selected.
var ErrNotFound = errors.New("no process found")

// targets keeps a table's processes equal to those that a Selection selects, as
// processes start, exec and end.
type targets struct {
	// Added is called for each process that the table has started to trace, Ended
	// when one has ended. Missed is called for one that has begun and ended before it could
	// be traced. Each may be nil.
	Added  func(pid int) error
	Ended  func(pid int)
	Missed func(pid int)
	// Warn is called with what keeps a process that came later from being traced.
	Warn func(error)

	table *Table
	s     Selection
	gone  chan struct{} // closed when the last process has ended; never if goesOn
	over  sync.Once     // closes gone

	command *command
	mutex   sync.Mutex
	watched map[int]*watched
	found   bool // a process was ever selected
	waits   sync.WaitGroup
	closed  bool
}

// A watched is a process whose end is waited for.
type watched struct {
	process *process.Process
	stop    func()
	over    chan struct{} // closed when that is over, and the process, if it has ended, is forgotten
}

// newTargets returns the targets of s, none of which is in table yet. Close ends
// what they begin.
func newTargets(table *Table, s Selection) *targets {
	return &targets{
		Warn:  func(error) {},
		table: table, s: s, gone: make(chan struct{}), watched: make(map[int]*watched),
	}
}

// Add has the table trace the processes that exist. A command exists, stopped before
// its first instruction.
func (t *targets) Add() error {
	if err := t.s.Check(); err != nil {
		return err
	}
	if len(t.s.Command) > 0 {
		t.mutex.Lock() // until the command is known, its start is not handled
		c, err := start(t.s.Command, t.s.Stdout)
		t.command = c
		t.mutex.Unlock()
		if err != nil {
			return err
		}
		return t.watch(c.pid())
	}
	pids, err := t.s.list()
	if err != nil {
		return err
	}
	others := 0
	for _, pid := range pids {
		if t.table.interrupt.Err() != nil {
			return nil // it is being stopped: what is missing does not matter
		}
		err := t.watch(pid)
		switch {
		case err == nil, errors.Is(err, process.ErrGone) && len(t.s.PIDs) == 0:
		case t.s.All && errors.Is(err, v8.ErrNotV8):
			others++
		case len(t.s.PIDs) > 0:
			return err
		default:
			t.Warn(err)
		}
	}
	if others > 0 {
		t.Warn(fmt.Errorf("processes that are not Node.js, and are left out: %d", others))
	}
	return nil
}

// Missing returns an error that wraps ErrNotFound if no process was ever selected,
// nil otherwise, and if it was stopped before all had been read.
func (t *targets) Missing() error {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if t.found || t.table.interrupt.Err() != nil {
		return nil
	}
	return t.s.missing("")
}

// Start lets the command run.
func (t *targets) Start() error {
	if t.command == nil {
		return nil
	}
	return t.command.resume()
}

// watch adds process pid until it ends. It may end at any time from then on, be it by
// what a tool does to it: that is no error.
func (t *targets) watch(pid int) (err error) {
	defer contain.Panic(&err, "read process %d", pid)
	p, err := process.Open(pid)
	if err != nil {
		return err
	}
	kept := false
	defer func() {
		if !kept {
			_ = p.Close() // a descriptor that was only waited on
		}
	}()
	add := t.table.Add
	if t.s.All {
		add = t.table.AddV8
	}
	if err := add(pid); err != nil {
		return err
	}
	if t.Added != nil {
		if err := t.Added(pid); err != nil && !errors.Is(err, process.ErrGone) && p.Alive() {
			return errors.Join(err, t.table.Remove(pid))
		}
	}
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.found = true
	if t.watched[pid] != nil || t.closed {
		return nil
	}
	kept = true
	ctx, cancel := context.WithCancel(context.Background())
	w := &watched{process: p, stop: cancel, over: make(chan struct{})}
	t.watched[pid] = w
	t.waits.Go(func() {
		defer cancel()
		err := p.Wait(ctx)
		if err == nil {
			t.forget(pid)
		}
		t.unwatch(pid, err == nil)
		close(w.over)
	})
	return nil
}

// forget forgets process pid, which has ended. This may take long: others are watched meanwhile.
func (t *targets) forget(pid int) {
	if t.Ended != nil {
		t.Ended(pid)
	}
	if err := t.table.Remove(pid); err != nil {
		t.Warn(fmt.Errorf("forget process %d: %w", pid, err))
	}
}

// unwatch stops waiting for the end of process pid, which may have ended.
func (t *targets) unwatch(pid int, ended bool) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	_ = t.watched[pid].process.Close() // a descriptor that was only waited on
	delete(t.watched, pid)
	last := len(t.watched) == 0 && !t.s.goesOn()
	if ended && (last || t.command != nil && pid == t.command.pid()) {
		t.over.Do(func() { close(t.gone) })
	}
}

// awaitEnd waits until an earlier process that had this pid is forgotten, if there was one.
func (t *targets) awaitEnd(pid int) {
	t.mutex.Lock()
	w := t.watched[pid]
	hasEnded := w != nil && !w.process.Alive()
	t.mutex.Unlock()
	if hasEnded {
		<-w.over
	}
}

// Exec handles a kernel record about a process that has a new program.
func (t *targets) Exec(raw []byte) {
	e := Decode[bpf.TraceExec](raw)
	pid := int(e.Pid)
	comm := string(e.Comm[:slices.Index(append(e.Comm[:], 0), 0)])
	t.mutex.Lock()
	own := t.command != nil && t.command.isOwnStart(pid)
	t.mutex.Unlock()
	if own {
		return // it was added when it was started
	}
	t.awaitEnd(pid)
	wanted := t.table.Has(pid) || t.s.goesOn() && t.s.selects(process.Listed{PID: pid, Comm: comm}) ||
		len(t.s.Command) > 0 && slices.ContainsFunc(e.Ancestors[:], func(pid uint32) bool { return t.table.Has(int(pid)) })
	if !wanted {
		return
	}
	err := t.watch(pid)
	switch {
	case err == nil, t.s.All && errors.Is(err, v8.ErrNotV8):
	case !errors.Is(err, process.ErrGone):
		t.Warn(err)
	case t.Missed != nil:
		t.Missed(pid)
	}
}

// Close stops watching and leaves a command to itself, or kills it if it never ran.
func (t *targets) Close() error {
	t.mutex.Lock()
	t.closed = true
	for _, w := range t.watched {
		w.stop()
	}
	t.mutex.Unlock()
	t.waits.Wait()
	if t.command == nil {
		return nil
	}
	status, err := t.command.close()
	if status >= 0 && t.s.Exited != nil {
		t.s.Exited(status)
	}
	return err
}

// A command is a child process that was started stopped.
type command struct {
	cmd     *exec.Cmd
	heard   bool          // the kernel has announced its start
	release chan struct{} // closed to let it run
	once    sync.Once
	resumed chan error // the result of resuming it
}

// start runs argv up to its first instruction. Only the thread that started it may
// resume it, so that thread waits until then.
func start(argv []string, stdout *os.File) (*command, error) {
	c := &command{
		cmd:     exec.Command(argv[0], argv[1:]...),
		release: make(chan struct{}),
		resumed: make(chan error, 1),
	}
	c.cmd.Stdin, c.cmd.Stdout, c.cmd.Stderr = os.Stdin, cmp.Or(stdout, os.Stdout), os.Stderr
	c.cmd.SysProcAttr = &unix.SysProcAttr{Ptrace: true}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := c.cmd.Start()
		if err == nil {
			var status unix.WaitStatus
			_, err = unix.Wait4(c.cmd.Process.Pid, &status, 0, nil)
		}
		started <- err
		if err == nil {
			<-c.release
			c.resumed <- unix.PtraceDetach(c.cmd.Process.Pid)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", argv[0], err)
	}
	return c, nil
}

// isOwnStart reports whether the kernel's record of a new program in process pid is
// the one about the command itself: the first about its process.
func (c *command) isOwnStart(pid int) bool {
	own := pid == c.pid() && !c.heard
	c.heard = c.heard || own
	return own
}

func (c *command) pid() int { return c.cmd.Process.Pid }

// resume lets the command run, unless it has been resumed or killed before.
func (c *command) resume() (err error) {
	c.once.Do(func() {
		close(c.release)
		if err = <-c.resumed; err != nil {
			err = fmt.Errorf("resume %s: %w", c.cmd.Path, err)
		}
	})
	return err
}

// kill ends the command unless it has been resumed: it executes no instruction.
func (c *command) kill() (killed bool, err error) {
	c.once.Do(func() {
		killed = true
		err = c.cmd.Process.Kill()
		close(c.release)
		<-c.resumed // an error if it ended first
		if _, waitErr := unix.Wait4(c.pid(), nil, 0, nil); waitErr != nil {
			err = errors.Join(err, fmt.Errorf("reap %s: %w", c.cmd.Path, waitErr))
		}
	})
	return killed, err
}

// close leaves the command to itself: running, or reaped if it has exited. It kills a
// command that was never resumed. It returns the command's status as a shell reports
// it, -1 if it is still running or was never resumed.
func (c *command) close() (status int, err error) {
	if killed, err := c.kill(); killed {
		return -1, err
	}
	var ws unix.WaitStatus
	pid, err := unix.Wait4(c.pid(), &ws, unix.WNOHANG, nil)
	switch {
	case err != nil:
		return -1, fmt.Errorf("reap %s: %w", c.cmd.Path, err)
	case pid == 0:
		return -1, nil
	case ws.Signaled():
		const bySignal = 128
		return bySignal + int(ws.Signal()), nil
	}
	return ws.ExitStatus(), nil
}
