package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ustack/cmd/internal/cli"
	"ustack/loader"
	"ustack/tools/event"
	"ustack/tools/jsprof"
	"ustack/tools/profile"
)

// eventFlags are the flags that say at what stacks are taken, and what they add up.
type eventFlags struct {
	names      []string
	cycles     bool
	every      uint64
	conditions cli.Conditions
	weight     string
	quantize   bool
	by         string
	offCPU     bool
	wall       bool
	idle       bool
	least      cli.Duration

	events []event.Event // once applied
}

func (f *eventFlags) register(flags *pflag.FlagSet) {
	flags.StringArrayVarP(&f.names, "event", "e", nil, "sample at `EVENT`s, cpu if not given; repeatable: "+strings.Join(event.Forms(), ", "))
	flags.BoolVar(&f.cycles, "cycles", false, "sample by CPU cycles instead of time: -e cycles")
	flags.Uint64Var(&f.every, "every", 1, "sample one in `N` of the events that have no rate")
	f.conditions.Register(flags)
	flags.StringVar(&f.weight, "sum", "count", "add up `WEIGHT` of system calls, functions and probes: "+strings.Join(event.Weights, ", "))
	flags.BoolVar(&f.quantize, "quantize", false, "show the distribution of what --sum would add up (default duration)")
	flags.BoolVar(&f.offCPU, "off-cpu", false, "take stacks of threads that wait, by how long they do")
	flags.BoolVar(&f.wall, "wall", false, "take stacks of threads that wait and of those that run: all of the time")
	flags.BoolVar(&f.idle, "idle", false, "with --off-cpu and --wall, show threads that have nothing to do, too")
	flags.Var(&f.least, "min-block", "with --off-cpu and --wall, ignore shorter waits")
	flags.StringVar(&f.by, "by", string(profile.Bys[0]), "with --quantize, show one distribution for each `KEY`: "+strings.Join(bys(), ", "))
}

func (f *eventFlags) complete(cmd *cobra.Command) {
	cli.Choices(cmd, "event", event.Names())
	cli.Choices(cmd, "sum", event.Weights)
	cli.Choices(cmd, "by", bys())
	f.conditions.Complete(cmd)
}

func bys() []string {
	var names []string
	for _, by := range profile.Bys {
		names = append(names, string(by))
	}
	return names
}

// apply sets options from the flags, and reports what makes no sense.
func (f *eventFlags) apply(cmd *cobra.Command, o *jsprof.Options) (err error) {
	if err := f.parse(); err != nil {
		return err
	}
	if err := f.check(cmd); err != nil {
		return err
	}
	if f.offCPU || f.wall {
		o.Waiting = &jsprof.Waiting{Running: f.wall, Idle: f.idle, Least: time.Duration(f.least)}
		return nil
	}
	o.Events, o.Every, o.Quantize = f.events, f.every, f.quantize
	if o.Predicate, err = f.conditions.Predicate(); err != nil {
		return err
	}
	weight := f.weight
	if f.quantize && !cmd.Flags().Changed("sum") {
		weight = "duration"
	}
	if o.Weight, err = event.ParseWeight(weight); err != nil {
		return cli.Usagef("--sum: %v", err)
	}
	if err := o.Check(); err != nil {
		return cli.Usagef("%v", err)
	}
	return nil
}

// parse reads the events.
func (f *eventFlags) parse() error {
	names := f.names
	if f.cycles {
		if len(names) > 0 && !slices.Contains(names, loader.Cycles.Name) {
			return cli.Usagef("give only one of --cycles and -e %s", names[0])
		}
		names = []string{loader.Cycles.Name}
	}
	if len(names) == 0 {
		names = []string{loader.CPUClock.Name}
	}
	for i, name := range names {
		if slices.Contains(names[:i], name) {
			return cli.Usagef("-e %s is given twice", name)
		}
		e, err := event.Parse(name)
		if err != nil {
			return cli.Usagef("%v", err)
		}
		f.events = append(f.events, e)
	}
	return nil
}

// check reports flags that do not apply to the events.
func (f *eventFlags) check(cmd *cobra.Command) error {
	given := cmd.Flags().Changed
	rated := slices.ContainsFunc(f.events, isRated)
	unrated := slices.ContainsFunc(f.events, func(e event.Event) bool { return !isRated(e) })
	waiting := f.offCPU || f.wall
	switch {
	case f.offCPU && f.wall:
		return cli.Usagef("give only one of --off-cpu and --wall")
	case waiting && (len(f.names) > 0 || f.cycles):
		return cli.Usagef("--off-cpu and --wall have events of their own (leave out -e)")
	case waiting && (given("sum") || given("every") || f.quantize || f.conditions.Given(cmd)):
		return cli.Usagef("--off-cpu and --wall add up time (leave out --sum, --every, --quantize and conditions)")
	case f.offCPU && given("frequency"):
		return cli.Usagef("-F is for events with a rate: --off-cpu takes each wait")
	case !waiting && (f.idle || f.least > 0):
		return cli.Usagef("--idle and --min-block need --off-cpu or --wall")
	case f.every < 1:
		return cli.Usagef("--every must be above 0")
	case !unrated && given("every"):
		return cli.Usagef("--every is for events without a rate: %s comes at -F", f.events[0].Name)
	case !rated && given("frequency"):
		return cli.Usagef("-F is for events with a rate: of %s, --every N samples one in N", f.events[0].Name)
	case !f.quantize && given("by"):
		return cli.Usagef("--by needs --quantize")
	case !slices.Contains(profile.Bys, profile.By(f.by)):
		return cli.Usagef("--by %s: no such key (want one of %s)", f.by, strings.Join(bys(), ", "))
	}
	return nil
}

// isRated reports whether an event is sampled at a rate.
func isRated(e event.Event) bool { return e.Timer != nil || e.Hardware != nil }

// nothing says what the processes did if there is no sample of an event.
func (f *eventFlags) nothing(number int) string {
	if f.offCPU || f.wall {
		return "did not wait (--idle shows threads that have nothing to do)"
	}
	if f.events[number].Timer != nil {
		return "used no CPU time"
	}
	return "had no " + f.events[number].Name
}

// rate says how often each event is sampled; hz is the rate of those that have one.
func (f *eventFlags) rate(hz int) string {
	var parts []string
	if f.offCPU || f.wall {
		parts = append(parts, "all waits")
	}
	if hz > 0 {
		parts = append(parts, fmt.Sprintf("%d Hz", hz))
	}
	for _, e := range f.events {
		switch {
		case isRated(e) || f.offCPU || f.wall:
		case f.every == 1:
			parts = append(parts, "all "+e.Name)
		default:
			parts = append(parts, fmt.Sprintf("one in %d %s", f.every, e.Name))
		}
	}
	return strings.Join(parts, " and ")
}
