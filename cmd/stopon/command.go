package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ustack/cmd/internal/cli"
	"ustack/tools/check"
	"ustack/tools/core"
	"ustack/tools/event"
	"ustack/tools/jsprof"
	"ustack/tools/profile"
	"ustack/tools/stopon"
	"ustack/tools/trace"
)

// flags are the command's own flags, besides those that are stopon's options.
type flags struct {
	stopon   stopon.Options
	targets  cli.Targets
	maps     cli.SourceMaps
	triggers triggers
	core     coreFlags
	duration cli.Duration
	timeout  cli.Duration
	maxStop  cli.Duration
	rate     float64
	every    bool
	summary  bool
	now      bool
	write    bool
	json     bool
	view     view
	seen     stopon.Summary

	waits *pflag.FlagSet // the flags of triggers and conditions
}

// coreFlags say how to take cores.
type coreFlags struct {
	full bool
	zstd bool
}

const long = `Act at the very moment something goes wrong in a Node.js process. When one of
the triggers happens ("when ...") and all conditions hold ("if ..."), it is
reported with the mixed stack; then the actions are carried out, in the order
given. Without a selection, every process named node is watched.`

func command() *cobra.Command {
	f := new(flags)
	cmd := &cobra.Command{
		Use:   "stopon [flags] TRIGGER... [CONDITION...] [ACTION...]",
		Short: "Act at the very moment something goes wrong in a Node.js process",
		Long:  long,
		Example: strings.Join([]string{
			"  stopon --syscall close --errno EBADF           who closes what is not open",
			"  stopon --syscall close --errno EBADF --gcore   and a core of that moment",
			"  stopon -p 4242 --stall 200ms --every           what blocks the event loop",
			"  stopon -p 4242 --func libc.so.6:malloc --return --ret ==0 --stop",
			"  stopon -p 4242 --write-match 'out of memory' --gcore=/var/cores/",
			"  stopon -p 4242 --exit '!=0' --exec 'mail -s {pid} root </dev/null'",
			"  stopon -p 4242 --uncaught --gcore              who throws what nothing catches",
			"  stopon -p 4242 --now --gcore                   a core, at once",
			"  stopon -p 4242 --now                           what all threads do now",
			"  stopon --container web --now --gcore -w        a core of each process in it",
		}, "\n"),
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	f.targets.Default = "node"
	f.targets.Register(cmd, "watch")
	explainStray(cmd)
	f.registerTriggers(cmd)
	f.registerActions(cmd)
	f.registerLimits(cmd)
	f.maps.Register(cmd)
	cli.AddCheck(cmd)
	cli.Setup(cmd)
	cli.Choices(cmd, "syscall", event.Syscalls())
	f.triggers.conditions.Complete(cmd)
	cli.Choices(cmd, "signal", signalNames())
	cli.Choices(cmd, "kill", signalNames())
	return cmd
}

// explainStray makes the error about a stray argument say how --gcore takes its
// value, if that is what was meant.
func explainStray(cmd *cobra.Command) {
	take := cmd.Args
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 && cmd.ArgsLenAtDash() != 0 && cmd.Flags().Changed("gcore") {
			return cli.Usagef("stray argument %q (a place for cores is given as --gcore=PLACE)", args[0])
		}
		return take(cmd, args)
	}
}

func (f *flags) registerTriggers(cmd *cobra.Command) {
	flags, t := pflag.NewFlagSet("", pflag.ContinueOnError), &f.triggers
	flags.SortFlags = false
	flags.StringSliceVar(&t.syscalls, "syscall", nil, "when system call `NAME`[,...] returns")
	flags.StringArrayVar(&t.functions, "func", nil, "when function `[OBJECT:]SYMBOL` is entered")
	flags.BoolVar(&t.returns, "return", false, "when the functions of --func return instead")
	flags.StringArrayVar(&t.usdts, "usdt", nil, "when static probe `[OBJECT:]PROVIDER:NAME` is reached, with * and ?")
	flags.StringSliceVar(&t.signals, "signal", nil, "when signal `SIG`[,...] is delivered")
	flags.StringVar(&t.exit, "exit", "", "when it is about to exit with `CODE`, '!=0' or any")
	flags.StringVar(&f.stopon.Throw, "throw", "", "when an exception is thrown: any, or of class `CLASS`")
	flags.Lookup("throw").NoOptDefVal = anyClass
	flags.BoolVar(&f.stopon.Uncaught, "uncaught", false, "when nothing catches an exception")
	flags.Var(&t.stall, "stall", "when an event loop has not polled for this long")
	flags.StringVar(&f.stopon.JS, "js", "", "when JavaScript function `GLOB` is on the stack")
	flags.StringVar(&f.stopon.Written, "write-match", "", "when `TEXT` is written")
	t.conditions.Register(flags)
	f.waits = flags
	cmd.Flags().AddFlagSet(flags)
	cmd.Flags().BoolVar(&f.now, "now", false, "at once, without a trigger: act, or print all stacks")
}

func (f *flags) registerActions(cmd *cobra.Command) {
	flags, a := cmd.Flags(), actionFlag{&f.stopon.Actions, f.profile}
	flags.Var(a.core(), "gcore", "take a core: in a folder, or named as app.{pid}")
	flags.Lookup("gcore").NoOptDefVal = "." // the working directory
	a.bool(flags, "stop", "leave it stopped", stopon.Action{Do: stopon.Stop})
	a.bool(flags, "abort", "send it SIGABRT: the kernel writes the core", abort)
	flags.Var(a.kill(), "kill", "send it `SIG`")
	flags.Var(a.exec(), "exec", "run `CMD`, with {pid}, {tid} and {core} in it")
	flags.Var(a.profile(), "profile", "profile it for this long, as jsprof does")
	flags.BoolVarP(&f.write, "write", "w", false, "allow actions with --all, --cgroup and --container")
	flags.BoolVar(&f.core.full, "full", false, "put the code of executables into cores too")
	flags.BoolVar(&f.core.zstd, "zstd", false, "compress cores")
	flags.Var(&f.maxStop, "max-stop", "resume it after this long in any case (default 10s)")
}

func (f *flags) registerLimits(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.Uint64Var(&f.stopon.Nth, "nth", 1, "act from the `N`th match on")
	flags.Uint64Var(&f.stopon.Count, "count", 1, "act `N` times, then end")
	flags.BoolVar(&f.every, "every", false, "act each time, until Ctrl-C")
	flags.BoolVar(&f.summary, "summary", false, "report at the end, counted by trigger and stack")
	flags.Float64Var(&f.rate, "rate", 0, "act at most `N` times a second")
	flags.VarP(&f.duration, "duration", "d", "end after this long")
	flags.Var(&f.timeout, "timeout", "end with status 3 if nothing was seen for this long")
	flags.BoolVar(&f.stopon.Kernel, "kernel-stack", false, "show the kernel's frames too")
	flags.BoolVar(&f.view.internal, "internal", false, "show V8's internal frames too")
	flags.BoolVar(&f.view.tiers, "tier", false, "show the tier of each frame, such as turbofan")
	flags.BoolVar(&f.json, "json", false, "print JSON, one object per line for each match")
}

// check converts the flags to stopon's options, or says what makes no sense.
func (f *flags) check(cmd *cobra.Command) error {
	if err := f.triggers.apply(&f.stopon); err != nil {
		return err
	}
	o := &f.stopon
	switch {
	case f.every && cmd.Flags().Changed("count"):
		return cli.Usagef("give only one of --every and --count")
	case f.rate < 0 || f.rate > float64(time.Second):
		return cli.Usagef("--rate %v: not a number of times a second", f.rate)
	case (f.targets.All || f.targets.Cgroup != "" || f.targets.Container != "") && len(o.Actions) > 0 && !f.write:
		return cli.Usagef("destructive actions not allowed on processes that are not named (-w allows them)")
	}
	f.apply(cmd)
	if f.now {
		return f.checkNow()
	}
	if err := o.Check(); err != nil {
		return cli.Usagef("%v", err)
	}
	return nil
}

// apply sets options from the flags that are not triggers or conditions.
func (f *flags) apply(cmd *cobra.Command) {
	o := &f.stopon
	if f.every || f.summary && !cmd.Flags().Changed("count") {
		o.Count = 0
	}
	if f.rate > 0 {
		o.Burst = min(max(int(f.rate), 1), stopon.MaxBurst)
		o.Interval = time.Duration(float64(o.Burst) * float64(time.Second) / f.rate)
	}
	o.Rest = f.summary && len(o.Actions) == 0
	for i := range o.Actions {
		a := &o.Actions[i]
		a.Core = stopon.CoreOptions{Full: f.core.full}
		if a.Do == stopon.Core && f.core.zstd && !strings.HasSuffix(a.Pattern, ".zst") {
			a.Pattern = compressed(a.Pattern)
		}
	}
	o.Selection = f.targets.Selected(os.Stderr) // stdout is for hits
	o.Maps = f.maps.Options
	o.Duration, o.Timeout, o.MaxStop = time.Duration(f.duration), time.Duration(f.timeout), time.Duration(f.maxStop)
}

// checkNow reports flags that make no sense with --now.
func (f *flags) checkNow() error {
	given := ""
	f.waits.VisitAll(func(flag *pflag.Flag) {
		if flag.Changed {
			given = flag.Name
		}
	})
	switch {
	case given != "":
		return cli.Usagef("--now waits for nothing (leave out --%s)", given)
	case len(f.targets.PIDs) == 0 && f.targets.Container == "":
		return cli.Usagef("--now acts on processes that run (name them: -p PID or --container NAME)")
	case f.summary:
		return cli.Usagef("--now sees one moment only (leave out --summary)")
	case f.timeout > 0 || f.duration > 0:
		return cli.Usagef("--now waits for nothing (leave out --timeout and --duration)")
	}
	return nil
}

// compressed returns the pattern for a compressed core.
func compressed(pattern string) string {
	if info, err := os.Stat(pattern); strings.HasSuffix(pattern, "/") || err == nil && info.IsDir() {
		return strings.TrimSuffix(pattern, "/") + "/" + core.DefaultPattern + ".zst"
	}
	return cmp.Or(pattern, core.DefaultPattern) + ".zst"
}

// run waits, acts and reports.
func (f *flags) run(cmd *cobra.Command) error {
	if err := f.check(cmd); err != nil {
		return err
	}
	if f.now {
		if err := f.findRunning(); err != nil {
			return err
		}
		if len(f.stopon.Actions) == 0 {
			return f.printStacks(cmd)
		}
	}
	if err := f.permitted(cmd); err != nil {
		return err
	}
	messages := f.targets.Messages(cmd)
	o, run := f.hooked(cmd.OutOrStdout(), messages), stopon.Run
	if f.now {
		o.Started, run = nil, stopon.Now
	}
	warnOfNoCore(messages, &o) // before a match can end a process
	result, err := run(cmd.Context(), o)
	messages.Clear()
	if result != nil {
		if result.Matches == 0 {
			messages.Release() // a command without V8 may be the reason
		}
		err = errors.Join(err, f.summarize(cmd.OutOrStdout(), result))
		f.reportResult(messages, result)
	}
	if err != nil {
		return err
	}
	if result.Failed > 0 {
		return fmt.Errorf("actions that failed: %d", result.Failed)
	}
	if result.Acted > 0 && slices.ContainsFunc(o.Actions, func(a stopon.Action) bool { return a.Do == stopon.Kill }) {
		return nil // the command may have been ended by a signal that stopon was told to send
	}
	if err := f.targets.Status(); err != nil {
		return err
	}
	if f.timeout > 0 && !result.Seen() {
		return cli.ExitStatus(nothingSeen)
	}
	return nil
}

// findRunning selects the processes of --now by number.
func (f *flags) findRunning() error {
	pids, err := f.targets.Running()
	if err != nil {
		return err
	}
	f.targets.Selection = trace.Selection{PIDs: pids}
	f.stopon.Selection = f.targets.Selected(os.Stderr)
	return nil
}

// nothingSeen is the exit status if --timeout is given and nothing was seen.
const nothingSeen = 3

// permitted returns an error that names the missing capability. It runs before
// anything is stopped: who may not resume a process must not stop it.
func (f *flags) permitted(cmd *cobra.Command) error {
	if err := f.targets.Permitted(cmd); err != nil || len(f.stopon.Actions) == 0 || len(f.targets.Command) > 0 {
		return err
	}
	dumps := slices.ContainsFunc(f.stopon.Actions, func(a stopon.Action) bool { return a.Do == stopon.Core })
	if len(f.targets.PIDs) == 0 { // of any user
		needed := []check.Capability{check.Kill}
		if dumps {
			needed = append(needed, check.DACOverride)
		}
		return cli.SeeCheck(cmd, check.Capabilities(needed...))
	}
	for _, pid := range f.targets.PIDs {
		err := check.Signal(pid)
		if err == nil && dumps {
			err = check.Process(pid, check.Dump)
		}
		if err != nil {
			return cli.SeeCheck(cmd, err)
		}
	}
	return nil
}

// hooked returns the options with the functions that print messages and
// results.
func (f *flags) hooked(out io.Writer, messages *cli.Messages) stopon.Options {
	o := f.stopon
	f.view.color, f.view.written = cli.Color(out), o.Written
	o.Warn = messages.Warn
	o.Started = func() {
		if f.timeout > 0 {
			messages.Started(f.duration, "Watching %v, for %v if nothing is seen.", &f.targets, time.Duration(f.timeout))
			return
		}
		messages.Started(f.duration, "Watching %v.", &f.targets)
	}
	o.Progress = func(_ *stopon.Hit, done, total uint64) {
		messages.Progressf("core: %d of %d MB", done/1e6, total/1e6)
	}
	o.Acted = func(h *stopon.Hit, a *stopon.Action) { reportAction(messages, h, a) }
	single := f.every || !f.summary
	o.Report = func(h *stopon.Hit) error {
		messages.Clear()
		if f.summary {
			f.seen.Add(h)
		}
		if f.json || !single {
			return nil
		}
		return f.view.write(out, h)
	}
	o.Ended = func(h *stopon.Hit) error {
		if f.summary {
			f.seen.End(h)
		}
		switch {
		case !single:
			return nil
		case f.json:
			return writeJSON(out, h)
		}
		return f.view.write(out, h)
	}
	if f.json && single {
		o.Done = func(h *stopon.Hit) error { return writeJSON(out, h) }
	}
	return o
}

// profile has jsprof profile a process, and prints where its time goes: on
// standard output, or on standard error if standard output has JSON.
func (f *flags) profile(ctx context.Context, h *stopon.Hit, d time.Duration) error {
	p, err := jsprof.Run(ctx, jsprof.Options{Selection: trace.Selection{PIDs: []int{h.PID}}, Maps: f.maps.Options, Duration: d})
	if err != nil {
		return fmt.Errorf("profile process %d: %w", h.PID, err)
	}
	out := os.Stdout
	if f.json {
		out = os.Stderr
	}
	return profile.Formats[0].Write(out, p.WithoutTyped().Merge(), profile.Options{})
}
