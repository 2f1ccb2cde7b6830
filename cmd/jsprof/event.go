package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"ustack/cmd/internal/cli"
	"ustack/loader"
)

// timed are the events that are sampled at a rate.
var timed = []loader.Event{loader.CPUClock, loader.Cycles}

// events returns the names of the events that -e knows.
func events() []string {
	var names []string
	for _, e := range slices.Concat(timed, loader.Counted) {
		names = append(names, e.Name)
	}
	return names
}

// checkEvent sets the event, and reports flags that do not apply to it.
func (f *flags) checkEvent(cmd *cobra.Command) error {
	given := cmd.Flags().Changed
	if f.cycles {
		if given("event") && f.event != loader.Cycles.Name {
			return cli.Usagef("give only one of --cycles and -e %s", f.event)
		}
		f.event = loader.Cycles.Name
	}
	all := slices.Concat(timed, loader.Counted)
	i := slices.IndexFunc(all, func(e loader.Event) bool { return e.Name == f.event })
	switch {
	case i < 0:
		return cli.Usagef("unknown event %q (want one of %s)", f.event, strings.Join(events(), ", "))
	case i < len(timed) && given("every"):
		return cli.Usagef("--every is for events without a rate: %s comes at -F", f.event)
	case i >= len(timed) && given("frequency"):
		return cli.Usagef("-F is for events with a rate: of %s, --every N samples one in N", f.event)
	}
	f.jsprof.Event = all[i]
	return nil
}

// nothing says what the processes did if there is no sample.
func (f *flags) nothing() string {
	if slices.Contains(timed, f.jsprof.Event) {
		return "used no CPU time"
	}
	return "had no " + f.event
}

// all says which of the events that have no rate are sampled.
func (f *flags) all() string {
	if f.jsprof.In == 1 {
		return "all " + f.event
	}
	return fmt.Sprintf("one in %d %s", f.jsprof.In, f.event)
}
