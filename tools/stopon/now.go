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
	if s.stopped.Map, err = loader.NewMap(spec.Maps["stopped"]); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.stopped.Close()) }()
	if err := s.startSupervisor(); err != nil {
		return nil, err
	}
	defer func() {
		err = errors.Join(err, s.stopped.releaseAfter(everything), s.lifelines.cutAll(), s.supervisor.close())
	}()
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

// actNow acts on a process, which is stopped first if an action needs that.
func (s *session) actNow(ctx context.Context, pid int) error {
	comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil {
		return fmt.Errorf("find process %d: %w", pid, unix.ESRCH)
	}
	h := &Hit{
		Time: time.Now(), PID: pid, TID: pid, Comm: strings.TrimSuffix(string(comm), "\n"),
		Trigger: "now", Event: "asked for",
	}
	f := readFacts(pid)
	h.Command, h.Directory, h.Inside = f.command, f.directory, f.inside
	if s.o.stops() {
		if err := s.lifelines.tie(pid); err != nil {
			return err
		}
		if err := s.stopped.stop(pid); err != nil {
			return err
		}
		h.Raised = unix.SIGSTOP
	}
	return s.act(ctx, h)
}

// stops reports whether the process is to be left stopped. Taking a core stops
// the threads without that.
func (o *Options) stops() bool {
	return len(o.Actions) > 0 && o.Actions[len(o.Actions)-1].Do == Stop
}
