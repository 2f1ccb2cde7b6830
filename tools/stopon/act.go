package stopon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"ustack/tools/core"
)

// A Deed is what an Action does.
type Deed int

const (
	Stop Deed = iota // leave the process stopped
	Core             // take a core
	Kill             // send the thread a signal
	Exec             // run a command
	Call             // call a function
)

// An Action is something to do about a hit, after it was reported.
type Action struct {
	Do       Deed
	Signal   unix.Signal // of Kill
	Pattern  string      // of Core: see core.Name
	Core     CoreOptions // of Core
	Command  string      // of Exec: for the shell, with {pid}, {tid} and {core} in it
	Function func(context.Context, *Hit) error
}

// holds reports whether the process must stand still for the action.
func (a Action) holds() bool { return a.Do == Stop || a.Do == Core }

func (o *Options) checkActions() error {
	for i, a := range o.Actions {
		if a.Do == Stop && i < len(o.Actions)-1 {
			return errors.New("to leave the process stopped is the last action")
		}
	}
	return nil
}

// needsKeeper reports whether somebody must outlive us for the processes' sake.
func (o *Options) needsKeeper() bool { return slices.ContainsFunc(o.Actions, Action.holds) }

// act reports a hit, does what is to be done, and lets the process go on as soon
// as nothing is left that needs it stopped.
func (s *session) act(ctx context.Context, h *Hit) (err error) {
	s.acted++
	defer func() {
		if !h.Stays {
			err = errors.Join(err, s.release(h.PID))
		}
	}()
	if err := s.o.Report(h); err != nil {
		return err
	}
	for i := range s.o.Actions {
		if !slices.ContainsFunc(s.o.Actions[i:], Action.holds) {
			if err := s.release(h.PID); err != nil {
				return err
			}
		}
		s.do(ctx, h, &s.o.Actions[i])
	}
	if s.o.Done != nil {
		return s.o.Done(h)
	}
	return nil
}

// do does an action, and keeps and tells what comes of it.
func (s *session) do(ctx context.Context, h *Hit, a *Action) {
	if err := s.try(ctx, h, a); err != nil {
		h.Errors = append(h.Errors, err)
		s.warn(err)
		if ctx.Err() == nil { // else it was given up because the run ends
			s.failed++
		}
		return
	}
	if s.o.Acted != nil {
		s.o.Acted(h, a)
	}
}

func (s *session) try(ctx context.Context, h *Hit, a *Action) error {
	switch a.Do {
	case Stop:
		if h.Raised != unix.SIGSTOP {
			return fmt.Errorf("process %d was not stopped", h.PID)
		}
		h.Stays = true
		return s.forget(h.PID)
	case Core:
		return s.takeCore(ctx, h, a)
	case Kill:
		if h.Raised == a.Signal {
			return nil // by the kernel, at the event
		}
		if err := unix.Tgkill(h.PID, h.TID, a.Signal); err != nil {
			return fmt.Errorf("send %s to thread %d of process %d: %w", unix.SignalName(a.Signal), h.TID, h.PID, err)
		}
	case Exec:
		return runHook(ctx, a.Command, h)
	case Call:
		return a.Function(ctx, h)
	}
	return nil
}

// runHook runs a command of the user's with the hit's numbers in it.
func runHook(ctx context.Context, command string, h *Hit) error {
	path := ""
	if h.Core != nil {
		path = h.Core.Path
	}
	quote := func(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }
	command = strings.NewReplacer(
		"{pid}", strconv.Itoa(h.PID), "{tid}", strconv.Itoa(h.TID), "{core}", quote(path),
	).Replace(command)
	c := exec.CommandContext(ctx, "/bin/sh", "-c", command)
	c.Stdout, c.Stderr = os.Stderr, os.Stderr // our stdout is for hits
	if err := c.Run(); err != nil {
		return fmt.Errorf("run %q: %w", command, err)
	}
	return nil
}

// release lets a process that we have stopped go on.
func (s *session) release(pid int) error {
	key := uint32(pid)
	var since, now uint64
	if s.objects.Stopped.Lookup(&key, &since) != nil {
		return nil // it is not
	}
	err := resume(pid)
	if s.objects.Stopped.Lookup(&key, &now) == nil && now == since { // not stopped anew
		err = errors.Join(err, s.forget(pid))
	}
	return err
}

// forget leaves a stopped process as it is.
func (s *session) forget(pid int) error {
	key := uint32(pid)
	if err := s.objects.Stopped.Delete(&key); err != nil {
		return fmt.Errorf("forget that process %d is stopped: %w", pid, err)
	}
	return nil
}

// resume lets a stopped process go on; it may have ended meanwhile.
func resume(pid int) error {
	if err := unix.Kill(pid, unix.SIGCONT); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("resume process %d: %w (kill -CONT %d)", pid, err, pid)
	}
	return nil
}

// releaseAll lets all processes go on that we have stopped.
func (s *session) releaseAll() error { return s.releaseSince(func(time.Duration) bool { return true }) }

// releaseLate lets those go on that have been stopped for too long.
func (s *session) releaseLate() error {
	return s.releaseSince(func(age time.Duration) bool { return age > s.o.MaxStop })
}

func (s *session) releaseSince(over func(age time.Duration) bool) error {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return fmt.Errorf("read the clock: %w", err)
	}
	var pids []int
	var pid uint32
	var since uint64
	for entries := s.objects.Stopped.Iterate(); entries.Next(&pid, &since); {
		if over(time.Duration(now.Nano() - int64(since))) {
			pids = append(pids, int(pid))
		}
	}
	var errs []error
	for _, pid := range pids {
		errs = append(errs, s.release(pid))
	}
	return errors.Join(errs...)
}

// takeCore takes a core of the hit's process, which goes on as soon as it may,
// unless another action needs it stopped.
func (s *session) takeCore(ctx context.Context, h *Hit, a *Action) error {
	path, err := core.Name(a.Pattern, core.Facts{Comm: h.Comm, PID: h.PID, TID: h.TID, Time: h.Time})
	if err != nil {
		return err
	}
	if path, err = filepath.Abs(path); err != nil {
		return fmt.Errorf("name a core: %w", err)
	}
	note, err := h.MarshalJSON()
	if err != nil {
		return err
	}
	last := a == &s.o.Actions[len(s.o.Actions)-1]
	h.Core, err = s.keeper.take(ctx, coreOrder{
		PID: h.PID, TID: h.TID, Path: path, Note: note, MaxStop: s.o.MaxStop, Resume: last, CoreOptions: a.Core,
	}, func(done, total uint64) {
		if s.o.Progress != nil {
			s.o.Progress(h, done, total)
		}
	})
	return err
}
