// Package stopon acts on running processes at the very moment that something
// happens in them: a system call fails in a certain way, a function returns a
// certain value, the event loop stalls. The kernel evaluates the conditions,
// takes the stack, with JavaScript names, and stops or signals the process
// before its next instruction.
package stopon

import (
	"cmp"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"ustack/bpf"
	"ustack/tools/event"
	"ustack/tools/sourcemaps"
	"ustack/tools/trace"
)

// Options say which processes to watch, what to wait for and what to do then. One
// trigger is needed.
type Options struct {
	trace.Selection
	Maps sourcemaps.Options

	// Triggers: any of them.
	Syscalls  []string // by name
	Functions []event.Function
	USDTs     []event.USDT      // static probes
	Signals   []unix.Signal     // delivered to the process
	Exit      *event.Comparison // of the status with which the process is about to exit
	Throw     string            // class of an exception that JavaScript or V8 throws, caught or not; a pattern like JS
	Uncaught  bool              // an exception that no JavaScript has caught
	Stall     time.Duration     // time since an event loop last polled; 0: none
	// JS is the name of a JavaScript function on the stack, as stacks show it;
	// * stands for any text, ? for one byte. With other triggers it is a
	// condition on them; alone, it has running processes sampled.
	JS string

	// Conditions on triggers: all that apply must hold.
	Errnos     []unix.Errno      // of system calls: any of them
	Conditions []event.Condition // of system calls, functions and static probes
	Path       string            // of system calls: a pattern like JS
	Written    string            // of system calls that write: part of what was written
	Slower     time.Duration     // of system calls and functions that return: they took this long or longer

	Nth      uint64        // the first match to act on, from 1; 1 if zero
	Count    uint64        // how many times to act; no limit if zero
	Interval time.Duration // within it, act Burst times at most; 0: no limit
	Burst    int           // 1024 at most; 1 if zero
	Duration time.Duration // if zero, until the context or the targets end
	Timeout  time.Duration // end after this long if nothing has been seen; 0: never
	Rest     bool          // act on all that the kernel has recorded, also when the run ends early
	Kernel   bool          // include the kernel's frames

	Actions []Action
	MaxStop time.Duration // longest time for which a process is held for actions; 10 s if zero

	Started func()              // called once everything is attached; may be nil
	Report  func(*Hit) error    // called with each hit, before the actions
	Acted   func(*Hit, *Action) // called after each action; may be nil
	Done    func(*Hit) error    // called after the last action; may be nil
	// Ended is called when a stall that was reported is over, with a Hit that
	// has its number and whole length but no stack; may be nil.
	Ended func(*Hit) error
	// Progress of a core, in bytes; may be nil.
	Progress func(hit *Hit, done, total uint64)
	Warn     func(error) // called with whatever keeps something from being seen; may be nil

	preempted bool // as if threads could be preempted in the programs, for tests
}

// MaxBurst is the greatest Burst.
const MaxBurst = int(bpf.TraceHitLimitMAX_BURST)

const defaultMaxStop = 10 * time.Second

// withDefaults returns the options with zero values replaced by defaults, or an
// error that says what is wrong with them.
func (o Options) withDefaults() (Options, error) {
	if o.Nth == 0 {
		o.Nth = 1
	}
	o.Burst = min(max(o.Burst, 1), MaxBurst)
	if o.MaxStop == 0 {
		o.MaxStop = defaultMaxStop
	}
	if o.Written != "" && len(o.Syscalls) == 0 {
		o.Syscalls = event.Writing()
	}
	return o, errors.Join(o.checkTriggers(), o.checkConditions(), o.checkActions())
}

// Check returns an error if the options make no sense.
func (o Options) Check() error {
	_, err := o.withDefaults()
	return err
}

// samples reports whether running threads are sampled.
func (o *Options) samples() bool {
	others := len(o.Syscalls)+len(o.Functions)+len(o.USDTs)+len(o.Signals) > 0 || o.Exit != nil || o.throws()
	return o.Stall > 0 || o.JS != "" && !others
}

// throws reports whether exceptions are watched as they are thrown.
func (o *Options) throws() bool { return o.Throw != "" || o.Uncaught }

func (o *Options) hasReturns() bool {
	return slices.ContainsFunc(o.Functions, func(f event.Function) bool { return f.Return })
}

func (o *Options) checkTriggers() error {
	if len(o.Syscalls) == 0 && len(o.Functions) == 0 && len(o.USDTs) == 0 && len(o.Signals) == 0 && o.Exit == nil && o.Stall == 0 && o.JS == "" && !o.throws() {
		return errors.New("nothing to wait for (name a system call, a function, a static probe, a signal, an exit status, an exception, a stall or a JavaScript function)")
	}
	for _, name := range o.Syscalls {
		if event.SyscallNamed(name) == nil {
			return fmt.Errorf("no system call %q", name)
		}
	}
	for _, s := range o.Signals {
		if s < 1 || s > 64 {
			return fmt.Errorf("no signal %d", int(s))
		}
	}
	return nil
}

func (o *Options) checkConditions() error {
	p := o.predicate()
	err := p.Check(event.Kinds{Syscalls: len(o.Syscalls) > 0, Arguments: len(o.Functions)+len(o.USDTs) > 0, Returns: o.hasReturns()})
	return cmp.Or(err, event.CheckPatterns(o.Throw))
}

// predicate returns the conditions that the kernel half checks.
func (o *Options) predicate() *event.Predicate {
	return &event.Predicate{Errnos: o.Errnos, Conditions: o.Conditions, Path: o.Path, Written: o.Written, Slower: o.Slower, JS: o.JS}
}

// raised is the signal that the kernel sends with a hit: the one that the first
// action to need a signal needs; 0 for none.
func (o *Options) raised() unix.Signal {
	for _, a := range o.Actions {
		switch {
		case a.holds():
			return unix.SIGSTOP
		case a.Do == Kill:
			return a.Signal
		}
	}
	return 0
}

// remaining is how many more times the kernel is to act.
func (o *Options) remaining() int64 {
	if o.Count == 0 || bits.Len64(o.Count) > 62 {
		return 1 << 62
	}
	return int64(o.Count)
}
