package main

import (
	"bufio"
	"cmp"
	"fmt"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ustack/cmd/internal/cli"
	"ustack/tools/nodesnoop"
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

	filter filter
	rows   rows
}

func command() *cobra.Command {
	f := new(flags)
	cmd := &cobra.Command{
		Use:   "nodesnoop " + cli.TargetsUse,
		Short: "Show the HTTP requests that Node.js processes serve and make, and their garbage collections",
		Example: strings.Join([]string{
			"  nodesnoop -p 4242                     requests served and made, until Ctrl-C",
			"  nodesnoop -p 4242 -s --slower 100ms   served requests that took longer",
			"  nodesnoop -p 4242 --status 5xx,404 -o TIME,STATUS,METHOD,URL,RADDR",
			"  nodesnoop -p 4242 -sg -o TIME,PROBE,LATENCY,GC,BUSY,PATH   what garbage collection adds",
			"  nodesnoop --comm node -c -n 20        the next 20 requests that any node makes",
			"  nodesnoop --json -- node server.js    for programs, from the first request",
		}, "\n"),
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	f.targets.Register(cmd, "watch")
	flags.BoolVarP(&f.kinds.Server, "server", "s", false, "show requests that are served (-s and -c if none of -s, -c and -g is given)")
	flags.BoolVarP(&f.kinds.Client, "client", "c", false, "show requests that are made, with http, https or fetch")
	flags.BoolVarP(&f.kinds.GC, "gc", "g", false, "show garbage collections")
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
	cli.AddCheck(cmd)
	cli.Setup(cmd)
	return cmd
}

// check reports arguments that make no sense, before anything is attached.
func (f *flags) check(cmd *cobra.Command) (err error) {
	if f.kinds == (nodesnoop.Kinds{}) {
		f.kinds = nodesnoop.Kinds{Server: true, Client: true}
	}
	if f.json && cmd.Flags().Changed("columns") {
		return cli.Usagef("--json holds all columns (leave out -o)")
	}
	if cmd.Flags().Changed("count") && f.count == 0 {
		return cli.Usagef("-n: must be greater than 0")
	}
	if f.rows.columns, err = parseColumns(f.columns); err != nil {
		return err
	}
	if f.filter.statuses, err = parseStatuses(f.statuses); err != nil {
		return err
	}
	f.filter.path = f.path
	if _, err := path.Match(strings.TrimSuffix(f.path, "/**"), ""); err != nil {
		return cli.Usagef("--path %q: %v", f.path, err)
	}
	for _, m := range f.methods {
		f.filter.methods = append(f.filter.methods, strings.ToUpper(m))
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
	if e.Kind == nodesnoop.GC {
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
	return cmp.Or(f.watch(cmd), f.targets.Status())
}

// watch prints events as they come.
func (f *flags) watch(cmd *cobra.Command) error {
	messages := f.targets.Messages(cmd)
	out := bufio.NewWriterSize(cmd.OutOrStdout(), 1<<16)
	stop := make(chan struct{})
	p := &printer{flags: f, out: out, stop: stop}
	o := nodesnoop.Options{
		Selection: f.targets.Selected(os.Stderr),
		Kinds:     f.kinds, Slower: time.Duration(f.slower), Statuses: f.filter.statuses,
		Duration: time.Duration(f.duration), Stop: stop,
		Warn: messages.Warn, Event: p.event, Tick: p.flush,
	}
	o.Started = func() {
		f.rows.absolute, f.rows.start = f.absolute, time.Now()
		messages.Started(f.duration, "Watching %v.", &f.targets)
	}
	counts, err := nodesnoop.Run(cmd.Context(), o)
	p.flush()
	if err = cmp.Or(p.err, err); err != nil {
		return err
	}
	if p.shown == 0 {
		messages.Release()
		messages.Notef("nothing to show: %s", seen(counts))
	}
	return nil
}

// seen says what there was, shown or not.
func seen(c nodesnoop.Counts) string {
	return fmt.Sprintf("%d requests were served, %d made", c.Served, c.Requested)
}

// A printer prints events. Its methods are not called at the same time.
type printer struct {
	*flags
	out   *bufio.Writer
	shown uint64
	stop  chan struct{} // closed once enough is shown, or the output does not take more
	err   error
}

func (p *printer) event(e nodesnoop.Event) {
	if p.err != nil || p.count > 0 && p.shown == p.count || !p.filter.wants(&e) {
		return
	}
	p.note(p.print(&e))
	p.shown++
	if p.shown == p.count {
		close(p.stop)
	}
}

func (p *printer) print(e *nodesnoop.Event) error {
	if p.json {
		return printJSON(p.out, e)
	}
	return p.rows.print(p.out, e)
}

func (p *printer) flush() { p.note(p.out.Flush()) }

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
