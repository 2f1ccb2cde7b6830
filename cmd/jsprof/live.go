package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/spf13/cobra"

	"ustack/cmd/internal/cli"
	"ustack/symbolize/contain"
	"ustack/symbolize/process"
	"ustack/tools/event"
	"ustack/tools/jsprof"
	"ustack/tools/live"
	"ustack/tools/printable"
	"ustack/tools/profile"
	"ustack/tools/trace"
)

// watching is what the flags of "jsprof live" say.
type watching struct {
	running cli.Running
	maps    cli.SourceMaps
	hz      int
	span    cli.Duration

	pid int // once it is found
}

const (
	refresh       = time.Second
	defaultWindow = 10 * time.Second
	framesPerSec  = 15 // of the terminal, at most
)

func liveCommand() *cobra.Command {
	f := &watching{span: cli.Duration(defaultWindow)}
	cmd := &cobra.Command{
		Use:   "live [flags] " + cli.RunningUse,
		Short: "Watch where a running process's time goes, in the terminal",
		Example: "  jsprof live -p 4242                   functions, refreshed each second\n" +
			"  jsprof live -p 4242 --window 60s      over the last minute\n" +
			"  jsprof live --container web           the process of Node.js in a container",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	f.running.RegisterOne(cmd, "watch")
	flags.IntVarP(&f.hz, "frequency", "F", 99, "take `HZ` samples a second on each CPU")
	flags.Var(&f.span, "window", "show the samples of this last time")
	f.maps.Register(cmd)
	return cmd
}

// check reports what makes no sense, before anything is attached.
func (f *watching) check(cmd *cobra.Command) error {
	if err := f.running.Check(); err != nil {
		return err
	}
	switch {
	case f.hz < 1:
		return cli.Usagef("frequency must be above 0, not %d", f.hz)
	case time.Duration(f.span) < refresh:
		return cli.Usagef("--window must be %v or longer", refresh)
	case !cli.Terminal(os.Stdin) || !cli.Terminal(cmd.OutOrStdout()):
		return cli.Usagef("standard input and output must be a terminal (jsprof %v -d 10s writes a profile)", &f.running)
	case os.Getenv("TERM") == "" || os.Getenv("TERM") == "dumb":
		return cli.Usagef("the terminal cannot move its cursor: TERM=%s (jsprof %v -d 10s writes a profile)", os.Getenv("TERM"), &f.running)
	}
	pid, err := f.running.One()
	if err != nil {
		return err
	}
	f.pid = pid
	t := cli.Targets{Selection: f.selection()}
	return t.Permitted(cmd.Root())
}

func (f *watching) selection() trace.Selection { return trace.Selection{PIDs: []int{f.pid}} }

func (f *watching) run(cmd *cobra.Command) error {
	if err := f.check(cmd); err != nil {
		return err
	}
	p, err := process.Open(f.pid)
	if err != nil {
		return err
	}
	defer p.Close()
	loop, err := live.NewLoop(f.pid, event.SyscallName)
	if err != nil {
		return err
	}
	w := &watch{flags: f, loop: loop}
	w.screen = &screen{File: os.Stdout}
	w.program = tea.NewProgram(
		newModel(p.Title(), f.hz, live.NewWindow(time.Duration(f.span))),
		tea.WithOutput(w.screen), tea.WithFPS(framesPerSec), tea.WithoutSignalHandler(),
	)
	err = errors.Join(w.run(cmd.Context()), loop.Close())
	w.report(cmd)
	return err
}

// A watch is one run of the view.
type watch struct {
	flags   *watching
	loop    *live.Loop
	program *tea.Program
	screen  *screen
	last    *model  // as it was when the view was left
	warned  []error // while the terminal was the view's
	more    int     // warnings beyond maxWarned
}

// maxWarned bounds the warnings that are kept.
const maxWarned = 20

// run shows the view until the user or a signal ends it, or the process has ended. The
// terminal is restored in any case.
func (w *watch) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	sampled := make(chan error, 1)
	go func() {
		err := w.sample(ctx)
		w.program.Send(endMsg{err})
		sampled <- err
	}()
	defer context.AfterFunc(ctx, w.program.Quit)()
	shown, err := w.program.Run()
	cancel()
	err = errors.Join(err, <-sampled)
	w.last, _ = shown.(*model)
	return err
}

// sample samples until ctx is done or the process has ended.
func (w *watch) sample(ctx context.Context) (err error) {
	defer contain.Panic(&err, "sample process %d", w.flags.pid)
	var watching sync.WaitGroup
	ctx, cancel := context.WithCancel(ctx)
	watching.Go(func() { w.loop.Watch(ctx) })
	defer watching.Wait()
	defer cancel()
	_, err = jsprof.Run(ctx, jsprof.Options{
		Selection: w.flags.selection(), Maps: w.flags.maps.Options, Hz: w.flags.hz,
		Interval: refresh, Snapshot: w.show,
		Warn: func(err error) {
			if len(w.warned) == maxWarned {
				w.more++
				return
			}
			w.warned = append(w.warned, err)
			w.program.Send(noteMsg(printable.String(err.Error())))
		},
		Started: func(hz int) { w.program.Send(startMsg(hz)) },
	})
	return err
}

// show passes what was sampled in the last second on to the view.
func (w *watch) show(all []*profile.Profile) {
	p := all[0]
	w.screen.due.Store(p.Start.Add(p.Duration).UnixNano())
	shares, err := w.loop.State(p)
	if err != nil {
		return // it has ended, which the session is about to see
	}
	w.program.Send(tickMsg{p, shares, time.Now()})
}

// report prints what the view can no longer show: the last table, if the process has ended,
// and warnings.
func (w *watch) report(cmd *cobra.Command) {
	messages := cli.NewMessages(cmd)
	if w.last != nil && w.last.ended {
		fmt.Fprintln(cmd.OutOrStdout(), w.last.plain())
		messages.Notef("process %d has ended", w.flags.pid)
	}
	for _, err := range w.warned {
		messages.Warn(err)
	}
	if w.more > 0 {
		messages.Notef("warnings like these: %d more", w.more)
	}
	if verbose, _ := cmd.Flags().GetBool("verbose"); verbose && w.screen.drawn > 0 {
		messages.Notef("refreshed %d times, within %.0f ms", w.screen.drawn, float64(w.screen.slowest)/float64(time.Millisecond))
	}
}

// A screen is the terminal. It notes how long each second's refresh has taken.
type screen struct {
	*os.File
	due     atomic.Int64 // when the refresh began that has not been drawn yet; 0: none
	drawn   int
	slowest time.Duration
}

var _ io.Writer = (*screen)(nil)

func (s *screen) Write(p []byte) (int, error) {
	n, err := s.File.Write(p)
	if began := s.due.Swap(0); began > 0 {
		s.drawn++
		s.slowest = max(s.slowest, time.Since(time.Unix(0, began)))
	}
	return n, err
}
