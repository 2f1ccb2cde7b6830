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

// An ActionKind is what an Action does.
type ActionKind int

const (
	Stop ActionKind = iota // leave the process stopped
	Core                   // take a core
	Kill                   // send the thread a signal
	Exec                   // run a command
	Call                   // call a function
)

// An Action is something to do after a hit was reported.
type Action struct {
	Do       ActionKind
	Signal   unix.Signal // of Kill
	Pattern  string      // of Core: see core.Name
	Core     CoreOptions // of Core
	Command  string      // of Exec: for the shell; {pid}, {tid} and {core} in it are replaced
	Function func(context.Context, *Hit) error
}

// holds reports whether the process is held for the action.
func (a Action) holds() bool { return a.Do == Stop || a.Do == Core }

func (o *Options) checkActions() error {
	for i, a := range o.Actions {
		if a.Do == Stop && i < len(o.Actions)-1 {
			return errors.New("--stop must be the last action")
		}
	}
	return nil
}

// needsSupervisor reports whether an action holds processes, which must be
// resumed even if this process dies.
func (o *Options) needsSupervisor() bool { return slices.ContainsFunc(o.Actions, Action.holds) }

// act reports a hit and carries out the actions. The process is resumed as soon
// as no remaining action needs it stopped.
func (s *session) act(ctx context.Context, h *Hit) (err error) {
	if h.Trigger == stallEnd {
		return s.endStall(h)
	}
	s.acted++
	if h.Trigger == "stall" {
		s.stalled = h.Number
	}
	defer func() {
		if !h.Stays {
			err = errors.Join(err, s.stopped.release(h.PID))
		}
	}()
	if err := s.o.Report(h); err != nil {
		return err
	}
	for i := range s.o.Actions {
		if !slices.ContainsFunc(s.o.Actions[i:], Action.holds) {
			if err := s.stopped.release(h.PID); err != nil {
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

func (s *session) endStall(h *Hit) error {
	if h.Number == s.stalled {
		s.stalled = 0
	}
	if s.o.Ended == nil {
		return nil
	}
	return s.o.Ended(h)
}

// endWait is how long to wait for the end of the last reported stall: an
// endless loop has none.
const endWait = time.Second

// awaitStallEnd waits until the last reported stall is over.
func (s *session) awaitStallEnd(ctx context.Context) error {
	late := time.After(endWait)
	for s.stalled != 0 && s.o.Ended != nil {
		select {
		case <-ctx.Done():
			return nil
		case <-late:
			return nil
		case <-s.Gone():
			return nil
		case act := <-s.hits:
			if err := act(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// do carries out an action, and records and reports its outcome.
func (s *session) do(ctx context.Context, h *Hit, a *Action) {
	if err := s.try(ctx, h, a); err != nil {
		h.Errors = append(h.Errors, err)
		s.warn(err)
		if ctx.Err() == nil { // otherwise it was abandoned because the run ends
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
		if !isStopped(h.PID) && !s.stopped.has(h.PID) {
			return fmt.Errorf("process %d was resumed after --max-stop", h.PID)
		}
		h.Stays = true
		return errors.Join(s.lifelines.cut(h.PID), s.stopped.forget(h.PID))
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

// runHook runs a command of the user with the hit's numbers in it.
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
	c.Stdout, c.Stderr = os.Stderr, os.Stderr // stdout is for hits
	if err := c.Run(); err != nil {
		return fmt.Errorf("run %q: %w", command, err)
	}
	return nil
}

// takeCore takes a core of the hit's process. The process is resumed as soon as
// it has been copied, unless another action needs it stopped.
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
	h.Core, err = s.supervisor.take(ctx, coreOrder{
		PID: h.PID, TID: h.TID, Path: path, Note: note, MaxStop: s.o.MaxStop, Resume: last, CoreOptions: a.Core,
	}, func(done, total uint64) {
		if s.o.Progress != nil {
			s.o.Progress(h, done, total)
		}
	})
	return err
}
