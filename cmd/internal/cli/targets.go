package cli

import (
	"github.com/spf13/cobra"

	"ustack/symbolize/v8"
)

// TargetsUse is what stands after the name of a command that has Targets.
const TargetsUse = "[flags] {-p PID | --comm NAME | --cgroup PATH | --all | -- COMMAND [ARG...]}"

// Targets are the processes that a command is told to look at, in one of these
// ways.
type Targets struct {
	PIDs    PIDs
	Comm    string
	Cgroup  string
	All     bool
	Command []string // after "--"
	Default string   // Comm where nothing is chosen; empty if something must be

	verb string
}

// Register gives cmd the flags and arguments that choose processes, and the check
// that they do so in one way. The verb says what is done to them: "profile".
func (t *Targets) Register(cmd *cobra.Command, verb string) {
	t.verb = verb
	flags := cmd.Flags()
	flags.VarP(&t.PIDs, "pid", "p", verb+" these running processes")
	flags.StringVar(&t.Comm, "comm", "", verb+" every process of this `NAME`, new ones too")
	flags.StringVar(&t.Cgroup, "cgroup", "", verb+" every process in this control group's `PATH`, new ones too")
	flags.BoolVar(&t.All, "all", false, verb+" every process that holds V8, new ones too")
	cmd.Args = t.take
}

// take takes the command in and checks all.
func (t *Targets) take(cmd *cobra.Command, args []string) error {
	if len(args) > 0 && cmd.ArgsLenAtDash() != 0 {
		return Usagef("stray argument %q (name a process by -p PID, start a command by -- COMMAND)", args[0])
	}
	t.Command = args
	ways := 0
	for _, chosen := range []bool{len(t.PIDs) > 0, t.Comm != "", t.Cgroup != "", t.All, len(t.Command) > 0} {
		if chosen {
			ways++
		}
	}
	switch {
	case ways == 0 && t.Default != "":
		t.Comm = t.Default
	case ways == 0:
		return Usagef("nothing to %s (name a process: -p PID, --comm NAME, --cgroup PATH, --all, or -- COMMAND)", t.verb)
	case ways > 1:
		return Usagef("give only one of -p, --comm, --cgroup, --all and a command")
	}
	return nil
}

// String names the processes in a sentence: "4242,4243", "every node".
func (t *Targets) String() string {
	switch {
	case len(t.PIDs) > 0:
		return t.PIDs.String()
	case t.Comm != "":
		return "every " + t.Comm
	case t.Cgroup != "":
		return "every process of " + t.Cgroup
	case t.All:
		return "every process with V8"
	}
	return "the command"
}

// Messages returns cmd's messages. That a process has no V8 is held back in them
// where a command is started: it may be a shell, say, and start what has. Release
// them if nothing did.
func (t *Targets) Messages(cmd *cobra.Command) *Messages {
	m := NewMessages(cmd)
	if len(t.Command) > 0 {
		m.Hold(v8.ErrNotV8)
	}
	return m
}
