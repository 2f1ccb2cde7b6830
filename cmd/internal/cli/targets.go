package cli

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"ustack/symbolize/v8"
	"ustack/tools/check"
	"ustack/tools/trace"
)

// TargetsUse is the usage text after the name of a command that has Targets.
const TargetsUse = "[flags] {-p PID | --comm NAME | --cgroup PATH | --container NAME | --all | -- COMMAND [ARG...]}"

// Targets are the processes that a command selects, in one of these ways.
type Targets struct {
	trace.Selection        // Command is what follows "--"
	Default         string // Comm if nothing is selected; empty if something must be

	verb   string
	status ExitStatus // of Command
}

// Selected returns the selection for a run in which Command writes to stdout, or to
// this process's standard output if that is nil, and whose status Status returns.
func (t *Targets) Selected(stdout *os.File) trace.Selection {
	s := t.Selection
	s.Stdout = stdout
	s.Exited = func(status int) { t.status = ExitStatus(status) }
	return s
}

// Status returns the status of Command as an error; nil if it is 0 or if
// Command is still running.
func (t *Targets) Status() error {
	if t.status == 0 {
		return nil
	}
	return t.status
}

// Register gives cmd the flags and arguments that select processes, and a check
// that exactly one way is used. The verb says what is done to them: "profile".
func (t *Targets) Register(cmd *cobra.Command, verb string) {
	t.verb = verb
	flags := cmd.Flags()
	flags.VarP((*PIDs)(&t.PIDs), "pid", "p", verb+" these running processes")
	flags.StringVar(&t.Comm, "comm", "", verb+" every process of this `NAME`, new ones too")
	flags.StringVar(&t.Cgroup, "cgroup", "", verb+" every process in the control group at `PATH`, new ones too")
	flags.StringVar(&t.Container, "container", "", verb+" every process of the container of this `NAME` or ID, new ones too")
	flags.BoolVar(&t.All, "all", false, verb+" every process that contains V8, new ones too")
	cmd.Args = t.take
}

// take stores the command and checks everything.
func (t *Targets) take(cmd *cobra.Command, args []string) error {
	if len(args) > 0 && cmd.ArgsLenAtDash() != 0 {
		return Usagef("stray argument %q (name a process by -p PID, start a command by -- COMMAND)", args[0])
	}
	t.Command = args
	switch err := t.Check(); {
	case errors.Is(err, trace.ErrNoSelection) && t.Default != "":
		t.Comm = t.Default
	case errors.Is(err, trace.ErrNoSelection):
		return Usagef("nothing to %s (name a process: -p PID, --comm NAME, --cgroup PATH, --container NAME, --all, or -- COMMAND)", t.verb)
	case err != nil:
		return Usagef("%v", err)
	}
	return nil
}

// String describes the processes within a sentence: "4242,4243", "every node".
func (t *Targets) String() string {
	switch {
	case len(t.PIDs) > 0:
		return (*PIDs)(&t.PIDs).String()
	case t.Comm != "":
		return "every " + t.Comm
	case t.Cgroup != "":
		return "every process of " + t.Cgroup
	case t.Container != "":
		return "every process of container " + t.Container
	case t.All:
		return "every process with V8"
	}
	return "the command"
}

// Permitted returns an error that names the missing capability, if one needed
// to run programs in the kernel or to read the processes is missing.
func (t *Targets) Permitted(cmd *cobra.Command) error {
	needed := []check.Capability{check.BPF, check.Perfmon}
	if len(t.PIDs) == 0 && len(t.Command) == 0 {
		needed = append(needed, check.Ptrace) // of any user
	}
	err := check.Capabilities(needed...)
	for _, pid := range t.PIDs {
		if err == nil {
			err = check.Process(pid, check.Read)
		}
	}
	return SeeCheck(cmd, err)
}

// SeeCheck adds a reference to --check to an error about something missing.
func SeeCheck(cmd *cobra.Command, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w; see %s --check", err, cmd.Name())
}

// Messages returns cmd's messages. If a command is started, they hold back the
// warning that a process has no V8: the command may be a shell, say, that
// starts a process with V8. Release them if no process had V8.
func (t *Targets) Messages(cmd *cobra.Command) *Messages {
	m := NewMessages(cmd)
	if len(t.Command) > 0 {
		m.Hold(v8.ErrNotV8)
	}
	return m
}
