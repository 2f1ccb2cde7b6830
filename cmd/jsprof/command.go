package main

import (
	"context"
	"errors"
	"io"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ustack/cmd/internal/cli"
	"ustack/loader"
	"ustack/tools/jsprof"
	"ustack/tools/outfile"
	"ustack/tools/profile"
)

// flags are the command's own flags, besides those that are jsprof's options.
type flags struct {
	jsprof   jsprof.Options
	targets  cli.Targets
	maps     cli.SourceMaps
	duration cli.Duration
	interval cli.Duration
	events   eventFlags
	memory   memoryFlags
	output   string
	format   string
	json     bool
	http     string
	present  presentation
	annotate annotation
	push     pushFlags
}

func command() *cobra.Command {
	f := new(flags)
	cmd := &cobra.Command{
		Use:   "jsprof " + cli.TargetsUse,
		Short: "Profile running Node.js processes: JavaScript and native code in one stack",
		Example: strings.Join([]string{
			"  jsprof -p 4242 -d 10s                 where the time goes, by function",
			"  jsprof -p 4242 -d 10s --native        the same, with all native functions",
			"  jsprof -p 4242 -d 10s --lines         where in each function",
			"  jsprof -p 4242 -d 10s --runtime       for which functions V8 collects and compiles",
			"  jsprof -p 4242 -d 10s --tier          which functions are optimized",
			"  jsprof -p 4242 -e page-faults -d 10s  which functions touch new memory",
			"  jsprof -p 4242 --alloc -d 10s         which functions allocate memory",
			"  jsprof -p 4242 -e syscall:openat -d 10s   which functions open files",
			"  jsprof -p 4242 -e syscall:read --sum bytes -o reads.html",
			"  jsprof -p 4242 -e syscall:fsync --quantize --by js   how long each takes",
			"  jsprof -p 4242 --annotate render      the source of a function, with samples by line",
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
	f.events.register(flags)
	f.memory.register(flags)
	flags.VarP(&f.duration, "duration", "d", "stop after this long (default: at Ctrl-C)")
	flags.Var(&f.interval, "interval", "write a file each time this long has passed, named by the time and -o")
	flags.StringVarP(&f.output, "output", "o", "", "write to `FILE`, in the format of its extension")
	flags.StringVar(&f.format, "format", "", "write as `FORMAT`: "+strings.Join(formats(), ", "))
	flags.BoolVar(&f.json, "json", false, "write as JSON: --format json")
	flags.StringVar(&f.http, "http", "", "serve pprof's web pages at `ADDR` when done (:8080 is on loopback)")
	f.push.register(flags)
	flags.BoolVar(&f.jsprof.Kernel, "kernel", false, "include the kernel's frames")
	f.present.register(flags)
	flags.StringVar(&f.annotate.functions, "annotate", "", "show the source of matching `FUNCTION`s with samples by line (also FILE:FUNCTION, FILE:LINE)")
	flags.IntVar(&f.annotate.context, "context", defaultContext, "with --annotate, show `LINES` around those with samples (-1: the whole function)")
	f.maps.Register(cmd)
	cli.AddCheck(cmd)
	cli.Setup(cmd)
	f.events.complete(cmd)
	cli.Choices(cmd, "format", formats())
	cmd.AddCommand(dumpCommand(), liveCommand(), convertCommand(), diffCommand())
	return cmd
}

// jsonFormat is the name of the format that --json selects.
const jsonFormat = "json"

func formats() []string {
	var names []string
	for _, f := range profile.Formats {
		names = append(names, f.Name)
	}
	return names
}

// check reports arguments that make no sense, before anything is attached.
func (f *flags) check(cmd *cobra.Command) (profile.Format, error) {
	var none profile.Format
	switch {
	case f.jsprof.Hz < 1:
		return none, cli.Usagef("frequency must be above 0, not %d", f.jsprof.Hz)
	case f.json && f.format != "" && f.format != jsonFormat:
		return none, cli.Usagef("give only one of --json and --format %s", f.format)
	case f.http != "" && (f.output != "" || f.format != "" || f.json):
		return none, cli.Usagef("--http shows the profile itself (leave out -o and --format)")
	}
	if err := f.events.apply(cmd, &f.jsprof); err != nil {
		return none, err
	}
	if err := f.memory.apply(cmd, &f.jsprof); err != nil {
		return none, err
	}
	if err := errors.Join(f.checkPush(), f.checkInterval(), f.checkAnnotate()); err != nil {
		return none, err
	}
	if err := f.present.check(); err != nil {
		return none, err
	}
	format, err := f.chosen()
	if err != nil {
		return none, err
	}
	if f.http == "" && !f.jsprof.Quantize {
		err = format.Takes(f.jsprof.ValueTypes()...)
	}
	if f.jsprof.Quantize {
		format, err = format.Quantized(profile.By(f.events.by))
	}
	if err != nil {
		return none, cli.Usagef("%v", err)
	}
	return f.annotate.check(format)
}

// checkAnnotate reports flags that say how a profile is shown, if source is shown in place of it.
func (f *flags) checkAnnotate() error {
	if f.annotate.functions == "" {
		return nil
	}
	for _, other := range []struct {
		given bool
		flag  string
	}{
		{f.http != "", "--http"},
		{f.present.native, "--native"},
		{f.present.lines, "--lines"},
		{f.present.tiers, "--tier"},
		{f.present.percent > 0, "--min"},
	} {
		if other.given {
			return cli.Usagef("give only one of --annotate and %s", other.flag)
		}
	}
	return nil
}

// chosen returns the format to write.
func (f *flags) chosen() (profile.Format, error) {
	if f.json {
		return chosen(jsonFormat, "")
	}
	return chosen(f.format, f.output)
}

func (f *flags) run(cmd *cobra.Command) error {
	format, err := f.check(cmd)
	if err != nil {
		return err
	}
	show := func(all []*profile.Profile) error { return f.print(cmd.OutOrStdout(), format, all) }
	switch { // what cannot work later is an error now, so that no profile is lost
	case f.output != "":
		file, err := outfile.Open(f.output, outfile.Options{})
		if err != nil {
			return err
		}
		defer file.Close()
		show = func(all []*profile.Profile) error { return f.save(file, format, all) }
	case f.http != "":
		listener, err := listen(f.http)
		if err != nil {
			return err
		}
		defer listener.Close()
		show = func(all []*profile.Profile) error {
			return serve(cmd.Context(), listener, f.http, f.present.served(all))
		}
	}
	if err := f.targets.Permitted(cmd); err != nil {
		return err
	}
	messages := f.targets.Messages(cmd)
	if err := f.present.checkThread(f.targets.PIDs, messages); err != nil {
		return err
	}
	if f.push.url != "" {
		return f.runPush(cmd.Context(), messages)
	}
	if f.interval > 0 {
		return f.runSeries(cmd.Context(), &series{flags: f, format: format, messages: messages})
	}
	profiles, err := f.profile(cmd.Context(), messages)
	if err != nil {
		return err
	}
	f.noteEmpty(profiles, messages)
	if err := show(profiles); err != nil {
		return err
	}
	return f.targets.Status()
}

// runSeries samples and writes files until it ends; the last one has what was taken since the
// one before.
func (f *flags) runSeries(ctx context.Context, s *series) error {
	ctx, s.stop = context.WithCancel(ctx)
	defer s.stop()
	f.jsprof.Interval, f.jsprof.Snapshot = time.Duration(f.interval), s.write
	last, err := f.profile(ctx, s.messages)
	switch {
	case s.err != nil:
		return s.err
	case err != nil && s.files == 0:
		return err
	case err == nil:
		s.write(last)
	}
	return errors.Join(s.err, f.targets.Status())
}

// sample runs jsprof with one Go thread at a time: little arrives at once, and waking another
// thread costs more than it saves.
func sample(ctx context.Context, o jsprof.Options) ([]*profile.Profile, error) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	return jsprof.RunAll(ctx, o)
}

// sampling returns the options of a run that prints messages meanwhile.
func (f *flags) sampling(messages *cli.Messages) jsprof.Options {
	o := f.jsprof
	o.Duration = time.Duration(f.duration)
	var stdout *os.File
	if f.output == "" && f.http == "" {
		stdout = os.Stderr // stdout is for the profile
	}
	o.Selection = f.targets.Selected(stdout)
	o.Maps = f.maps.Options
	o.Sources = f.annotate.wanted()
	o.Warn = messages.Warn
	o.Allocated = func(a jsprof.Allocated) { f.memory.allocated = a }
	o.Started = func(hz int) { f.announce(messages, hz) }
	o.Sampled = func(count uint64) { messages.Progressf("%d samples", count) }
	return o
}

// profile samples, prints messages meanwhile, and returns what is to be shown.
func (f *flags) profile(ctx context.Context, messages *cli.Messages) ([]*profile.Profile, error) {
	profiles, err := sample(ctx, f.sampling(messages))
	messages.Clear()
	if err != nil {
		return nil, err
	}
	if profiles[0].V8 == "" {
		messages.Release()
	}
	messages.Failures(profiles[0].Failures)
	for _, p := range profiles {
		if p.Throttled > 0 {
			messages.Notef("reached %d Hz of %d: %d samples were throttled (a lower -F takes less of the machine)",
				p.Hz, p.HzAsked, p.Throttled)
		}
	}
	return f.present.applyAll(profiles)
}

// announce prints that sampling has started.
func (f *flags) announce(messages *cli.Messages, hz int) {
	if hz > 0 && hz != f.jsprof.Hz {
		messages.Notef("%d Hz is above the limit of %d Hz (%d, or kernel.perf_event_max_sample_rate if that is lower)",
			f.jsprof.Hz, hz, loader.MaxHz)
	}
	rate := f.events.rate(hz)
	if f.jsprof.Memory != "" {
		rate = f.memory.rate()
	}
	messages.Started(f.duration, "Sampling %v at %s.", &f.targets, rate)
}

// noteEmpty names the events that did not happen.
func (f *flags) noteEmpty(profiles []*profile.Profile, messages *cli.Messages) {
	if f.jsprof.Memory != "" {
		f.memory.summarize(profiles, messages)
		return
	}
	for i, p := range profiles {
		if p.Total == 0 && p.Events == 0 {
			messages.Notef("no samples: the processes %s", f.events.nothing(i))
		}
	}
}

func (f *flags) print(stdout io.Writer, format profile.Format, all []*profile.Profile) error {
	o := f.options()
	o.Color = cli.Color(stdout)
	return format.WriteAll(stdout, all, o)
}

func (f *flags) save(file *outfile.File, format profile.Format, all []*profile.Profile) error {
	return file.Write(func(w io.Writer) error { return format.WriteAll(w, all, f.options()) })
}

// options are those of every format.
func (f *flags) options() profile.Options {
	o := f.present.options()
	o.Context = f.annotate.context
	return o
}
