package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/pflag"

	"ustack/cmd/internal/cli"
	"ustack/symbolize/v8"
	"ustack/tools/jscore"
)

func findjsobjects() *command {
	return &command{
		name: "findjsobjects", usage: "[-abilmrv] [--live] [-c CLASS] [-p PROPERTY] [-k KIND] [ADDR...]", input: optional,
		short: "count objects by class and properties, or find those like one",
		long: `Each line is about objects with the same class and properties, by the bytes that
they take. In a pipeline each line stands for one object; given the address of
an object, the command lists all that are like it: "findjsobjects -c Session |
findjsobjects" lists all Sessions, as does "findjsobjects -i -c Session".

-m marks objects, -r shows what refers to them and to each ADDR, and forgets
the marks. With -l, both take all objects that are like ADDR.`,
		example: "  findjsobjects\n  findjsobjects -c Session | jsprint\n  findjsobjects -i -p url | jsprint url ! sort | uniq -c",
		bind: func(flags *pflag.FlagSet) run {
			f := new(finding)
			flags.StringVarP(&f.Class, "class", "c", "", "find objects of this `CLASS` only")
			flags.StringVarP(&f.Property, "property", "p", "", "find objects with this `PROPERTY` only")
			flags.StringVarP(&f.Kind, "kind", "k", "", "find objects of this `KIND` of V8's only: array, string, JSMap")
			flags.BoolVar(&f.Live, "live", false, "find live objects only, no garbage")
			flags.BoolVarP(&f.Internal, "all", "a", false, "find what V8 keeps for itself too, and strings and numbers")
			flags.BoolVar(&f.ByClass, "by-class", false, "group objects by class only, whatever their properties")
			flags.BoolVarP(&f.instances, "instances", "i", false, "list every object")
			flags.BoolVarP(&f.list, "list", "l", false, "list addresses only: one for each line, or all that are like ADDR")
			flags.BoolVarP(&f.mark, "mark", "m", false, "mark each ADDR for a later -r")
			flags.BoolVarP(&f.references, "references", "r", false, "show what refers to each ADDR, and to what was marked")
			flags.BoolVarP(&f.verbose, "verbose", "v", false, "print on standard error how much was found, and how long it took")
			flags.BoolP("brk", "b", false, "no effect, as in mdb_v8: V8 has no objects in that memory")
			return f.run
		},
	}
}

// A finding is what findjsobjects was asked for.
type finding struct {
	jscore.CensusOptions
	instances, list, mark, references, verbose bool
}

func (f *finding) run(ctx context.Context, v *invocation) error {
	given := len(v.inputs) > 0 || v.piped
	switch {
	case f.mark && f.references:
		return cli.Usagef("-m marks objects for a later -r: give one of them")
	case f.mark && !given:
		return cli.Usagef("-m needs an address")
	case f.references && !given && len(v.marked) == 0:
		return cli.Usagef("-r needs an address, or objects that -m has marked")
	}
	begun := time.Now()
	g, err := v.graph(ctx)
	if err != nil {
		return errors.Join(err, f.part(ctx, v, g))
	}
	f.ByHeap = v.dump.Several()
	if f.verbose {
		f.report(ctx, v, g, time.Since(begun))
	}
	switch {
	case f.mark:
		marked, err := f.chosen(ctx, v, g)
		v.marked = append(v.marked, marked...)
		return err
	case f.references:
		return f.refer(ctx, v, g)
	case given:
		return eachInGraph(func(ctx context.Context, g *jscore.Graph, value v8.Value) (*jscore.Values, error) {
			return g.AllAlike(ctx, value, f.CensusOptions)
		})(ctx, v)
	case f.instances:
		list := g.Instances(ctx, f.CensusOptions)
		return v.emitKnown(ctx, list, len(list.Values), f.CensusOptions)
	}
	v.messages.Progressf("counting objects")
	census := g.Census(ctx, f.CensusOptions)
	v.messages.Clear()
	if f.list {
		return v.emitKnown(ctx, census.Representatives(), census.Count, f.CensusOptions)
	}
	return v.emitKnown(ctx, census, census.Count, f.CensusOptions)
}

// part counts the objects that were found before ctx was done, if the command counts objects
// whether they are live or not.
func (f *finding) part(ctx context.Context, v *invocation, g *jscore.Graph) error {
	if g == nil || f.Live || f.mark || f.references || f.instances || f.list || len(v.inputs) > 0 || v.piped {
		return nil
	}
	f.ByHeap = v.dump.Several()
	return v.emit(g.Census(context.WithoutCancel(ctx), f.CensusOptions))
}

// chosen returns the objects given, with -l also all that are like them.
func (f *finding) chosen(ctx context.Context, v *invocation, g *jscore.Graph) ([]v8.Value, error) {
	var chosen []v8.Value
	for _, address := range v.inputs {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		alike, err := g.AllAlike(ctx, tagged(address), f.CensusOptions)
		switch {
		case err != nil:
			v.fail(address, err)
		case f.list:
			chosen = append(chosen, alike.Addresses()...)
		default:
			chosen = append(chosen, tagged(address))
		}
	}
	return chosen, nil
}

// refer shows what refers to the objects given and to those marked, and forgets the marks.
func (f *finding) refer(ctx context.Context, v *invocation, g *jscore.Graph) error {
	chosen, err := f.chosen(ctx, v, g)
	if err != nil {
		return err
	}
	of := *v
	of.inputs, v.marked = append(v.marked, chosen...), nil
	return eachInGraph(func(ctx context.Context, g *jscore.Graph, value v8.Value) (*jscore.References, error) {
		return g.References(ctx, value, jscore.RefOptions{})
	})(ctx, &of)
}

// report prints how much was found.
func (f *finding) report(ctx context.Context, v *invocation, g *jscore.Graph, took time.Duration) {
	objects := g.Census(ctx, jscore.CensusOptions{})
	closures := 0
	functions := g.Functions(ctx, jscore.FunctionOptions{}).Definitions
	for _, d := range functions {
		closures += d.Count
	}
	for _, fact := range []struct {
		what string
		is   any
	}{
		{"elapsed time", took.Round(time.Millisecond)},
		{"heap objects", g.Len()},
		{"live heap objects", g.Graph.Live},
		{"JavaScript objects", objects.Count},
		{"possible garbage", objects.Count - objects.Live},
		{"unique objects", len(objects.Groups)},
		{"functions found", closures},
		{"unique functions", len(functions)},
	} {
		v.messages.Notef("findjsobjects: %30s => %v", fact.what, fact.is)
	}
}

func jsfunctions() *command {
	return &command{
		name: "jsfunctions", usage: "[-lX] [--live] [-n NAME] [-s FILE] [-x INSTR] [ADDR...]", input: optional,
		short: "count closures by where they are defined",
		long: `Given the address of a closure, list all of the same function. The instructions
of a function that has no machine code of its own are its bytecodes.`,
		example: "  jsfunctions -s leaky.js\n  jsfunctions -n onNews | jsclosure\n  jsfunctions -X -x 7f31c0a4",
		bind: func(flags *pflag.FlagSet) run {
			var o jscore.FunctionOptions
			flags.StringVarP(&o.Name, "name", "n", "", "only functions with `NAME` in their names")
			flags.StringVarP(&o.File, "script", "s", "", "only those of scripts with `FILE` in their names")
			flags.BoolVar(&o.Live, "live", false, "only live closures")
			list := flags.BoolP("list", "l", false, "list addresses only: one closure of each function")
			ranges := flags.BoolP("instructions", "X", false, "print where the function's instructions are")
			instruction := addressFlag(flags, "holds", "x", "only functions whose instructions include that at `INSTR`")
			return func(ctx context.Context, v *invocation) error {
				g, err := v.graph(ctx)
				switch {
				case err != nil:
					return err
				case len(v.inputs) > 0 || v.piped:
					return eachInGraph(func(ctx context.Context, g *jscore.Graph, value v8.Value) (*jscore.Values, error) {
						return g.ClosuresLike(ctx, value, o)
					})(ctx, v)
				}
				functions := g.Functions(ctx, o)
				if *ranges || instruction.given {
					functions.AddInstructions(ctx)
				}
				if instruction.given {
					functions.Hold(uint64(instruction.Value))
				}
				if functions.Ranges = *ranges; *list {
					return v.emit(functions.Representatives())
				}
				return v.emit(functions)
			}
		},
	}
}
