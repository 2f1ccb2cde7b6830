package cli

import (
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"ustack/bpf"
	"ustack/tools/event"
)

// Conditions are the flags that say which events count.
type Conditions struct {
	errnos    []string
	results   []string
	arguments []string
	fd        string
	path      string
	slower    Duration
}

// Register adds the flags to a set.
func (c *Conditions) Register(flags *pflag.FlagSet) {
	flags.StringSliceVar(&c.errnos, "errno", nil, "if the system call failed with `E`[,...]")
	flags.StringArrayVar(&c.results, "ret", nil, "if the result satisfies `CMP`: 3, '<0', '!=-1' ...")
	flags.StringArrayVar(&c.arguments, "arg", nil, "if an argument satisfies `'N CMP'`: '0 >4096' ...")
	flags.StringVar(&c.fd, "fd", "", "if the system call's file descriptor is `N`")
	flags.StringVar(&c.path, "path", "", "if the system call's path matches `GLOB`")
	flags.Var(&c.slower, "slower", "if the call took as long or longer")
}

// Given reports whether one of the flags was given to cmd.
func (c *Conditions) Given(cmd *cobra.Command) bool {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	new(Conditions).Register(flags)
	given := false
	flags.VisitAll(func(f *pflag.Flag) { given = given || cmd.Flags().Changed(f.Name) })
	return given
}

// Complete adds the completions of the flags' values to cmd.
func (c *Conditions) Complete(cmd *cobra.Command) { Choices(cmd, "errno", errnoNames()) }

// Predicate returns the conditions.
func (c *Conditions) Predicate() (p event.Predicate, err error) {
	p.Path, p.Slower = c.path, time.Duration(c.slower)
	for _, text := range c.errnos {
		e, ok := parseErrno(text)
		if !ok {
			return p, Usagef("--errno %s: no such error", text)
		}
		p.Errnos = append(p.Errnos, e)
	}
	for _, text := range c.results {
		is, ok := ParseComparison(text)
		if !ok {
			return p, Usagef("--ret %s: not a comparison (such as '<0' or 0)", text)
		}
		p.Conditions = append(p.Conditions, event.Condition{Of: event.OfResult, Comparison: is})
	}
	for _, text := range c.arguments {
		condition, ok := parseArgument(text)
		if !ok {
			return p, Usagef("--arg %q: not an argument from 0 to 5 and a comparison (such as '2 >4096')", text)
		}
		p.Conditions = append(p.Conditions, condition)
	}
	if c.fd != "" {
		is, ok := ParseComparison(c.fd)
		if !ok {
			return p, Usagef("--fd %s: not a file descriptor (such as 3 or '>2')", c.fd)
		}
		p.Conditions = append(p.Conditions, event.Condition{Of: event.OfDescriptor, Comparison: is})
	}
	return p, nil
}

// parseArgument parses "2 >4096".
func parseArgument(text string) (event.Condition, bool) {
	at := strings.IndexAny(text, " <>=!")
	if at < 0 {
		at = len(text)
	}
	const last = 5
	i, err := strconv.ParseUint(text[:at], 10, 8)
	is, ok := ParseComparison(text[at:])
	return event.Condition{Of: uint32(i), Comparison: is}, err == nil && i <= last && ok
}

// comparisons by their signs; a sign comes before any that is a prefix of it.
var comparisons = []struct {
	sign string
	is   bpf.TraceComparison
}{
	{"==", bpf.TraceComparisonEQUAL},
	{"!=", bpf.TraceComparisonNOT_EQUAL},
	{"<=", bpf.TraceComparisonLESS_OR_EQUAL},
	{">=", bpf.TraceComparisonGREATER_OR_EQUAL},
	{"<", bpf.TraceComparisonLESS},
	{">", bpf.TraceComparisonGREATER},
	{"=", bpf.TraceComparisonEQUAL},
}

// ParseComparison parses "<0", ">= 0x1000", "==3" or "3".
func ParseComparison(text string) (event.Comparison, bool) {
	text = strings.TrimSpace(text)
	c := event.Comparison{Is: bpf.TraceComparisonEQUAL}
	for _, is := range comparisons {
		if rest, ok := strings.CutPrefix(text, is.sign); ok {
			c.Is, text = is.is, rest
			break
		}
	}
	value, err := strconv.ParseInt(strings.TrimSpace(text), 0, 64)
	c.Value = value
	return c, err == nil
}

const lastErrno = 133 // EHWPOISON, include/uapi/asm-generic/errno.h

// errnoNames returns the names of the errors that system calls return.
func errnoNames() []string {
	var names []string
	for e := unix.Errno(1); e <= lastErrno; e++ {
		if name := unix.ErrnoName(e); name != "" {
			names = append(names, name)
		}
	}
	return names
}

// parseErrno parses "EBADF", "ebadf" or "9".
func parseErrno(text string) (unix.Errno, bool) {
	if n, err := strconv.Atoi(text); err == nil {
		return unix.Errno(n), n >= 1 && n <= lastErrno
	}
	for e := unix.Errno(1); e <= lastErrno; e++ {
		if name := unix.ErrnoName(e); name != "" && name == strings.ToUpper(text) { // some have no name
			return e, true
		}
	}
	return 0, false
}
