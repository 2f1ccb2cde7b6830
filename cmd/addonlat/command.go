package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ustack/cmd/internal/cli"
	"ustack/tools/addonlat"
	"ustack/tools/quantize"
)

// flags are the command's own, beside those that are addonlat's options.
type flags struct {
	addonlat addonlat.Options
	pids     cli.PIDs
	duration cli.Duration
	interval cli.Duration
	linear   string
	output   string
	view     view
}

func command() *cobra.Command {
	f := new(flags)
	f.view.unit = quantize.Nanoseconds
	cmd := &cobra.Command{
		Use:   "addonlat [flags] {-p PID | --comm NAME | --all | -- COMMAND [ARG...]}",
		Short: "Show how long asynchronous work in Node.js add-ons takes, and why",
		Example: strings.Join([]string{
			"  addonlat -p 4242                      by the add-on's function, until Ctrl-C",
			"  addonlat -p 4242 -d 10s --split       for a thread, on it, for the event loop",
			"  addonlat --comm node --builtin --table --unit us   node's own work too",
			"  addonlat -p 4242 --by js -i 5s        by the calling line, every 5 seconds",
			"  addonlat --json -- node app.js        for programs, from the first job",
		}, "\n"),
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.VarP(&f.pids, "pid", "p", "measure these running processes")
	flags.StringVar(&f.addonlat.Comm, "comm", "", "measure every process of this `NAME`, new ones too")
	flags.BoolVar(&f.addonlat.All, "all", false, "measure every process that holds V8, new ones too")
	flags.VarP(&f.duration, "duration", "d", "stop after this long (default: at Ctrl-C)")
	flags.Var((*by)(&f.addonlat.By), "by", "tell jobs apart by "+strings.Join(addonlat.Bys, ", "))
	flags.BoolVar(&f.addonlat.Builtin, "builtin", false, "show node's own work too: fs, dns, crypto, zlib")
	flags.BoolVar(&f.view.split, "split", false, "draw waiting, running and delivery too")
	flags.BoolVar(&f.view.table, "table", false, "print one row of numbers instead of drawing")
	flags.VarP(&f.interval, "interval", "i", "print and begin anew this often")
	flags.BoolVar(&f.view.json, "json", false, "print JSON, one object on a line")
	flags.Var((*unit)(&f.view.unit), "unit", "print times in ns, us or ms")
	flags.StringVar(&f.linear, "lquantize", "", "draw totals by equal steps: `LOW,HIGH,STEP` in --unit")
	flags.StringVarP(&f.output, "output", "o", "", "write to `FILE`")
	cli.Setup(cmd)
	return cmd
}

// A by is the value of --by.
type by addonlat.By

func (b *by) String() string { return addonlat.Bys[*b] }
func (b *by) Type() string   { return "WHAT" }

func (b *by) Set(name string) error {
	i := slices.Index(addonlat.Bys, name)
	if i < 0 {
		return errors.New("not one of " + strings.Join(addonlat.Bys, ", "))
	}
	*b = by(i)
	return nil
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

// check finds what makes no sense before anything is attached.
func (f *flags) check(args []string) error {
	ways := 0
	for _, chosen := range []bool{len(f.pids) > 0, f.addonlat.Comm != "", f.addonlat.All, len(args) > 0} {
		if chosen {
			ways++
		}
	}
	switch {
	case ways == 0:
		return cli.Usagef("nothing to measure (name a process: -p PID, --comm NAME, --all, or -- COMMAND)")
	case ways > 1:
		return cli.Usagef("give only one of -p, --comm, --all and a command")
	case f.view.json && (f.view.table || f.view.split):
		return cli.Usagef("--json holds all numbers (leave out --table and --split)")
	case f.view.table && f.view.split:
		return cli.Usagef("give only one of --table and --split (a table's rows are split)")
	case f.view.table && f.linear != "":
		return cli.Usagef("--lquantize is for drawing (leave out --table)")
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

// run measures and prints. What goes to a file is gathered until the end, so that
// the file appears whole.
func (f *flags) run(cmd *cobra.Command, args []string) error {
	if err := f.check(args); err != nil {
		return err
	}
	if f.output == "" {
		return f.measure(cmd, args, cmd.OutOrStdout())
	}
	var gathered bytes.Buffer
	err := f.measure(cmd, args, &gathered)
	if err != nil && gathered.Len() == 0 {
		return err
	}
	return errors.Join(err, cli.WriteFile(f.output, func(w io.Writer) error {
		_, err := w.Write(gathered.Bytes())
		return err
	}))
}

// measure writes each report to out, and talks on stderr meanwhile.
func (f *flags) measure(cmd *cobra.Command, args []string, out io.Writer) error {
	stderr := cmd.ErrOrStderr()
	progress := cli.NewProgress(stderr)
	f.view.timed = f.interval > 0
	o := f.addonlat
	o.PIDs, o.Command = f.pids, args
	o.Duration, o.Interval = time.Duration(f.duration), time.Duration(f.interval)
	o.Stdout = os.Stderr // stdout is for the reports
	if f.output != "" {
		o.Stdout = os.Stdout
	}
	o.Warn = func(err error) {
		progress.Clear()
		fmt.Fprintf(stderr, "addonlat: %v\n", err)
	}
	o.Started = func() { f.announce(stderr) }
	o.Progress = func(p addonlat.Pool) {
		progress.Printf("%d jobs submitted, %d completed, %d in flight", p.Submitted, p.Completed, p.InFlight)
	}
	o.Report = func(r *addonlat.Report) error {
		progress.Clear()
		return f.view.write(out, r, time.Now())
	}
	report, err := addonlat.Run(cmd.Context(), o)
	progress.Clear()
	if err != nil {
		return err
	}
	if f.view.timed && idle(report) {
		return nil // the last interval had hardly begun
	}
	if len(report.Kinds) == 0 {
		fmt.Fprintln(stderr, "addonlat: no jobs: "+f.nothing())
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

// idle says whether nothing began or ended.
func idle(r *addonlat.Report) bool {
	return len(r.Kinds) == 0 && !slices.ContainsFunc(r.Pools, func(p addonlat.Pool) bool {
		return p.Submitted > 0 || p.Completed > 0 || p.Uring > 0
	})
}

// announce is the line that says that measuring has begun.
func (f *flags) announce(w io.Writer) {
	what := "the command"
	switch {
	case len(f.pids) > 0:
		what = f.pids.String()
	case f.addonlat.Comm != "":
		what = "every " + f.addonlat.Comm
	case f.addonlat.All:
		what = "every process with V8"
	}
	end := "Ctrl-C to end."
	if f.duration > 0 {
		end = fmt.Sprintf("For %v, or until Ctrl-C.", time.Duration(f.duration))
	}
	fmt.Fprintf(w, "Measuring %s. %s\n", what, end)
}
