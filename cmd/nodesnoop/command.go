package main

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"os"
	"path"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ustack/cmd/internal/cli"
	"ustack/cmd/internal/metrics"
	"ustack/tools/nodesnoop"
	"ustack/tools/printable"
)

// flags are the command's own flags.
type flags struct {
	targets  cli.Targets
	kinds    nodesnoop.Kinds
	list     bool
	count    uint64
	columns  string
	absolute bool
	json     bool
	duration cli.Duration
	slower   cli.Duration
	statuses string
	path     string
	methods  []string

	summary  bool
	table    bool
	by       nodesnoop.By
	top      bool
	interval cli.Duration
	heatmap  heatmapFlag
	metrics  metricsFlag

	stacks   bool
	maps     cli.SourceMaps
	syscalls syscallsFlags
	tcp      bool

	filter filter
	rows   rows
}

func command() *cobra.Command {
	f := new(flags)
	cmd := &cobra.Command{
		Use:   "nodesnoop " + cli.TargetsUse,
		Short: "Show the HTTP requests that Node.js processes serve and make, and what else they wait for",
		Example: strings.Join([]string{
			"  nodesnoop -p 4242                     requests served and made, until Ctrl-C",
			"  nodesnoop -p 4242 -s --slower 100ms   served requests that took longer",
			"  nodesnoop -p 4242 --status 5xx,404 -o TIME,STATUS,METHOD,URL,RADDR",
			"  nodesnoop -p 4242 -sg -o TIME,PROBE,LATENCY,GC,BUSY,PATH   what garbage collection adds",
			"  nodesnoop -p 4242 -c --io -o TIME,PROBE,LATENCY,WAIT,METHOD,PATH,WHICH   what a request waits for",
			"  nodesnoop --comm node -c -n 20        the next 20 requests that any node makes",
			"  nodesnoop -p 4242 --syscalls=connect,write --strings 32 --stacks",
			"  nodesnoop -p 4242 --tcp --stacks      its TCP connections, and who closes them",
			"  nodesnoop --json -- node server.js    for programs, from the first request",
		}, "\n"),
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	f.targets.Register(cmd, "watch")
	flags.BoolVarP(&f.kinds.Server, "server", "s", false, "show requests that are served (-s and -c, with --top also -g, if none of -s, -c, -g, --io and --loop is given)")
	flags.BoolVarP(&f.kinds.Client, "client", "c", false, "show requests that are made, with http, https or fetch")
	flags.BoolVarP(&f.kinds.GC, "gc", "g", false, "show garbage collections")
	flags.BoolVar(&f.kinds.IO, "io", false, "show other operations that are waited for: name look-ups, connections, files, zlib, crypto, add-ons")
	flags.BoolVar(&f.kinds.Loop, "loop", false, "show what event loops do between two waits (add --slower)")
	flags.VarP(&f.duration, "duration", "d", "stop after this long (default: at Ctrl-C)")
	flags.Uint64VarP(&f.count, "count", "n", 0, "stop after `N` events")
	flags.StringVarP(&f.columns, "columns", "o", usual, "show these columns: `COLS` of "+strings.Join(names(), ", "))
	flags.BoolVarP(&f.absolute, "time", "t", false, "show the time of day, not seconds since the start")
	flags.BoolVarP(&f.list, "list", "l", false, "list the processes that can be watched, and end")
	flags.Var(&f.slower, "slower", "show only what took at least this long")
	flags.StringVar(&f.statuses, "status", "", "show only responses with one of these statuses: `LIST` such as 5xx,404,400-403")
	flags.StringVar(&f.path, "path", "", "show only requests whose path matches `GLOB`: * within a segment, a final /** below it")
	flags.StringSliceVar(&f.methods, "method", nil, "show only requests with one of these methods")
	flags.BoolVar(&f.json, "json", false, "print JSON, one object per line")
	flags.BoolVar(&f.summary, "summary", false, "draw latencies by --by at the end, in place of lines")
	flags.BoolVar(&f.table, "table", false, "with --summary, print rows of numbers instead of drawing")
	flags.Var(cli.NewWord(&f.by, nodesnoop.Bys), "by", "group events by "+strings.Join(nodesnoop.Bys, ", ")+" (a client's route is its host)")
	flags.BoolVar(&f.top, "top", false, "show a screen of rates, latencies and the slowest requests each second")
	flags.VarP(&f.interval, "interval", "i", "with --top, show it this often; with --tcp, changed queues")
	flags.StringVar(&f.heatmap.path, "heatmap", "", "write a heat map, latency over time, as HTML to `FILE`")
	flags.StringVar(&f.metrics.Addr, "metrics", "", metrics.Usage)
	f.syscalls.register(cmd)
	flags.BoolVar(&f.tcp, "tcp", false, "follow TCP connections in place of requests: states, queues, who closes first")
	flags.BoolVar(&f.stacks, "stacks", false, "show the JavaScript that called, with --syscalls and --tcp; that allocated, with -g; that ran long, with --loop")
	f.maps.Register(cmd)
	cli.AddCheck(cmd)
	cli.Setup(cmd)
	cli.Choices(cmd, "by", nodesnoop.Bys)
	return cmd
}

// check reports arguments that make no sense, before anything is attached.
func (f *flags) check(cmd *cobra.Command) (err error) {
	if f.kinds == (nodesnoop.Kinds{}) {
		f.kinds = nodesnoop.Kinds{Server: true, Client: true, GC: f.top}
	}
	changed := cmd.Flags().Changed
	switch {
	case f.json && changed("columns"):
		return cli.Usagef("--json holds all columns (leave out -o)")
	case f.summary && changed("columns"):
		return cli.Usagef("-o is for lines and --top")
	case (f.summary || f.json) && f.absolute:
		return cli.Usagef("-t is for lines and --top")
	case f.list && len(f.targets.Command) > 0:
		return cli.Usagef("-l lists processes that run (leave out the command)")
	case f.summary && f.top:
		return cli.Usagef("give only one of --summary and --top")
	case f.top && f.json:
		return cli.Usagef("--top is for people (leave out --json)")
	case f.table && (!f.summary || f.json):
		return cli.Usagef("--table is for --summary without --json")
	case changed("by") && !f.summary && !f.top:
		return cli.Usagef("--by is for --summary and --top")
	case (changed("status") || changed("path") || changed("method")) && !f.kinds.Server && !f.kinds.Client:
		return cli.Usagef("--status, --path and --method are for requests (add -s or -c)")
	case changed("interval") && !f.top && !f.tcp:
		return cli.Usagef("-i is for --top and --tcp")
	}
	if f.tcp {
		if err := onlyWith(cmd, "tcp", "interval"); err != nil {
			return err
		}
	}
	if err := cmp.Or(f.metrics.Check(), f.syscalls.check(cmd)); err != nil {
		return err
	}
	f.rows.absolute = f.absolute
	if err := f.checkStacks(); err != nil {
		return err
	}
	if changed("count") && f.count == 0 {
		return cli.Usagef("-n: must be greater than 0")
	}
	if f.rows.columns, err = parseColumns(f.columns, f.kinds.IO); err != nil {
		return err
	}
	if f.filter.statuses, err = parseStatuses(f.statuses); err != nil {
		return err
	}
	for _, name := range []string{"status", "path", "method", "metrics", "heatmap"} {
		if changed(name) && strings.Trim(cmd.Flags().Lookup(name).Value.String(), "[]") == "" {
			return cli.Usagef("--%s: needs a value", name)
		}
	}
	f.filter.path = f.path
	if _, err := path.Match(strings.TrimSuffix(f.path, "/**"), ""); err != nil {
		return cli.Usagef("--path %q: %v", f.path, err)
	}
	for _, m := range f.methods {
		if !method.MatchString(m) {
			return cli.Usagef("--method: %q is no method (such as GET or M-SEARCH)", m)
		}
		f.filter.methods = append(f.filter.methods, strings.ToUpper(m))
	}
	return nil
}

// method is what Node.js's parser takes for a method, and more.
var method = regexp.MustCompile("^[A-Za-z-]+$")

// checkStacks reports --stacks that makes no sense.
func (f *flags) checkStacks() error {
	switch {
	case !f.stacks || f.syscalls.given() || f.tcp:
	case f.summary || f.top:
		return cli.Usagef("--stacks is for lines (leave out --summary and --top)")
	case !f.kinds.GC && !f.kinds.Loop:
		return cli.Usagef("--stacks is for -g, --loop, --syscalls and --tcp")
	case f.kinds.Loop && f.slower == 0:
		return cli.Usagef("--stacks with --loop needs --slower: which iterations are long")
	}
	return nil
}

// parseStatuses parses "5xx,404,400-403".
func parseStatuses(list string) (all []nodesnoop.StatusRange, err error) {
	if list == "" {
		return nil, nil
	}
	for _, word := range strings.Split(list, ",") {
		r, ok := parseStatus(strings.ToLower(strings.TrimSpace(word)))
		if !ok {
			return nil, cli.Usagef("--status: %q is no status (such as 404, 5xx or 400-403)", word)
		}
		all = append(all, r)
	}
	if len(all) > nodesnoop.MaxStatuses {
		return nil, cli.Usagef("--status: at most %d ranges", nodesnoop.MaxStatuses)
	}
	return all, nil
}

func parseStatus(word string) (r nodesnoop.StatusRange, ok bool) {
	if class, ok := strings.CutSuffix(word, "xx"); ok {
		n, err := strconv.Atoi(class)
		return nodesnoop.StatusRange{Low: n * 100, High: n*100 + 99}, err == nil && n >= 1 && n <= 9
	}
	low, high, isRange := strings.Cut(word, "-")
	if !isRange {
		high = low
	}
	var err, otherErr error
	r.Low, err = strconv.Atoi(low)
	r.High, otherErr = strconv.Atoi(high)
	return r, err == nil && otherErr == nil && r.Low >= 100 && r.High <= 999 && r.Low <= r.High
}

// A filter says which events are shown, besides what the kernel judges.
type filter struct {
	statuses []nodesnoop.StatusRange
	path     string
	methods  []string
}

func (f *filter) wants(e *nodesnoop.Event) bool {
	if !e.Kind.IsRequest() {
		return true
	}
	if len(f.methods) > 0 && !slices.Contains(f.methods, e.Method) {
		return false
	}
	return f.path == "" || matches(f.path, nodesnoop.Path(e.URL))
}

// matches reports whether a path matches a glob.
func matches(glob, name string) bool {
	if above, ok := strings.CutSuffix(glob, "/**"); ok {
		depth := strings.Count(above, "/")
		segments := strings.Split(name, "/")
		if len(segments) <= depth+1 {
			return false
		}
		glob, name = above, strings.Join(segments[:depth+1], "/")
	}
	ok, err := path.Match(glob, name)
	return err == nil && ok
}

func (f *flags) run(cmd *cobra.Command) error {
	if err := f.check(cmd); err != nil {
		return err
	}
	if err := f.targets.Permitted(cmd); err != nil {
		return err
	}
	if f.list {
		return f.printList(cmd)
	}
	switch {
	case f.syscalls.given():
		return cmp.Or(f.watchSyscalls(cmd), f.targets.Status())
	case f.tcp:
		return cmp.Or(f.watchTCP(cmd), f.targets.Status())
	}
	if err := f.heatmap.open(); err != nil {
		return err
	}
	defer f.heatmap.close()
	if err := f.metrics.Open(); err != nil {
		return err
	}
	defer f.metrics.Close()
	return cmp.Or(f.watch(cmd), f.targets.Status())
}

// A show is how events are shown. Its methods are not called at the same time.
type show interface {
	begin()
	event(w io.Writer, e *nodesnoop.Event) error
	end(w io.Writer) error
}

// shows returns how events are shown.
func (f *flags) shows(out io.Writer) show {
	switch {
	case f.summary:
		return &summary{Summary: nodesnoop.Summary{By: f.by}, table: f.table, json: f.json}
	case f.top:
		t := &top{Summary: nodesnoop.Summary{By: f.by}, kinds: f.kinds, rows: f.rows}
		if cli.Terminal(out) {
			t.size = func() (rows, columns int) { return cli.Size(out) }
		}
		return t
	case f.json:
		return lines{}
	}
	return &f.rows
}

// lines prints each event as JSON.
type lines struct{}

func (lines) begin()                                      {}
func (lines) event(w io.Writer, e *nodesnoop.Event) error { return printJSON(w, e) }
func (lines) end(io.Writer) error                         { return nil }

// watch shows events as they come.
func (f *flags) watch(cmd *cobra.Command) error {
	messages := f.targets.Messages(cmd)
	stop := make(chan struct{})
	p := &printer{
		flags: f, show: f.shows(cmd.OutOrStdout()), stop: stop,
		out: bufio.NewWriterSize(cmd.OutOrStdout(), outBytes),
	}
	o := nodesnoop.Options{
		Selection: f.targets.Selected(os.Stderr),
		Maps:      f.maps.Options, Stacks: f.stacks,
		Kinds: f.kinds, Slower: time.Duration(f.slower), Statuses: f.filter.statuses,
		Duration: time.Duration(f.duration), Stop: stop,
		Interval: cmp.Or(time.Duration(f.interval), time.Second), Report: p.report,
		Warn: messages.Warn, Event: p.event, Tick: p.tick,
	}
	if err := f.metrics.begin(f.by, messages); err != nil {
		return err
	}
	o.Started = func() {
		runtime.GOMAXPROCS(1) // the runtime's threads would take CPUs from the processes that are watched
		f.heatmap.begin(f.by)
		p.show.begin()
		messages.Started(f.duration, "Watching %v.", &f.targets)
	}
	counts, err := nodesnoop.Run(cmd.Context(), o)
	if err != nil {
		return err
	}
	p.note(p.show.end(p.out))
	p.note(p.out.Flush())
	if p.err != nil {
		return p.err
	}
	if p.shown == 0 {
		messages.Release()
		messages.Notef("nothing to show: %s", f.seen(counts))
	}
	return f.heatmap.write(&f.targets, messages)
}

// seen says what there was, shown or not.
func (f *flags) seen(c nodesnoop.Counts) string {
	var parts []string
	for _, kind := range []struct {
		wanted bool
		what   string
		count  uint64
	}{
		{f.kinds.Server, "requests served", c.Served},
		{f.kinds.Client, "requests made", c.Requested},
		{f.kinds.GC, "garbage collections", c.Collections},
		{f.kinds.IO, "operations", c.Operations},
		{f.kinds.Loop, "iterations of event loops", c.Iterations},
	} {
		if kind.wanted {
			parts = append(parts, fmt.Sprintf("%d %s", kind.count, kind.what))
		}
	}
	return strings.Join(parts, ", ")
}

// outBytes are printed at once.
const outBytes = 1 << 16

// A printer shows events. Its methods are not called at the same time.
type printer struct {
	*flags
	show  show
	out   *bufio.Writer
	shown uint64
	stop  chan struct{} // closed once enough is shown, or the output does not take more
	err   error
}

func (p *printer) event(e *nodesnoop.Event) {
	if p.err != nil || p.count > 0 && p.shown == p.count || !p.filter.wants(e) {
		return
	}
	p.heatmap.event(e)
	p.metrics.event(e)
	p.note(p.show.event(p.out, e))
	p.shown++
	if p.shown == p.count && p.err == nil {
		close(p.stop)
	}
}

// tick prints what there is.
func (p *printer) tick() {
	p.heatmap.column(time.Now())
	p.note(p.out.Flush())
}

func (p *printer) report(loops []nodesnoop.Loop, now time.Time) error {
	p.metrics.report(loops)
	if t, ok := p.show.(*top); ok {
		p.note(t.report(p.out, loops, now))
		p.note(p.out.Flush())
	}
	return p.err
}

// note keeps the first error, which ends the run.
func (p *printer) note(err error) {
	if err == nil || p.err != nil {
		return
	}
	p.err = err
	if p.count == 0 || p.shown < p.count {
		close(p.stop)
	}
}

// printList prints the processes that can be watched, and why the others cannot.
func (f *flags) printList(cmd *cobra.Command) error {
	messages := f.targets.Messages(cmd)
	all, err := nodesnoop.List(cmd.Context(), nodesnoop.Options{Selection: f.targets.Selection, Kinds: f.kinds, Warn: messages.Warn})
	for _, w := range all {
		line := fmt.Sprintf("%7d %s, Node.js %s", w.PID, w.Title, w.Node)
		if w.Err != nil {
			line += ": " + w.Err.Error()
		}
		if _, err := fmt.Fprintln(cmd.OutOrStdout(), printable.String(line)); err != nil {
			return fmt.Errorf("write: %w", err)
		}
	}
	return err
}
