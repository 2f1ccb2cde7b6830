package main

import (
	"errors"
	"time"

	"github.com/spf13/cobra"

	"ustack/cmd/internal/cli"
	"ustack/tools/check"
	"ustack/tools/jscore"
)

// watching is what the flags of "jscore watch" say.
type watching struct {
	running cli.Running
	every   cli.Duration
	maxStop cli.Duration
	count   int
	json    bool
}

const (
	defaultEvery = cli.Duration(time.Minute)
	leastEvery   = time.Second // a snapshot stops the process for a part of that
)

func watchCommand() *cobra.Command {
	f := &watching{every: defaultEvery}
	cmd := &cobra.Command{
		Use:   "watch [flags] " + cli.RunningUse,
		Short: "Say what grows in a running process's memory, and what likely leaks",
		Example: "  jscore watch -p 4242                     a snapshot each minute, until Ctrl-C\n" +
			"  jscore watch -p 4242 --every 10s -n 6    six snapshots, then what grew",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	f.running.RegisterOne(cmd, "watch")
	flags.Var(&f.every, "every", "take a snapshot this often (default 1m)")
	flags.IntVarP(&f.count, "count", "n", 0, "take `N` snapshots, two at least (default: until Ctrl-C)")
	flags.Var(&f.maxStop, "max-stop", "never stop the process for longer (default 10s)")
	flags.BoolVar(&f.json, "json", false, "print JSON, one document for each snapshot and one at the end")
	return cmd
}

// check reports what makes no sense, before the process is touched.
func (f *watching) check(cmd *cobra.Command) (pid int, err error) {
	if err := f.running.Check(); err != nil {
		return 0, err
	}
	switch {
	case time.Duration(f.every) < leastEvery:
		return 0, cli.Usagef("--every must be %v or longer", leastEvery)
	case f.count < 0 || f.count == 1:
		return 0, cli.Usagef("-n must be 2 or more, not %d", f.count)
	}
	if pid, err = f.running.One(); err != nil {
		return 0, err
	}
	if err := check.Process(pid, check.Dump); err != nil {
		return 0, cli.SeeCheck(cmd, err)
	}
	return pid, nil
}

func (f *watching) run(cmd *cobra.Command) error {
	pid, err := f.check(cmd)
	if err != nil {
		return err
	}
	messages := cli.NewMessages(cmd)
	messages.Notef("watching process %d, a snapshot every %v (Ctrl-C says what grew)", pid, time.Duration(f.every))
	o := output{stdout: cmd.OutOrStdout(), stderr: cmd.ErrOrStderr(), json: f.json}
	out, err := o.open(cmd.Context(), "")
	if err != nil {
		return err
	}
	result, err := jscore.Watch(cmd.Context(), pid, jscore.WatchOptions{
		Options: jscore.Options{MaxStop: time.Duration(f.maxStop)}, Every: time.Duration(f.every), Count: f.count,
		Each: func(s *jscore.WatchSample) error { return out.put(s) },
	})
	if err == nil {
		err = out.put(result)
	}
	return errors.Join(err, out.close())
}
