package main

import (
	"context"
	"errors"

	"github.com/spf13/pflag"

	"ustack/symbolize/v8/stack"
	"ustack/tools/jscore"
)

// stackCommands show what the program was doing.
func stackCommands() registry {
	return registry{
		{
			name: "status", short: "show what happened: the reason, versions, threads, heap and stack",
			bind: plain(once(func(_ context.Context, v *invocation) (*jscore.Status, error) {
				status := v.dump.Status()
				if v.objects != nil {
					status.Doubts = &v.objects.Doubts
				}
				return status, nil
			})),
		},
		jsstack(),
		jsframe(),
		stackCommand("$c", "print a thread's stack with V8's own frames"),
		stackCommand("$C", "print a thread's stack with V8's own frames and all addresses"),
		walk(),
		walkersCommand(),
		{
			name: "suspended", usage: "[-v] [-n LINES]", short: "list where generators and async functions wait",
			long: `With -v, the variables are those of the first one at each place. Of functions
that may have been optimized, only parameters and what closures share is known.`,
			example: "  suspended -v",
			bind: func(flags *pflag.FlagSet) run {
				var o jscore.StackOptions
				verboseFlags(flags, &o)
				return inGraph(func(_ context.Context, v *invocation, g *jscore.Graph) (*jscore.Suspended, error) {
					return v.dump.WaitingText(g, o), nil
				})
			},
		},
	}
}

func jsstack() *command {
	return &command{
		name: "jsstack", usage: "[-av] [--tier] [-n LINES] [-f NAME] [-p PROPERTY] [-t TID | -A]",
		short: "print a thread's stack: JavaScript and native frames",
		long: `The line of a JavaScript frame is the executing one. A pipeline continues with
the functions, with -p with the values.`,
		example: "  jsstack -v\n  jsstack -p request | jsprint url\n  jsstack -f handle | jssource\n  jsstack -A",
		bind: func(flags *pflag.FlagSet) run {
			var o jscore.StackOptions
			flags.BoolVarP(&o.All, "all", "a", false, "print V8's own frames too, and frame pointers and addresses")
			verboseFlags(flags, &o)
			flags.BoolVar(&o.Tiers, "tier", false, "print the tier of each JavaScript function, such as turbofan")
			property := filterFlags(flags, &o)
			tid := flags.IntP("thread", "t", 0, "print the stack of the thread `TID`")
			everyone := flags.BoolP("all-threads", "A", false, "print the stacks of all threads")
			return withProperty(property, &o, func(_ context.Context, v *invocation) error {
				o.Calls = *property != ""
				if *everyone {
					return v.emitProperty(v.dump.JSStacks(o), *property)
				}
				thread, err := v.thread(*tid)
				if err != nil {
					return err
				}
				stack := v.dump.JSStack(thread, o)
				if *property != "" {
					return v.emitProperty(jscore.StackList{stack}, *property)
				}
				return v.emit(stack)
			})
		},
	}
}

func verboseFlags(flags *pflag.FlagSet, o *jscore.StackOptions) {
	flags.BoolVarP(&o.Verbose, "verbose", "v", false, "print arguments and source")
	flags.IntVarP(&o.Lines, "lines", "n", 5, "with -v, print so many `LINES` before and after the one that runs")
}

// thread returns the thread with that TID, or the first one for 0.
func (v *invocation) thread(tid int) (stack.Thread, error) {
	if first, ok := v.dump.FirstThread(); ok && tid == 0 {
		return first, nil
	}
	for _, t := range v.dump.Threads() {
		if t.TID == tid {
			return t, nil
		}
	}
	return stack.Thread{}, errors.New("no such thread")
}
