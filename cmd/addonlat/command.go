package main

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ustack/cmd/internal/cli"
	"ustack/cmd/internal/metrics"
	"ustack/tools/addonlat"
	"ustack/tools/outfile"
	"ustack/tools/quantize"
)

// flags are the command's own flags, besides those that are addonlat's options.
type flags struct {
	addonlat addonlat.Options
	targets  cli.Targets
	maps     cli.SourceMaps
	duration cli.Duration
	interval cli.Duration
	linear   string
	output   string
	heatmap  heatmapFlag
	metrics  metricsFlag
	view     view
}

func command() *cobra.Command {
	f := new(flags)
	f.view.unit = quantize.Nanoseconds
	cmd := &cobra.Command{
		Use:   "addonlat " + cli.TargetsUse,
		Short: "Show how long asynchronous work in Node.js add-ons takes, and why",
		Example: strings.Join([]string{
			"  addonlat -p 4242                      by the add-on's function, until Ctrl-C",
			"  addonlat -p 4242 -d 10s --split       wait, run and delivery apart",
			"  addonlat --comm node --builtin --table --unit us   node's own work too",
			"  addonlat -p 4242 --by js -i 5s        by the calling line, every 5 seconds",
			"  addonlat -p 4242 -d 5m --heatmap latency.html   latency over time, in a browser",
			"  addonlat --json -- node app.js        for programs, from the first job",
		}, "\n"),
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	f.targets.Register(cmd, "measure")
	flags.VarP(&f.duration, "duration", "d", "stop after this long (default: at Ctrl-C)")
	flags.Var(cli.NewWord(&f.addonlat.By, addonlat.Bys), "by", "group jobs by "+strings.Join(addonlat.Bys, ", "))
	flags.BoolVar(&f.addonlat.Builtin, "builtin", false, "show node's own work too: fs, dns, crypto, zlib")
	flags.BoolVar(&f.view.tiers, "tier", false, "with --by stack, show the tier of each frame, such as turbofan")
	flags.BoolVar(&f.view.split, "split", false, "draw waiting, running and delivery too")
	flags.BoolVar(&f.view.table, "table", false, "print rows of numbers instead of drawing")
	flags.VarP(&f.interval, "interval", "i", "print this often, and reset the counts")
	flags.BoolVar(&f.view.json, "json", false, "print JSON, one object per line")
	flags.Var((*unit)(&f.view.unit), "unit", "print times in ns, us or ms")
	flags.StringVar(&f.linear, "lquantize", "", "draw totals by equal steps: `LOW,HIGH,STEP` in --unit")
	flags.StringVarP(&f.output, "output", "o", "", "write to `FILE`")
	flags.StringVar(&f.heatmap.path, "heatmap", "", "write a heat map, latency over time, as HTML to `FILE`")
	flags.StringVar(&f.metrics.Addr, "metrics", "", metrics.Usage)
	f.maps.Register(cmd)
	cli.AddCheck(cmd)
	cli.Setup(cmd)
	cli.Choices(cmd, "by", addonlat.Bys)
	cli.Choices(cmd, "unit", []string{"ns", "us", "ms"})
	return cmd
}

// A unit is the value of --unit.
type unit quantize.Unit

func (u *unit) String() string { return quantize.Unit(*u).String() }
func (u *unit) Type() string   { return "UNIT" }

func (u *unit) Set(name string) error {
	parsed, err := quantize.ParseUnit(name)
	if err != nil {
		return errors.New("not ns, us or ms")
	}
	*u = unit(parsed)
	return nil
}

// check reports arguments that make no sense, before anything is attached.
func (f *flags) check() error {
	switch {
	case f.view.json && (f.view.table || f.view.split):
		return cli.Usagef("--json holds all numbers (leave out --table and --split)")
	case f.view.table && f.view.split:
		return cli.Usagef("give only one of --table and --split (a table's rows are split)")
	case f.view.table && f.linear != "":
		return cli.Usagef("--lquantize is for drawing (leave out --table)")
	case f.heatmap.path != "" && filepath.Clean(f.heatmap.path) == filepath.Clean(cmp.Or(f.output, "/dev/stdout")):
		return cli.Usagef("--heatmap %s is where the report is written", f.heatmap.path)
	case f.view.tiers && f.addonlat.By != addonlat.Stack:
		return cli.Usagef("--tier is for stacks (add --by stack)")
	case f.linear == "":
		return nil
	}
	linear, err := quantize.ParseLQuantize(f.linear, f.view.unit)
	if err != nil {
		return cli.Usagef("--lquantize: %v", err)
	}
	f.addonlat.Linear = linear
	return nil
}

// run measures and prints. Output to a file is collected until the end, so that
// the file appears complete.
func (f *flags) run(cmd *cobra.Command) error {
	if err := errors.Join(f.check(), f.checkMetrics()); err != nil {
		return err
	}
	if err := f.targets.Permitted(cmd); err != nil {
		return err
	}
	if err := f.heatmap.open(); err != nil {
		return err
	}
	defer f.heatmap.close()
	if err := f.metrics.Open(); err != nil {
		return err
	}
	defer f.metrics.Close()
	if f.output == "" {
		return cmp.Or(f.measure(cmd, cmd.OutOrStdout()), f.targets.Status())
	}
	file, err := outfile.Open(f.output, outfile.Options{})
	if err != nil {
		return err
	}
	defer file.Close()
	var gathered bytes.Buffer
	err = f.measure(cmd, &gathered)
	if err != nil && gathered.Len() == 0 {
		return err
	}
	err = errors.Join(err, file.Write(func(w io.Writer) error {
		_, err := w.Write(gathered.Bytes())
		return err
	}))
	return cmp.Or(err, f.targets.Status())
}

// measure writes each report to out, and prints messages meanwhile.
func (f *flags) measure(cmd *cobra.Command, out io.Writer) error {
	messages := f.targets.Messages(cmd)
	f.view.timed = f.interval > 0
	o := f.addonlat
	o.Tiers = f.view.tiers
	o.Duration, o.Interval = time.Duration(f.duration), time.Duration(f.interval)
	var stdout *os.File
	if f.output == "" {
		stdout = os.Stderr // stdout is for the reports
	}
	o.Selection = f.targets.Selected(stdout)
	o.Maps = f.maps.Options
	o.Warn = messages.Warn
	o.Started = func() { messages.Started(f.duration, "Measuring %v.", &f.targets) }
	o.Progress = func(p addonlat.Pool) {
		messages.Progressf("%d jobs submitted, %d completed, %d in flight", p.Submitted, p.Completed, p.InFlight)
	}
	f.heatmap.watch(f, &o)
	pools := 0 // pools seen: a process that has one contains Node.js
	o.Report = func(r *addonlat.Report) error {
		pools += len(r.Pools)
		messages.Clear()
		return f.view.write(out, r, time.Now())
	}
	if err := f.metrics.watch(f, &o, messages); err != nil {
		return err
	}
	report, err := addonlat.Run(cmd.Context(), o)
	messages.Clear()
	if err != nil {
		return err
	}
	if pools+len(report.Pools) == 0 {
		messages.Release()
	}
	messages.Failures(report.Failures)
	if err := f.heatmap.write(f, messages); err != nil {
		return err
	}
	if f.view.timed && idle(report) {
		return nil // the last interval had barely started
	}
	if len(report.Kinds) == 0 {
		messages.Notef("no jobs: %s", f.nothing())
	}
	return f.view.write(out, report, time.Now())
}

// nothing says why there may have been nothing to measure.
func (f *flags) nothing() string {
	if f.addonlat.Builtin {
		return "nothing was done on libuv's pool"
	}
	return "no add-on had work done on libuv's pool (--builtin shows node's own)"
}

// idle reports whether nothing started or ended.
func idle(r *addonlat.Report) bool {
	return len(r.Kinds) == 0 && !slices.ContainsFunc(r.Pools, func(p addonlat.Pool) bool {
		return p.Submitted > 0 || p.Completed > 0 || p.Uring > 0
	})
}
