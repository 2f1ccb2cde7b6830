package main

import (
	"time"

	"github.com/spf13/cobra"

	"ustack/cmd/internal/cli"
	"ustack/tools/check"
	"ustack/tools/dump"
	"ustack/tools/event"
)

// dumping is what the flags of "jsprof dump" say.
type dumping struct {
	running cli.Running
	maps    cli.SourceMaps
	text    dump.TextOptions
	json    bool
}

func dumpCommand() *cobra.Command {
	f := new(dumping)
	cmd := &cobra.Command{
		Use:   "dump [flags] " + cli.RunningUse,
		Short: "Print the stacks of all threads of a running process, once",
		Example: "  jsprof dump -p 4242                   what every thread is doing\n" +
			"  jsprof dump -p 4242 --native=false    JavaScript only\n" +
			"  jsprof dump -p 4242 --json            for programs\n" +
			"  jsprof dump --container web           of each process of Node.js in a container",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	f.running.Register(cmd, "print the stacks of")
	flags.BoolVar(&f.text.Native, "native", true, "show native functions too")
	flags.BoolVar(&f.text.Internal, "internal", false, "show V8's typed frames too")
	flags.BoolVar(&f.json, "json", false, "print a JSON object for each process, with all frames")
	f.maps.Register(cmd)
	return cmd
}

func (f *dumping) run(cmd *cobra.Command) error {
	if err := f.running.Check(); err != nil {
		return err
	}
	pids, err := f.running.Find()
	if err != nil {
		return err
	}
	for _, pid := range pids {
		if err := check.Process(pid, check.Dump); err != nil {
			return err
		}
	}
	messages := cli.NewMessages(cmd)
	for i, pid := range pids {
		d, err := dump.Take(cmd.Context(), pid, dump.Options{
			Maps: f.maps.Options, Syscall: event.SyscallName, Warn: messages.Warn,
			Resumed: func(after time.Duration) {
				messages.Notef("process %d was stopped for %.1f ms", pid, float64(after)/float64(time.Millisecond))
			},
		})
		if err != nil {
			return err
		}
		if err := f.print(cmd, i, d); err != nil {
			return err
		}
	}
	return nil
}

// print writes the dump of the i-th process.
func (f *dumping) print(cmd *cobra.Command, i int, d *dump.Dump) error {
	out := cmd.OutOrStdout()
	if f.json {
		return d.WriteJSON(out)
	}
	if i > 0 {
		cmd.Println()
	}
	return d.WriteText(out, f.text)
}
