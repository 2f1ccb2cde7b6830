package stopon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"ustack/bpf"
	"ustack/loader"
)

// Now acts on the processes of o.PIDs at once, without a trigger.
func Now(ctx context.Context, o Options) (result *Result, err error) {
	if o.MaxStop == 0 {
		o.MaxStop = defaultMaxStop
	}
	if err := o.checkActions(); err != nil {
		return nil, err
	}
	spec, err := bpf.LoadStopon()
	if err != nil {
		return nil, err
	}
	s := &session{o: o}
	if s.objects.Stopped, err = loader.NewMap(spec.Maps["stopped"]); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.objects.Stopped.Close()) }()
	if s.keeper, err = startKeeper(s.objects.Stopped); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.releaseAll(), s.keeper.close()) }()
	if o.Started != nil {
		o.Started()
	}
	defer s.guard()()
	for _, pid := range o.PIDs {
		if err := s.actNow(ctx, pid); err != nil {
			return nil, err
		}
	}
	return &Result{Acted: s.acted, Failed: s.failed}, nil
}

// actNow acts on a process that is stopped first if an action needs that.
func (s *session) actNow(ctx context.Context, pid int) error {
	comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil {
		return fmt.Errorf("find process %d: %w", pid, unix.ESRCH)
	}
	h := &Hit{
		Time: time.Now(), PID: pid, TID: pid, Comm: strings.TrimSuffix(string(comm), "\n"),
		Trigger: "now", Event: "asked for",
	}
	if s.o.stops() {
		if err := s.stop(pid); err != nil {
			return err
		}
		h.Raised = unix.SIGSTOP
	}
	return s.act(ctx, h)
}

// stops reports whether the process is to be left stopped. A core stops its
// threads by itself.
func (o *Options) stops() bool {
	return len(o.Actions) > 0 && o.Actions[len(o.Actions)-1].Do == Stop
}

// stop stops a process, and lets the keeper know before.
func (s *session) stop(pid int) error {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return fmt.Errorf("read the clock: %w", err)
	}
	if err := s.objects.Stopped.Put(uint32(pid), uint64(now.Nano())); err != nil {
		return fmt.Errorf("keep in mind that process %d is stopped: %w", pid, err)
	}
	if err := unix.Kill(pid, unix.SIGSTOP); err != nil {
		return errors.Join(fmt.Errorf("stop process %d: %w", pid, err), s.forget(pid))
	}
	return nil
}
