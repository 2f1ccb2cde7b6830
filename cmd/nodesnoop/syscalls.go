package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ustack/cmd/internal/cli"
	"ustack/symbolize"
	"ustack/tools/event"
	"ustack/tools/printable"
	"ustack/tools/profile"
	"ustack/tools/syscalls"
)

// syscallsFlags are the flags of --syscalls.
type syscallsFlags struct {
	list    string // as it was given; "" if it was not
	names   []string
	strings int
}

// allSyscalls is the value of --syscalls without one.
const allSyscalls = "*"

func (f *syscallsFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.list, "syscalls", "", "show system calls in place of requests: all, or those of `LIST` such as connect,read,write")
	flags.Lookup("syscalls").NoOptDefVal = allSyscalls
	flags.IntVar(&f.strings, "strings", 0, fmt.Sprintf("with --syscalls, show the first `N` bytes of what is read and written (at most %d)", syscalls.MaxStrings))
}

func (f *syscallsFlags) given() bool { return f.list != "" }

// check reports flags that make no sense.
func (f *syscallsFlags) check(cmd *cobra.Command) (err error) {
	changed := cmd.Flags().Changed
	switch {
	case !f.given() && changed("syscalls"):
		return cli.Usagef("--syscalls: no names (leave out the = for all)")
	case !f.given() && changed("strings"):
		return cli.Usagef("--strings is for --syscalls")
	case f.strings < 0 || f.strings > syscalls.MaxStrings:
		return cli.Usagef("--strings: must be between 0 and %d", syscalls.MaxStrings)
	case !f.given():
		return nil
	}
	if err := onlyWith(cmd, "syscalls", "strings", "slower"); err != nil {
		return err
	}
	if f.names, err = syscalls.ParseNames(f.list); err != nil {
		return cli.Usagef("--syscalls: %v", err)
	}
	return nil
}

// general are the flags that are for every mode.
var general = []string{
	"pid", "comm", "cgroup", "container", "all", "duration", "count", "time", "json", "stacks",
	"source-maps", "no-source-maps", "maps", "check", "verbose", "help", "version", "completion",
}

// watchSyscalls shows system calls as they return.
func (f *flags) watchSyscalls(cmd *cobra.Command) error {
	messages := f.targets.Messages(cmd)
	l := newFeed(cmd.OutOrStdout(), f.count)
	o := syscalls.Options{
		Selection: f.targets.Selected(os.Stderr), Maps: f.maps.Options,
		Names: f.syscalls.names, Strings: f.syscalls.strings, Stacks: f.stacks, Slower: time.Duration(f.slower),
		Duration: time.Duration(f.duration), Stop: l.stop, Warn: messages.Warn, Tick: l.flush,
		Call: func(c syscalls.Call) { l.add(func(w io.Writer) error { return f.writeCall(w, &c) }) },
		Started: func() {
			f.rows.begin()
			messages.Started(f.duration, "Watching the system calls of %v.", &f.targets)
		},
	}
	counts, err := syscalls.Run(cmd.Context(), o)
	if err := cmp.Or(err, l.close()); err != nil {
		return err
	}
	if l.shown == 0 {
		messages.Release()
		messages.Notef("nothing to show: %s", f.none(counts.Seen))
	}
	messages.Failures(counts.Failures)
	return nil
}

// writeCall writes a call, in the form that was chosen.
func (f *flags) writeCall(w io.Writer, c *syscalls.Call) error {
	if f.json {
		return writeObject(w, callObject(c))
	}
	if !f.rows.headed {
		f.rows.headed = true
		if _, err := fmt.Fprintf(w, "%-*s %7s %7s CALL\n", f.rows.timeWidth(), "TIME", "PID", "THREAD"); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(w, "%s %7d %7d %s\n", f.rows.time(c.Time), c.PID, c.TID, printable.String(callText(c)))
	if err != nil {
		return err
	}
	return writeFrames(w, c.Frames)
}

// callText returns a call with its result: "close(fd=21) = 0 in 0.012ms".
func callText(c *syscalls.Call) string {
	text := c.Called()
	switch {
	case c.State == syscalls.Sleeping && c.Duration == 0:
		return text + " (sleeping...)"
	case c.State == syscalls.Sleeping:
		return fmt.Sprintf("%s (sleeping... for %s)", text, ms(c.Duration))
	case c.State == syscalls.Last:
		return text
	}
	text += " = " + c.Returned()
	if c.Duration > 0 {
		text += " in " + ms(c.Duration)
	}
	return text
}

// none says why no system call was shown of those that were seen.
func (f *flags) none(seen uint64) string {
	if seen > 0 && f.slower > 0 {
		return fmt.Sprintf("none of %d system calls took %v", seen, time.Duration(f.slower))
	}
	return fmt.Sprintf("%d system calls", seen)
}

// jsonCall is a system call as --json prints it.
type jsonCall struct {
	Time      string           `json:"time"`
	PID       int              `json:"pid"`
	Inside    int              `json:"namespace_pid,omitempty"` // if it is another
	Thread    int              `json:"thread"`
	Name      string           `json:"thread_name"`
	Syscall   string           `json:"syscall"`
	State     string           `json:"state"`
	Arguments []event.Argument `json:"arguments"`
	Result    *int64           `json:"result,omitempty"`
	Errno     string           `json:"errno,omitempty"`
	Duration  *int64           `json:"duration_ns,omitempty"`
	Path      string           `json:"path,omitempty"`
	PathCut   bool             `json:"path_cut,omitempty"`
	Address   string           `json:"address,omitempty"`
	Local     string           `json:"local,omitempty"`
	Peer      string           `json:"peer,omitempty"`
	Data      string           `json:"data,omitempty"`
	Stack     []string         `json:"stack,omitempty"`
}

// states are the words for the states of calls.
var states = map[syscalls.State]string{syscalls.Returned: "returned", syscalls.Sleeping: "sleeping", syscalls.Last: "last"}

func callObject(c *syscalls.Call) *jsonCall {
	o := &jsonCall{
		Time: c.Time.Format(time.RFC3339Nano), PID: c.PID, Inside: c.Inside, Thread: c.TID, Name: c.Thread,
		Syscall: c.Syscall.Name, State: states[c.State], Arguments: c.Arguments(),
		Path: c.Path, PathCut: c.PathCut, Address: c.Address, Data: c.Data, Stack: functions(c.Frames),
	}
	if c.Socket != nil {
		o.Local, o.Peer = c.Socket.Local, c.Socket.Peer
	}
	if c.State == syscalls.Returned {
		o.Result, o.Errno = &c.Result, c.ErrnoName()
	}
	if c.Duration > 0 {
		d := int64(c.Duration)
		o.Duration = &d
	}
	return o
}

// writeObject writes an object as a line of JSON.
func writeObject(w io.Writer, object any) error {
	text, err := json.Marshal(object)
	if err != nil {
		return err
	}
	_, err = w.Write(append(printable.JSON(text), '\n'))
	return err
}

// functions returns a stack's functions, innermost first.
func functions(frames []symbolize.Frame) (all []string) {
	for _, f := range frames {
		if f.Kind != symbolize.Typed {
			all = append(all, profile.Qualified(f))
		}
	}
	return all
}

func writeFrames(w io.Writer, frames []symbolize.Frame) error {
	for _, function := range functions(frames) {
		if _, err := fmt.Fprintf(w, "        at %s\n", printable.String(function)); err != nil {
			return err
		}
	}
	return nil
}

// onlyWith returns an error if a flag was given that is neither general nor one of those that
// are for the mode.
func onlyWith(cmd *cobra.Command, mode string, flags ...string) (err error) {
	allowed := make(map[string]bool)
	for _, name := range append(append(flags, mode), general...) {
		allowed[name] = true
	}
	cmd.Flags().Visit(func(flag *pflag.Flag) {
		if err == nil && !allowed[flag.Name] {
			err = cli.Usagef("--%s is not for --%s", flag.Name, mode)
		}
	})
	return err
}
