package main

import (
	"context"
	"io"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ustack/cmd/internal/cli"
	"ustack/tools/flamegraph"
	"ustack/tools/jsprof"
)

// flags are the command's own, beside those that are jsprof's options.
type flags struct {
	jsprof   jsprof.Options
	targets  cli.Targets
	duration cli.Duration
	output   string
	format   string
	http     string
	present  presentation
}

// A presentation says what of a profile is shown.
type presentation struct {
	internal bool
	jsOnly   bool
	thread   string
	filter   string
	percent  float64
}

func command() *cobra.Command {
	f := new(flags)
	cmd := &cobra.Command{
		Use:   "jsprof " + cli.TargetsUse,
		Short: "Profile running Node.js processes: JavaScript and native code in one stack",
		Example: strings.Join([]string{
			"  jsprof -p 4242 -d 10s                 where the time goes, by function",
			"  jsprof -p 4242 -d 10s -o out.svg      a flame graph",
			"  jsprof --comm node --http :8080       pprof's web pages, when stopped by Ctrl-C",
			"  jsprof -o out.html -- node app.js     from its first instruction",
		}, "\n"),
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	f.targets.Register(cmd, "profile")
	flags.IntVarP(&f.jsprof.Hz, "frequency", "F", 99, "take `HZ` samples a second on each CPU")
	flags.BoolVar(&f.jsprof.Cycles, "cycles", false, "sample by CPU cycles instead of time")
	flags.VarP(&f.duration, "duration", "d", "stop after this long (default: at Ctrl-C)")
	flags.StringVarP(&f.output, "output", "o", "", "write to `FILE`, in the format of its extension")
	flags.StringVar(&f.format, "format", "", "write as `FORMAT`: "+strings.Join(formats(), ", "))
	flags.StringVar(&f.http, "http", "", "serve pprof's web pages at `ADDR` when done (:8080 is on loopback)")
	flags.BoolVar(&f.jsprof.Kernel, "kernel", false, "take the kernel's frames too")
	flags.BoolVar(&f.present.internal, "internal", false, "show V8's typed frames and builtin internals")
	flags.BoolVar(&f.present.jsOnly, "js-only", false, "show JavaScript functions only")
	flags.StringVar(&f.present.thread, "thread", "", "show threads only whose name or number matches `GLOB`")
	flags.StringVar(&f.present.filter, "filter", "", "show stacks only with a frame that matches `REGEXP`")
	flags.Float64Var(&f.present.percent, "min", 0, "leave out what has less than this `PERCENT`")
	cli.Setup(cmd)
	cli.Choices(cmd, "format", formats())
	return cmd
}

func formats() []string {
	var names []string
	for _, f := range flamegraph.Formats {
		names = append(names, f.Name)
	}
	return names
}

// check finds what makes no sense before anything is attached.
func (f *flags) check() (flamegraph.Format, error) {
	var none flamegraph.Format
	switch {
	case f.jsprof.Hz < 1:
		return none, cli.Usagef("frequency %d is not above 0", f.jsprof.Hz)
	case f.present.percent < 0 || f.present.percent > 100:
		return none, cli.Usagef("--min %v is no percentage", f.present.percent)
	case f.http != "" && (f.output != "" || f.format != ""):
		return none, cli.Usagef("--http shows the profile itself (leave out -o and --format)")
	}
	if _, err := regexp.Compile(f.present.filter); err != nil {
		return none, cli.Usagef("--filter: %v", err)
	}
	if _, err := new(flamegraph.Profile).Thread(f.present.thread); err != nil {
		return none, cli.Usagef("--thread: %v", err)
	}
	return f.chosen()
}

// chosen returns the format to write.
func (f *flags) chosen() (flamegraph.Format, error) {
	format, err := flamegraph.Formats[0], error(nil)
	switch {
	case f.format != "":
		format, err = flamegraph.Lookup(f.format)
	case f.output != "":
		format, err = flamegraph.FormatOf(f.output)
	}
	if err != nil {
		return format, cli.Usagef("%v", err)
	}
	return format, nil
}

func (f *flags) run(cmd *cobra.Command) error {
	format, err := f.check()
	if err != nil {
		return err
	}
	show := func(p *flamegraph.Profile) error { return f.write(cmd.OutOrStdout(), format, p) }
	if f.http != "" {
		listener, err := listen(f.http) // now: an address in use must not cost the profile
		if err != nil {
			return err
		}
		defer listener.Close()
		show = func(p *flamegraph.Profile) error { return serve(cmd.Context(), listener, p) }
	}
	messages := f.targets.Messages(cmd)
	profile, err := f.profile(cmd.Context(), messages)
	if err != nil {
		return err
	}
	if profile.Samples == 0 {
		messages.Notef("no samples: the processes used no CPU time, or nothing matched")
	}
	return show(profile)
}

// profile samples, talks meanwhile, and returns what is to be shown.
func (f *flags) profile(ctx context.Context, messages *cli.Messages) (*flamegraph.Profile, error) {
	o := f.jsprof
	o.PIDs, o.Comm, o.Cgroup = f.targets.PIDs, f.targets.Comm, f.targets.Cgroup
	o.All, o.Command = f.targets.All, f.targets.Command
	o.Duration = time.Duration(f.duration)
	if f.output == "" && f.http == "" {
		o.Stdout = os.Stderr // stdout is for the profile
	}
	o.Warn = messages.Warn
	o.Started = func(hz int) { f.announce(messages, hz) }
	o.Sampled = func(count uint64) { messages.Progressf("%d samples", count) }
	profile, err := jsprof.Run(ctx, o)
	messages.Clear()
	if err != nil {
		return nil, err
	}
	if profile.V8 == "" {
		messages.Release()
	}
	return f.present.apply(profile)
}

// announce says that sampling has begun.
func (f *flags) announce(messages *cli.Messages, hz int) {
	if hz != f.jsprof.Hz {
		messages.Notef("%d Hz is more than the kernel allows (kernel.perf_event_max_sample_rate)", f.jsprof.Hz)
	}
	messages.Started(f.duration, "Sampling %v at %d Hz.", &f.targets, hz)
}

// apply returns what is to be shown of p.
func (s presentation) apply(p *flamegraph.Profile) (*flamegraph.Profile, error) {
	if !s.internal {
		p = p.WithoutTyped()
	}
	if s.filter != "" {
		p = p.Filter(regexp.MustCompile(s.filter))
	}
	if s.thread != "" {
		var err error
		if p, err = p.Thread(s.thread); err != nil {
			return nil, err
		}
	}
	if s.jsOnly {
		p = p.JSOnly()
	}
	return p.Merge(), nil
}

func (f *flags) write(stdout io.Writer, format flamegraph.Format, p *flamegraph.Profile) error {
	o := flamegraph.Options{MinPercent: f.present.percent}
	if f.output == "" {
		o.Color = cli.Color(stdout)
		return format.Write(stdout, p, o)
	}
	return cli.WriteFile(f.output, func(w io.Writer) error { return format.Write(w, p, o) })
}
