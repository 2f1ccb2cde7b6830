package main

import (
	"context"
	"errors"
	"io"

	"github.com/spf13/pflag"

	"ustack/cmd/internal/cli"
	"ustack/symbolize/v8"
	"ustack/tools/jscore"
	"ustack/tools/outfile"
)

// heapCommands search the whole heap.
func heapCommands() registry {
	return registry{
		findjsobjects(),
		jsfindrefs(),
		{
			name: "jsroots", usage: "ADDR...", input: required,
			short: "say what keeps objects alive: the way from a root",
			bind: plain(eachInGraph(func(ctx context.Context, g *jscore.Graph, value v8.Value) (*jscore.Path, error) {
				return g.Path(ctx, value)
			})),
		},
		leaks(),
		jsretained(),
		jsfunctions(),
		stringsCommand(),
		diff(),
		{
			name: "ugrep", usage: "ADDR...", input: required,
			short: "find words of memory that refer to addresses, V8's or not",
			bind: plain(each(func(ctx context.Context, v *invocation, address v8.Value) (*jscore.Places, error) {
				return v.dump.Ugrep(ctx, address)
			})),
		},
		{
			name: "export", usage: "FILE", args: 1,
			short:   "write the live objects as a heap snapshot for Chrome DevTools",
			example: "  export leaky.heapsnapshot",
			bind:    plain(export),
		},
	}
}

// export writes a heap snapshot.
func export(ctx context.Context, v *invocation) (err error) {
	if err := v.needs("a file"); err != nil {
		return err
	}
	defer func() {
		if err != nil && ctx.Err() != nil {
			v.messages.Notef("%s was not written", v.args[0])
		}
	}()
	file, err := outfile.Open(v.args[0], outfile.Options{Private: true}) // contains all strings of the program
	if err != nil {
		return err
	}
	defer file.Close()
	g, err := v.graph(ctx)
	if err != nil {
		return err
	}
	v.messages.Progressf("writing %s", v.args[0])
	defer v.messages.Clear()
	var result *jscore.Exported
	err = file.Write(func(w io.Writer) (err error) {
		result, err = g.Export(ctx, w)
		return err
	})
	if err != nil {
		return err
	}
	v.messages.Clear()
	return v.emit(result)
}

func leaks() *command {
	return &command{
		name: "leaks", usage: "[-n COUNT] [-L LISTENERS]",
		short: "suspect what may grow: classes, collections, closures, listeners",
		bind: func(flags *pflag.FlagSet) run {
			var o jscore.LeakOptions
			flags.IntVarP(&o.Limit, "number", "n", 0, "show at most `COUNT` suspects of each kind (default 10)")
			flags.IntVarP(&o.Listeners, "listeners", "L", 0, "suspect an event with `LISTENERS` or more (default 11)")
			return once(func(ctx context.Context, v *invocation) (*jscore.Leaks, error) {
				d, err := v.dominated(ctx)
				if err != nil {
					return nil, err
				}
				return d.Leaks(ctx, o), nil
			})
		},
	}
}

func jsretained() *command {
	return &command{
		name: "jsretained", usage: "[-n COUNT] [-c CLASS] [ADDR...]", input: optional,
		short: "show what keeps most memory alive",
		long: `RETAINED is how many bytes would be free without the object: its own, and those
of all that is reached only through it. With addresses, only these are shown.`,
		example: "  jsretained\n  findjsobjects -c Server | jsretained",
		bind: func(flags *pflag.FlagSet) run {
			count := flags.IntP("number", "n", 20, "show so many objects")
			var o jscore.CensusOptions
			flags.StringVarP(&o.Class, "class", "c", "", "show objects of this `CLASS` only")
			return func(ctx context.Context, v *invocation) error {
				d, err := v.dominated(ctx)
				switch {
				case err != nil:
					return err
				case len(v.inputs) > 0 || v.piped:
					return eachObject(func(_ *invocation, _ *v8.Heap, value v8.Value) (*jscore.Retainers, error) {
						return d.RetainedBy(value)
					})(ctx, v)
				case *count < 1:
					return cli.Usagef("-n %d is not above 0", *count)
				}
				retainers := d.Retainers(ctx, o, *count)
				return v.emitKnown(ctx, retainers, len(retainers.Objects), o)
			}
		},
	}
}

func jsfindrefs() *command {
	return &command{
		name: "jsfindrefs", usage: "[-dv] [-l DEPTH] [-n COUNT] ADDR...", input: required,
		short: "show what refers to objects",
		long: `Properties, elements, closures' variables, entries of collections and what V8
keeps for itself are named. A pipeline continues with what refers.`,
		example: "  jsfindrefs 1f3c9\n  jsfindrefs -l 4 1f3c9\n  1f3c9::jsfindrefs | jsprint",
		bind: func(flags *pflag.FlagSet) run {
			var o jscore.RefOptions
			flags.IntVarP(&o.Depth, "levels", "l", 1, "follow references `DEPTH` levels up")
			flags.IntVarP(&o.Limit, "number", "n", 0, "show at most `COUNT` references to one object (default 100)")
			flags.BoolVar(&o.Live, "live", false, "show references by live objects only")
			verbose := flags.BoolP("verbose", "v", false, "print the address and the type of each object too")
			debug := flags.BoolP("debug", "d", false, "print each word of memory that refers to it, and what it is in")
			return eachInGraph(func(ctx context.Context, g *jscore.Graph, value v8.Value) (*jscore.References, error) {
				r, err := g.References(ctx, value, o)
				if err != nil {
					return nil, err
				}
				r.Verbose = *verbose
				if *debug {
					r.Words, err = g.WordsThatRefer(ctx, value)
				}
				return r, err
			})
		},
	}
}

func stringsCommand() *command {
	return &command{
		name: "strings", usage: "[--live] [-n LENGTH] [-N COUNT] [TEXT]", args: 1,
		short: "list the strings that take most memory, with TEXT in them",
		long: `Equal strings are counted together. Only the first 1024 characters of each are
compared and searched.`,
		example: "  strings -n 1000\n  strings /orders/ | jsfindrefs",
		bind: func(flags *pflag.FlagSet) run {
			var o jscore.StringOptions
			flags.BoolVar(&o.Live, "live", false, "only live strings, no garbage")
			flags.IntVarP(&o.Least, "length", "n", 0, "only strings of `LENGTH` characters or more")
			flags.IntVarP(&o.Limit, "number", "N", 0, "show at most `COUNT` strings (default 100)")
			return inGraph(func(ctx context.Context, v *invocation, g *jscore.Graph) (*jscore.Texts, error) {
				o.Contains = v.argument(0)
				return g.Strings(ctx, o), nil
			})
		},
	}
}

func diff() *command {
	return &command{
		name: "diff", usage: "[-a] CORE", args: 1,
		short:   "show which classes have more objects than in an earlier core",
		example: "  jscore late.core diff early.core",
		bind: func(flags *pflag.FlagSet) run {
			all := flags.BoolP("all", "a", false, "count garbage too")
			return inGraph(func(ctx context.Context, v *invocation, g *jscore.Graph) (*jscore.Difference, error) {
				if err := v.needs("a core"); err != nil {
					return nil, err
				}
				o := jscore.CensusOptions{ByClass: true, Live: !*all}
				before, err := v.earlier(ctx, o)
				if err != nil {
					return nil, err
				}
				return jscore.Diff(before, g.Census(ctx, o)), nil
			})
		},
	}
}

// earlier counts the objects of an earlier core.
func (v *invocation) earlier(ctx context.Context, o jscore.CensusOptions) (_ *jscore.Census, err error) {
	dump, err := jscore.Open(ctx, v.args[0], v.options)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, dump.Close()) }()
	for _, missing := range dump.Missing() {
		v.messages.Notef("%s", missing)
	}
	g, err := dump.Graph(ctx)
	if err != nil {
		return nil, err
	}
	return g.Census(ctx, o), nil
}

// eachInGraph is eachObject for commands that need all objects.
func eachInGraph[R jscore.Result](do func(ctx context.Context, g *jscore.Graph, value v8.Value) (R, error)) run {
	return func(ctx context.Context, v *invocation) error {
		g, err := v.graph(ctx)
		if err != nil {
			return err
		}
		return each(func(ctx context.Context, _ *invocation, address v8.Value) (R, error) {
			return do(ctx, g, tagged(address))
		})(ctx, v)
	}
}

// inGraph makes a run of a function that has one result and needs all objects.
func inGraph[R jscore.Result](do func(ctx context.Context, v *invocation, g *jscore.Graph) (R, error)) run {
	return once(func(ctx context.Context, v *invocation) (R, error) {
		g, err := v.graph(ctx)
		if err != nil {
			var none R
			return none, err
		}
		return do(ctx, v, g)
	})
}

// nodeCommands inspect Node.js.
func nodeCommands() registry {
	return registry{
		{
			name: "globals", short: "list the global variables that the program has added",
			long: `Properties of the global object that Node.js and V8 do not define, or whose
functions the program has replaced, and what scripts outside of modules have
declared by let, const or class. A pipeline continues with the values.`,
			example: "  globals\n  globals | jsretained",
			bind: plain(inGraph(func(_ context.Context, v *invocation, g *jscore.Graph) (*jscore.Globals, error) {
				return v.dump.Globals(g), nil
			})),
		},
		{
			name: "nodeinfo", usage: "[-e]",
			short: "show what the process is and how it was started",
			bind: func(flags *pflag.FlagSet) run {
				environment := flags.BoolP("environment", "e", false, "print its environment too, which may hold secrets")
				return once(func(ctx context.Context, v *invocation) (*jscore.NodeInfo, error) {
					if v.dump.Heap() == nil {
						return v.dump.NodeInfo(nil, *environment), nil
					}
					g, err := v.graph(ctx)
					return v.dump.NodeInfo(g, *environment), err
				})
			},
		},
		{
			name: "handles", short: "list what keeps the event loop waiting: sockets, signals ...",
			bind: plain(inGraph(func(_ context.Context, v *invocation, g *jscore.Graph) (*jscore.NodeObjects, error) {
				return v.dump.Handles(g)
			})),
		},
		{
			name: "requests", short: "list requests to the system that are not done yet",
			bind: plain(inGraph(func(_ context.Context, v *invocation, g *jscore.Graph) (*jscore.NodeObjects, error) {
				return v.dump.Requests(g)
			})),
		},
		{
			name: "timers", short: "list timers and immediates with their callbacks",
			bind: plain(inGraph(func(_ context.Context, v *invocation, g *jscore.Graph) (*jscore.Timers, error) {
				return v.dump.Timers(g), nil
			})),
		},
	}
}
