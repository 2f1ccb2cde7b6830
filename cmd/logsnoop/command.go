package main

import (
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ustack/cmd/internal/cli"
	"ustack/tools/event"
	"ustack/tools/logsnoop"
	"ustack/tools/record"
)

// flags are the command's own flags, besides those that are logsnoop's options.
type flags struct {
	logsnoop  logsnoop.Options
	targets   cli.Targets
	maps      cli.SourceMaps
	duration  cli.Duration
	probes    []string
	written   bool
	level     string
	condition string
	output    string
	list      bool
	view      view
}

const long = `Show what running Node.js processes log, as it happens: the lines that any
thread of theirs writes to standard output, standard error and files that are
only appended to; and, of programs with npm's bunyan and the package
dtrace-provider of ustack, all records, also those below the loggers' levels.
Records of bunyan, pino and winston are shown as the command bunyan shows them.`

func command() *cobra.Command {
	f := new(flags)
	cmd := &cobra.Command{
		Use:   "logsnoop " + cli.TargetsUse,
		Short: "Show what running Node.js processes log, also below the level of their loggers",
		Long:  long,
		Example: strings.Join([]string{
			"  logsnoop -p 4242                      all that it logs, until Ctrl-C",
			"  logsnoop -p 4242 -l debug             records of level debug and above",
			"  logsnoop -p 4242 -c 'this.req && this.req.method == \"POST\"'",
			"  logsnoop -p 4242 --stacks             with the JavaScript that logs",
			"  logsnoop --all --strict -l error -o short    what goes wrong, in any process",
			"  logsnoop -p 4242 --list               its static probes",
			"  logsnoop -p 4242 --probe 'shop:*'     what its own probes say",
			"  logsnoop -p 4242 --path '*.log' --json    for programs",
		}, "\n"),
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	f.targets.Register(cmd, "watch")
	flags.VarP(&f.duration, "duration", "d", "stop after this long (default: at Ctrl-C)")
	flags.StringVarP(&f.level, "level", "l", "", "of records, only those of `LEVEL` (trace to fatal, or a number) and above")
	flags.StringVarP(&f.condition, "condition", "c", "", "of records, only those for which `JS` is true: 'this.n > 1'")
	flags.StringVarP(&f.output, "output", "o", "long", "`FORMAT`: "+strings.Join(record.Formats(), ", "))
	flags.BoolVar(&f.view.strict, "strict", false, "only records: leave out other lines")
	flags.BoolVar(&f.written, "written", false, "only what is written, no static probes")
	flags.StringArrayVar(&f.probes, "probe", nil, "only these static probes: `[OBJECT:]PROVIDER:NAME`, with * and ?")
	flags.IntSliceVar(&f.logsnoop.FDs, "fd", nil, "only what is written to descriptors `N`[,...]")
	flags.StringVar(&f.logsnoop.Path, "path", "", "only what is written to files at `GLOB`")
	flags.BoolVar(&f.logsnoop.Stacks, "stacks", false, "the stack of each: the JavaScript that logs, unless another thread writes")
	flags.BoolVar(&f.view.tiers, "tier", false, "show the tier of each frame, such as turbofan")
	flags.BoolVar(&f.list, "list", false, "list the static probes of the processes of -p")
	flags.BoolVar(&f.view.json, "json", false, "print JSON, one object per line")
	f.maps.Register(cmd)
	cli.AddCheck(cmd)
	cli.Setup(cmd)
	cli.Choices(cmd, "level", record.Names())
	cli.Choices(cmd, "output", record.Formats())
	return cmd
}

// bunyan are the probes that bunyan makes.
var bunyan = event.USDT{Provider: "bunyan*", Name: levelPrefix + "*"}

// levelPrefix begins the names of probes for records of a level.
const levelPrefix = "log-"

// check converts the flags to logsnoop's options, or says what makes no sense.
func (f *flags) check(cmd *cobra.Command) error {
	o := &f.logsnoop
	for _, text := range f.probes {
		u, ok := event.ParseUSDT(text)
		if !ok {
			return cli.Usagef("--probe %s: not a static probe (write PROVIDER:NAME)", text)
		}
		o.Probes = append(o.Probes, u)
	}
	chosen := len(o.FDs) > 0 || o.Path != ""
	switch {
	case f.list && changedBut(cmd, listing...) != "":
		return cli.Usagef("--%s is not for --list", changedBut(cmd, listing...))
	case f.list && len(f.targets.PIDs) == 0:
		return cli.Usagef("--list is of the processes of -p PID")
	case len(o.Probes) > 0 && (f.written || chosen):
		return cli.Usagef("--probe sees nothing that is written (leave out --written, --fd and --path)")
	case f.view.json && cmd.Flags().Changed("output"):
		return cli.Usagef("give only one of --json and -o")
	case f.view.tiers && !o.Stacks:
		return cli.Usagef("--tier is for stacks (add --stacks)")
	case slices.ContainsFunc(o.FDs, func(fd int) bool { return fd < 0 }):
		return cli.Usagef("--fd: a descriptor is 0 or greater")
	}
	o.Writes = len(o.Probes) == 0
	if o.Writes && !f.written && !chosen {
		o.Probes = []event.USDT{bunyan}
		f.view.both = true
	}
	return errors.Join(f.checkView(cmd.OutOrStdout()), usage(o.Check()))
}

// listing are the flags that may be given with --list.
var listing = []string{"list", "pid", "comm", "cgroup", "container", "all", "probe", "json", "check", "verbose"}

// changedBut returns the name of a flag that was given besides these; or "".
func changedBut(cmd *cobra.Command, names ...string) (other string) {
	cmd.Flags().Visit(func(flag *pflag.Flag) {
		if !slices.Contains(names, flag.Name) {
			other = flag.Name
		}
	})
	return other
}

func usage(err error) error {
	if err == nil {
		return nil
	}
	return cli.Usagef("%v", err)
}

// checkView reads the flags that say what to show, and how.
func (f *flags) checkView(out io.Writer) (err error) {
	v := &f.view
	if f.level != "" {
		level, ok := record.ParseLevel(f.level)
		if !ok {
			return cli.Usagef("--level %s: no such level (there are %s, and numbers)", f.level, strings.Join(record.Names(), ", "))
		}
		v.level = level
		f.logsnoop.Wanted = func(_, name string) bool { return atLeast(level, name) }
	}
	if f.condition != "" {
		if v.condition, err = record.NewCondition(f.condition); err != nil {
			return cli.Usagef("--%v", err)
		}
	}
	if v.format, err = record.NewFormat(f.output, cli.Color(out)); err != nil {
		return cli.Usagef("--output: %v", err)
	}
	return nil
}

// atLeast reports whether a probe may have records of a level or above.
func atLeast(level record.Level, probe string) bool {
	name, ok := strings.CutPrefix(probe, levelPrefix)
	if !ok {
		return true
	}
	of, ok := record.ParseLevel(name)
	return !ok || of >= level
}

func (f *flags) run(cmd *cobra.Command) error {
	if err := f.check(cmd); err != nil {
		return err
	}
	if f.list {
		return f.printList(cmd)
	}
	if err := f.targets.Permitted(cmd); err != nil {
		return err
	}
	messages := f.targets.Messages(cmd)
	o := f.logsnoop
	o.Selection = f.targets.Selected(os.Stderr) // stdout is for what is shown
	o.Maps = f.maps.Options
	o.Duration = time.Duration(f.duration)
	o.Warn = messages.Warn
	o.Started = func() { messages.Started(f.duration, "Watching %v.", &f.targets) }
	out := newWriter(cmd.OutOrStdout())
	o.Report = func(e *logsnoop.Event) error { return f.view.write(out, e) }
	result, err := logsnoop.Run(cmd.Context(), o)
	err = errors.Join(err, out.close())
	if result != nil {
		if f.view.shown == 0 {
			messages.Release() // a command without V8 may be the reason
			messages.Notef("nothing to show: %d lines and static probes were seen", result.Events)
		}
		f.report(messages, result)
	}
	if err != nil {
		return err
	}
	return f.targets.Status()
}

// report prints what was not shown, by cause.
func (f *flags) report(messages *cli.Messages, r *logsnoop.Result) {
	for _, c := range []struct {
		count uint64
		text  string
	}{
		{r.Lost, "lost: the kernel had no room for %d writes and probes (show fewer: -l, --fd, --path, --probe)"},
		{r.Broken, "%d lines are not shown, since a part of them was lost or could not be read"},
		{r.Unread, "text of %d writes could not be read to its end"},
		{r.Cut, "%d probes had more text than is read"},
		{r.Closed, "%d writes were to files that were closed at once: they are not shown"},
		{r.Unended, "%d writes were not seen: threads were preempted in all the programs that see them"},
		{r.Unnamed, "%d writes were to files whose names could not be read: they are not shown"},
		{r.Unnumbered, "arguments of %d probes are not known: there are too many kinds of them"},
		{f.view.failed(), "the condition failed for %d records, which are not shown"},
	} {
		if c.count > 0 {
			messages.Notef(c.text, c.count)
		}
	}
	if err := f.view.firstFailure(); err != nil {
		messages.Notef("the condition's first error: %v", err)
	}
	messages.Failures(r.Failures)
}

// printList prints the static probes of the processes.
func (f *flags) printList(cmd *cobra.Command) error {
	messages := cli.NewMessages(cmd)
	for _, pid := range f.targets.PIDs {
		patterns := f.logsnoop.Probes
		if len(f.probes) == 0 {
			patterns = nil
		}
		all, unread, err := logsnoop.List(pid, patterns)
		if err != nil {
			return err
		}
		if unread != nil {
			messages.Warn(unread)
		}
		if err := f.view.writeList(cmd.OutOrStdout(), pid, all); err != nil {
			return err
		}
		if len(all) == 0 {
			messages.Notef("process %d has no static probes (npm/dtrace-provider gives bunyan and restify some)", pid)
		}
	}
	return nil
}
