package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ustack/cmd/internal/cli"
	"ustack/tools/jsprof"
	"ustack/tools/profile"
)

// memoryFlags are the flags that have stacks of memory taken.
type memoryFlags struct {
	alloc, gc bool
	interval  uint64 // in KiB

	allocated jsprof.Allocated // once the run has ended
}

func (f *memoryFlags) register(flags *pflag.FlagSet) {
	flags.BoolVar(&f.alloc, "alloc", false, "show which functions allocate memory, in bytes")
	flags.Uint64Var(&f.interval, "alloc-interval", jsprof.DefaultInterval>>10, "with --alloc, sample V8's heap each `KIB` on average")
	flags.BoolVar(&f.gc, "gc", false, "show which functions have V8 collect garbage, and for how long")
}

// maxInterval bounds the interval, in KiB: 1 TiB.
const maxInterval = 1 << 30

// apply sets options from the flags, and reports what makes no sense.
func (f *memoryFlags) apply(cmd *cobra.Command, o *jsprof.Options) error {
	given := cmd.Flags().Changed
	switch {
	case !f.alloc && given("alloc-interval"):
		return cli.Usagef("--alloc-interval needs --alloc")
	case f.interval > maxInterval:
		return cli.Usagef("--alloc-interval %d is above %d", f.interval, maxInterval)
	case f.alloc && f.gc:
		return cli.Usagef("give only one of --alloc and --gc")
	case !f.alloc && !f.gc:
		return nil
	}
	o.Memory, o.MemoryStep = jsprof.Allocations, f.interval<<10
	flag := "--alloc"
	if f.gc {
		o.Memory, flag = jsprof.Collections, "--gc"
	}
	for _, other := range []string{"event", "cycles", "frequency", "every", "sum", "quantize", "by", "off-cpu", "wall"} {
		if given(other) {
			return cli.Usagef("give only one of %s and --%s", flag, other)
		}
	}
	return nil
}

// rate says how often stacks are taken.
func (f *memoryFlags) rate() string {
	if f.gc {
		return "all collections"
	}
	return fmt.Sprintf("each %d KiB of V8's heap, and all large objects and external memory", f.interval)
}

// summarize says what the profiles add up to, and what they leave out.
func (f *memoryFlags) summarize(profiles []*profile.Profile, messages *cli.Messages) {
	if f.gc {
		p := profiles[0]
		messages.Notef("%d collections, %v", p.Events, time.Duration(p.Total).Round(time.Microsecond))
		return
	}
	var parts []string
	for _, p := range profiles {
		parts = append(parts, fmt.Sprintf("%s %s", p.ValueType.Type, megabytes(p.Total)))
	}
	heap := profiles[0]
	step := uint64(0)
	if n := f.allocated.Buffers; n > 0 {
		step = (f.allocated.Attributed + f.allocated.Unattributed) / n
	}
	messages.Notef("%s, not attributed %s; %d buffers of %s on average, %d large objects, %d external",
		strings.Join(parts, ", "), megabytes(f.allocated.Unattributed), heap.Events, megabytes(step), profiles[1].Events, profiles[2].Events)
}

func megabytes(bytes uint64) string { return fmt.Sprintf("%.1f MB", float64(bytes)/1e6) }
