package main

import (
	"math"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"ustack/bpf"
	"ustack/cmd/internal/cli"
	"ustack/tools/event"
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
	syscalls, signals, functions, usdts []string
	conditions                          cli.Conditions
	exit                                string
	returns                             bool
	stall                               cli.Duration
}

// apply sets options from the flags.
func (t *triggers) apply(o *stopon.Options) error {
	o.Syscalls, o.Stall = t.syscalls, time.Duration(t.stall)
	if t.returns && len(t.functions) == 0 {
		return cli.Usagef("--return is of functions (name one: --func OBJECT:SYMBOL)")
	}
	for _, text := range t.functions {
		f := event.ParseFunction(text)
		if f.Symbol == "" {
			return cli.Usagef("--func %s: no function (write OBJECT:SYMBOL)", text)
		}
		f.Return = t.returns
		o.Functions = append(o.Functions, f)
	}
	for _, text := range t.usdts {
		u, ok := event.ParseUSDT(text)
		if !ok {
			return cli.Usagef("--usdt %s: not a static probe (write PROVIDER:NAME)", text)
		}
		o.USDTs = append(o.USDTs, u)
	}
	for _, text := range t.signals {
		s, ok := parseSignal(text)
		if !ok {
			return cli.Usagef("--signal %s: no such signal", text)
		}
		o.Signals = append(o.Signals, s)
	}
	if err := t.applyExit(o); err != nil {
		return err
	}
	p, err := t.conditions.Predicate()
	o.Errnos, o.Conditions, o.Path, o.Slower = p.Errnos, p.Conditions, p.Path, p.Slower
	return err
}

func (t *triggers) applyExit(o *stopon.Options) error {
	if t.exit == "" {
		return nil
	}
	c, ok := cli.ParseComparison(t.exit)
	switch {
	case t.exit == "any":
		c = event.Comparison{Is: bpf.TraceComparisonGREATER_OR_EQUAL, Value: math.MinInt64}
	case !ok:
		return cli.Usagef("--exit %s: not a status (such as 1, '!=0' or any)", t.exit)
	}
	o.Exit = &c
	return nil
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
