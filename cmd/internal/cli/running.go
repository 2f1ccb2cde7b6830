package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"ustack/symbolize/process"
	"ustack/tools/trace"
)

// RunningUse is the usage text for the flags of Running.
const RunningUse = "{-p PID | --container NAME}"

// Running are processes that run already: those with given numbers, or those of a container
// that hold V8.
type Running struct {
	PIDs      PIDs
	Container string

	single bool // only one process can be given
}

// Register gives cmd the flags that select the processes. The verb says what is done to
// them: "watch".
func (r *Running) Register(cmd *cobra.Command, verb string) {
	flags := cmd.Flags()
	flags.VarP(&r.PIDs, "pid", "p", verb+" these running processes")
	flags.StringVar(&r.Container, "container", "", verb+" the processes with V8 of the container of this `NAME` or ID")
}

// RegisterOne is Register for a command that takes one process only.
func (r *Running) RegisterOne(cmd *cobra.Command, verb string) {
	r.single = true
	flags := cmd.Flags()
	flags.VarP(&r.PIDs, "pid", "p", verb+" the running process `PID`")
	flags.StringVar(&r.Container, "container", "", verb+" the only process with V8 of the container of this `NAME` or ID")
}

// Given reports whether one of the flags was given.
func (r *Running) Given() bool { return len(r.PIDs) > 0 || r.Container != "" }

// Check returns an error about the flags if they make no sense.
func (r *Running) Check() error {
	switch {
	case !r.Given():
		return Usagef("no process given (name one by -p PID or --container NAME)")
	case len(r.PIDs) > 0 && r.Container != "":
		return Usagef("give only one of -p and --container")
	case len(r.PIDs) > 1 && r.single:
		return Usagef("give only one process, not -p %v", &r.PIDs)
	}
	return nil
}

// String returns the flags that select the processes.
func (r *Running) String() string {
	if r.Container != "" {
		return "--container " + r.Container
	}
	return "-p " + r.PIDs.String()
}

// Find returns the processes, at least one.
func (r *Running) Find() ([]int, error) {
	s := trace.Selection{PIDs: r.PIDs, Container: r.Container}
	return s.Running()
}

// One returns the only process. If there are several, the error lists them.
func (r *Running) One() (int, error) {
	pids, err := r.Find()
	if err != nil {
		return 0, err
	}
	if len(pids) > 1 {
		return 0, fmt.Errorf("container %s has %d processes with V8: %s (choose one: -p PID)", r.Container, len(pids), titles(pids))
	}
	return pids[0], nil
}

// maxTitles bounds the processes in a message.
const maxTitles = 20

// titles names processes for people.
func titles(pids []int) string {
	var words []string
	for _, pid := range pids[:min(len(pids), maxTitles)] {
		words = append(words, title(pid))
	}
	if more := len(pids) - len(words); more > 0 {
		words = append(words, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(words, ", ")
}

// title names a process as profiles do, or by its number alone if it has ended.
func title(pid int) string {
	p, err := process.Open(pid)
	if err != nil {
		return fmt.Sprint(pid)
	}
	defer p.Close()
	return p.Title()
}
