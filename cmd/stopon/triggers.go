package main

import (
	"math"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"ustack/bpf"
	"ustack/cmd/internal/cli"
	"ustack/tools/stopon"
)

// anyClass is the value of --throw without a class: it matches any class.
const anyClass = "*"

// joinClass returns the arguments with the optional class after --throw joined
// to it as its value: pflag accepts an optional value only after "=".
func joinClass(args []string) (joined []string) {
	for i := 0; i < len(args); i++ {
		if args[i] == "--" {
			return append(joined, args[i:]...)
		}
		joined = append(joined, args[i])
		if args[i] == "--throw" && i+1 < len(args) && !strings.HasPrefix(args[i+1], "-") {
			i++
			joined[len(joined)-1] += "=" + args[i]
		}
	}
	return joined
}

// triggers are the flags that say what to wait for, as they were given.
type triggers struct {
	syscalls, signals, errnos     []string
	functions, results, arguments []string
	exit, fd                      string
	returns                       bool
	stall, slower                 cli.Duration
}

// apply sets options from the flags.
func (t *triggers) apply(o *stopon.Options) error {
	o.Syscalls, o.Stall, o.Slower = t.syscalls, time.Duration(t.stall), time.Duration(t.slower)
	if t.returns && len(t.functions) == 0 {
		return cli.Usagef("--return is of functions (name one: --func OBJECT:SYMBOL)")
	}
	for _, text := range t.functions {
		object, symbol, found := strings.Cut(text, ":")
		if !found || strings.HasPrefix(symbol, ":") { // C++: ns::f
			object, symbol = "", text
		}
		if symbol == "" {
			return cli.Usagef("--func %s: no function (write OBJECT:SYMBOL)", text)
		}
		o.Functions = append(o.Functions, stopon.Function{Object: object, Symbol: symbol, Return: t.returns})
	}
	for _, text := range t.signals {
		s, ok := parseSignal(text)
		if !ok {
			return cli.Usagef("--signal %s: no such signal", text)
		}
		o.Signals = append(o.Signals, s)
	}
	for _, text := range t.errnos {
		e, ok := parseErrno(text)
		if !ok {
			return cli.Usagef("--errno %s: no such error", text)
		}
		o.Errnos = append(o.Errnos, e)
	}
	return t.applyConditions(o)
}

func (t *triggers) applyConditions(o *stopon.Options) error {
	if t.exit != "" {
		c, ok := parseComparison(t.exit)
		switch {
		case t.exit == "any":
			c = stopon.Comparison{Is: bpf.StoponComparisonGREATER_OR_EQUAL, Value: math.MinInt64}
		case !ok:
			return cli.Usagef("--exit %s: not a status (such as 1, '!=0' or any)", t.exit)
		}
		o.Exit = &c
	}
	for _, text := range t.results {
		c, ok := parseComparison(text)
		if !ok {
			return cli.Usagef("--ret %s: not a comparison (such as '<0' or 0)", text)
		}
		o.Conditions = append(o.Conditions, stopon.Condition{Of: stopon.OfResult, Comparison: c})
	}
	for _, text := range t.arguments {
		at := strings.IndexAny(text, " <>=!")
		if at < 0 {
			at = len(text)
		}
		i, err := strconv.ParseUint(text[:at], 10, 8)
		c, ok := parseComparison(text[at:])
		if err != nil || i > 5 || !ok {
			return cli.Usagef("--arg %q: not an argument from 0 to 5 and a comparison (such as '2 >4096')", text)
		}
		o.Conditions = append(o.Conditions, stopon.Condition{Of: uint32(i), Comparison: c})
	}
	if t.fd != "" {
		c, ok := parseComparison(t.fd)
		if !ok {
			return cli.Usagef("--fd %s: not a file descriptor (such as 3 or '>2')", t.fd)
		}
		o.Conditions = append(o.Conditions, stopon.Condition{Of: stopon.OfDescriptor, Comparison: c})
	}
	return nil
}

// comparisons by their signs; a sign comes before any that is a prefix of it.
var comparisons = []struct {
	sign string
	is   bpf.StoponComparison
}{
	{"==", bpf.StoponComparisonEQUAL},
	{"!=", bpf.StoponComparisonNOT_EQUAL},
	{"<=", bpf.StoponComparisonLESS_OR_EQUAL},
	{">=", bpf.StoponComparisonGREATER_OR_EQUAL},
	{"<", bpf.StoponComparisonLESS},
	{">", bpf.StoponComparisonGREATER},
	{"=", bpf.StoponComparisonEQUAL},
}

// parseComparison parses "<0", ">= 0x1000", "==3" or "3".
func parseComparison(text string) (stopon.Comparison, bool) {
	text = strings.TrimSpace(text)
	c := stopon.Comparison{Is: bpf.StoponComparisonEQUAL}
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

// parseSignal parses "SIGTERM", "term" or "15".
func parseSignal(text string) (unix.Signal, bool) {
	if n, err := strconv.Atoi(text); err == nil {
		return unix.Signal(n), n >= 1 && n <= 64
	}
	name := strings.ToUpper(text)
	if !strings.HasPrefix(name, "SIG") {
		name = "SIG" + name
	}
	s := unix.SignalNum(name)
	return s, s != 0
}

// signalNames returns the names of all signals that have one.
func signalNames() []string {
	var names []string
	for s := unix.Signal(1); s < 32; s++ {
		names = append(names, unix.SignalName(s))
	}
	return names
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
