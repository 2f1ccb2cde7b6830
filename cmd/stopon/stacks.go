package main

import (
	"time"

	"github.com/spf13/cobra"

	"ustack/cmd/internal/cli"
	"ustack/tools/check"
	"ustack/tools/dump"
	"ustack/tools/event"
)

// printStacks prints what all threads of the processes do now. Each process is stopped
// only while its stacks are read, and was resumed when they are printed.
func (f *flags) printStacks(cmd *cobra.Command) error {
	for _, pid := range f.targets.PIDs {
		if err := check.Process(pid, check.Dump); err != nil {
			return cli.SeeCheck(cmd, err)
		}
	}
	messages := f.targets.Messages(cmd)
	for i, pid := range f.targets.PIDs {
		d, err := dump.Take(cmd.Context(), pid, dump.Options{
			Maps: f.maps.Options, MaxStop: time.Duration(f.maxStop), Syscall: event.SyscallName, Warn: messages.Warn,
			Resumed: func(after time.Duration) {
				messages.Notef("process %d was stopped for %.1f ms", pid, float64(after)/float64(time.Millisecond))
			},
		})
		if err != nil {
			return err
		}
		if f.json {
			err = d.WriteJSON(cmd.OutOrStdout())
		} else {
			if i > 0 {
				cmd.Println()
			}
			err = d.WriteText(cmd.OutOrStdout(), dump.TextOptions{Native: true, Internal: f.view.internal})
		}
		if err != nil {
			return err
		}
	}
	return nil
}
