package jsprof

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
	"ustack/symbolize/process"
	"ustack/tools/ustack"
)

// targets keeps the table's processes those that the options select, as
// processes start, exec and end.
type targets struct {
	table *ustack.Table
	o     Options
	gone  chan struct{} // closed when the last has ended, where no more can come
	over  sync.Once     // closes gone

	command *command
	mutex   sync.Mutex
	watched map[int]func() // stops watching
	waits   sync.WaitGroup
	closed  bool
}

func newTargets(table *ustack.Table, o Options) *targets {
	return &targets{table: table, o: o, gone: make(chan struct{}), watched: make(map[int]func())}
}

// add has the table look at the processes that are there; a command is there,
// stopped before its first instruction.
func (t *targets) add() error {
	if len(t.o.Command) > 0 {
		c, err := start(t.o.Command, t.o.Stdout)
		if err != nil {
			return err
		}
		t.command = c
		return t.watch(c.pid())
	}
	if len(t.o.PIDs) == 0 && t.o.Comm == "" && !t.o.All {
		return errNoTarget
	}
	pids, err := openAll(t.o)
	if err != nil {
		return err
	}
	for _, pid := range pids {
		err := t.watch(pid)
		if len(t.o.PIDs) > 0 && err != nil {
			return err
		}
	}
	return nil
}

// start lets the command run.
func (t *targets) start() error {
	if t.command == nil {
		return nil
	}
	return t.command.resume()
}

// watch adds process pid, until it ends.
func (t *targets) watch(pid int) error {
	if err := t.table.Add(pid); err != nil {
		return err
	}
	if t.o.All && !t.table.HasV8(pid) {
		return t.table.Remove(pid)
	}
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if t.watched[pid] != nil || t.closed {
		return nil
	}
	p, err := process.Open(pid)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	t.watched[pid] = cancel
	t.waits.Go(func() {
		err := p.Wait(ctx)
		cancel()
		_ = p.Close() // a descriptor that was only waited on
		if err == nil {
			t.ended(pid)
		}
	})
	return nil
}

func (t *targets) ended(pid int) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	delete(t.watched, pid)
	if err := t.table.Remove(pid); err != nil && t.o.Warn != nil {
		t.o.Warn(fmt.Errorf("forget process %d: %w", pid, err))
	}
	last := len(t.watched) == 0 && !t.o.All && t.o.Comm == ""
	if last || t.command != nil && pid == t.command.pid() {
		t.over.Do(func() { close(t.gone) })
	}
}

// exec is told of each process that has a new program.
func (t *targets) exec(e *bpf.JsprofExec) {
	pid := int(e.Pid)
	comm := string(e.Comm[:slices.Index(append(e.Comm[:], 0), 0)])
	wanted := t.o.All || t.table.Has(pid) || t.o.Comm != "" && comm == t.o.Comm ||
		len(t.o.Command) > 0 && t.table.Has(int(e.Parent))
	if !wanted {
		return
	}
	if err := t.watch(pid); err != nil && !errors.Is(err, process.ErrGone) && t.o.Warn != nil {
		t.o.Warn(err)
	}
}

func (t *targets) close() error {
	t.mutex.Lock()
	t.closed = true
	for _, stop := range t.watched {
		stop()
	}
	t.mutex.Unlock()
	t.waits.Wait()
	if t.command != nil {
		return t.command.close()
	}
	return nil
}

// A command is a child process that was started stopped.
type command struct {
	cmd     *exec.Cmd
	release chan struct{} // closed to let it run
	once    sync.Once
	resumed chan error // what came of it
}

// start runs argv up to its first instruction. Only the thread that started it
// may let it go on, so that one waits until then.
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

func (c *command) pid() int { return c.cmd.Process.Pid }

// resume lets the command run, if nobody did before.
func (c *command) resume() (err error) {
	c.once.Do(func() {
		close(c.release)
		if err = <-c.resumed; err != nil {
			err = fmt.Errorf("resume %s: %w", c.cmd.Path, err)
		}
	})
	return err
}

// close leaves the command to itself: running, or reaped if it has ended.
func (c *command) close() error {
	err := c.resume()
	var status unix.WaitStatus
	if _, waitErr := unix.Wait4(c.pid(), &status, unix.WNOHANG, nil); waitErr != nil {
		err = errors.Join(err, fmt.Errorf("reap %s: %w", c.cmd.Path, waitErr))
	}
	return err
}
