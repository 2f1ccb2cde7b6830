package event

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"

	"ustack/loader"
)

// An Event is what a program of the kernel half runs at: one of its kinds is set.
type Event struct {
	Name       string        // as it was written
	Timer      *loader.Event // at a rate
	Perf       *loader.Event // at each, or at one in so many
	Hardware   *loader.Event // at a rate; each sample says how many it stands for
	Syscalls   []string      // when one of them returns
	Function   *Function
	USDT       *USDT
	Tracepoint *Tracepoint
}

// Timers are the events at which time is sampled, the usual one first.
var Timers = []loader.Event{loader.CPUClock, loader.Cycles}

// Prefixes of events that are not of perf.
const (
	syscallPrefix    = "syscall"
	functionPrefix   = "func"
	usdtPrefix       = "usdt"
	tracepointPrefix = "tracepoint"
)

// anySyscall stands for every system call.
const anySyscall = "*"

// returns is what follows a function that is seen when it returns.
const returns = ":return"

// Forms are the ways to write an event, for people.
func Forms() []string {
	var forms []string
	for _, e := range slices.Concat(Timers, loader.Counted, loader.Hardware) {
		forms = append(forms, e.Name)
	}
	return append(forms, syscallPrefix+":NAME[,...]", functionPrefix+":OBJECT:SYMBOL["+returns+"]",
		usdtPrefix+":OBJECT:PROVIDER:NAME", tracepointPrefix+":GROUP:NAME")
}

// Names are the events whose whole name is known.
func Names() []string {
	return slices.DeleteFunc(Forms(), func(form string) bool { return strings.Contains(form, ":") })
}

// Parse reads an event: the name of one of perf, "syscall:openat,open", "func:libc.so.6:malloc",
// "func:node:uv_fs_read:return", "usdt:libstdc++.so.6:libstdcxx:throw" or "tracepoint:sched:sched_switch".
func Parse(text string) (Event, error) {
	e := Event{Name: text}
	prefix, rest, found := strings.Cut(text, ":")
	var err error
	switch {
	case !found:
		err = e.parsePerf(text)
	case prefix == syscallPrefix:
		e.Syscalls, err = ParseSyscalls(rest)
	case prefix == functionPrefix:
		e.Function, err = parseFunction(rest)
	case prefix == usdtPrefix:
		e.USDT, err = parseUSDT(rest)
	case prefix == tracepointPrefix:
		e.Tracepoint, err = parseTracepoint(rest)
	default:
		err = errors.New(hint(prefix, []string{syscallPrefix, functionPrefix, usdtPrefix, tracepointPrefix}))
	}
	if err != nil {
		return Event{}, fmt.Errorf("event %q: %w", text, err)
	}
	return e, nil
}

// parsePerf sets the perf event of that name.
func (e *Event) parsePerf(name string) error {
	for _, kind := range []struct {
		all []loader.Event
		set **loader.Event
	}{{Timers, &e.Timer}, {loader.Counted, &e.Perf}, {loader.Hardware, &e.Hardware}} {
		if i := slices.IndexFunc(kind.all, func(known loader.Event) bool { return known.Name == name }); i >= 0 {
			*kind.set = &kind.all[i]
			return nil
		}
	}
	if syscalls()[name] != nil {
		return fmt.Errorf("no such event (the system call is %s:%s)", syscallPrefix, name)
	}
	return errors.New(hint(name, Names()))
}

// ParseSyscalls reads names of system calls, separated by commas; "*" stands for all of them.
func ParseSyscalls(text string) ([]string, error) {
	if text == anySyscall {
		return Syscalls(), nil
	}
	names := strings.Split(text, ",")
	for _, name := range names {
		if syscalls()[name] == nil {
			return nil, fmt.Errorf("no system call %q%s", name, near(name, Syscalls()))
		}
	}
	return names, nil
}

// parseFunction reads "[OBJECT:]SYMBOL[:return]".
func parseFunction(text string) (*Function, error) {
	text, isReturn := strings.CutSuffix(text, returns)
	f := ParseFunction(text)
	if f.Symbol == "" {
		return nil, errors.New("no function (write func:OBJECT:SYMBOL)")
	}
	f.Return = isReturn
	return &f, nil
}

// ParseFunction reads "[OBJECT:]SYMBOL"; the symbol is empty if text has none.
func ParseFunction(text string) Function {
	object, symbol, found := strings.Cut(text, ":")
	if !found || strings.HasPrefix(symbol, ":") { // C++: ns::f
		object, symbol = "", text
	}
	return Function{Object: object, Symbol: symbol}
}

// hint says that there is no such event, and what there is instead.
func hint(name string, known []string) string {
	if suggestions := near(name, known); suggestions != "" {
		return "no such event" + suggestions
	}
	return "no such event (there are " + strings.Join(Forms(), ", ") + ")"
}

// maxSuggestions is how many names near returns.
const maxSuggestions = 3

// near returns " (did you mean a or b?)" with the names that resemble name, "" if none does.
func near(name string, known []string) string {
	type candidate struct {
		name     string
		distance int
	}
	var all []candidate
	lower := strings.ToLower(name)
	for _, k := range known {
		d := levenshtein.ComputeDistance(lower, strings.ToLower(k))
		if name != "" && strings.Contains(strings.ToLower(k), lower) {
			d = min(d, 1)
		}
		if 3*d <= max(len(name), 3) {
			all = append(all, candidate{k, d})
		}
	}
	slices.SortFunc(all, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.distance, b.distance), cmp.Compare(len(a.name), len(b.name)), cmp.Compare(a.name, b.name))
	})
	var names []string
	for _, c := range all[:min(len(all), maxSuggestions)] {
		names = append(names, c.name)
	}
	if len(names) == 0 {
		return ""
	}
	return " (did you mean " + strings.Join(names, " or ") + "?)"
}

// KindsOf returns what conditions can be about if these are the events.
func KindsOf(events []Event) (k Kinds) {
	for _, e := range events {
		k.Syscalls = k.Syscalls || len(e.Syscalls) > 0
		k.Returns = k.Returns || e.Function != nil && e.Function.Return
		k.Arguments = k.Arguments || e.Function != nil || e.USDT != nil || e.Tracepoint != nil
	}
	return k
}
