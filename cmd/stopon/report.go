package main

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"ustack/cmd/internal/cli"
	"ustack/tools/stopon"
)

// reportAction reports the outcome of an action.
func reportAction(messages *cli.Messages, h *stopon.Hit, a *stopon.Action) {
	switch {
	case a.Do == stopon.Stop:
		messages.Notef("process %d is left stopped (kill -CONT %d resumes it)", h.PID, h.PID)
	case isAbort(*a):
		messages.Notef("SIGABRT sent to process %d: the kernel writes its core by the pattern %q", h.PID, corePattern())
	case a.Do == stopon.Kill:
		messages.Notef("%s sent to thread %d of process %d", signalName(a.Signal), h.TID, h.PID)
	case a.Do == stopon.Core:
		c := h.Core
		messages.Notef("core: %s, %.0f MB on disk, %d threads; the process was stopped for %.1f ms",
			c.Path, float64(c.Disk)/1e6, c.Threads, float64(c.Stopped)/float64(time.Millisecond))
		if c.Direct {
			messages.Notef("written while the process was stopped: there was too little memory for a copy of it")
		}
		if c.Unread > 0 {
			messages.Notef("pages that could not be read are zero in it: %d", c.Unread)
		}
	}
}

func isAbort(a stopon.Action) bool { return a.Do == stopon.Kill && a.Signal == unix.SIGABRT }

// signalName returns a signal's name, or its number if it has none.
func signalName(s unix.Signal) string {
	return cmp.Or(unix.SignalName(s), fmt.Sprintf("signal %d", int(s)))
}

// corePattern returns where the kernel writes cores, or the program that it
// pipes them to; empty if that cannot be read.
func corePattern() string {
	text, _ := os.ReadFile("/proc/sys/kernel/core_pattern")
	return strings.TrimSpace(string(text))
}

// warnOfNoCore warns of named processes that SIGABRT is to end, but whose cores
// the kernel would not write. The limit does not apply to cores piped to a
// program.
func warnOfNoCore(messages *cli.Messages, o *stopon.Options) {
	aborts := slices.ContainsFunc(o.Actions, isAbort)
	if !aborts || strings.HasPrefix(corePattern(), "|") {
		return
	}
	for _, pid := range o.PIDs {
		var limit unix.Rlimit
		if unix.Prlimit(pid, unix.RLIMIT_CORE, nil, &limit) == nil && limit.Cur == 0 {
			messages.Notef("process %d may leave no core: its limit is 0 (prlimit --pid %d --core=unlimited raises it)", pid, pid)
		}
	}
}

// reportResult reports what was not acted on.
func (f *flags) reportResult(messages *cli.Messages, r *stopon.Result) {
	switch {
	case r.Acted == 0 && r.Matches == 0:
		messages.Notef("nothing matched")
	case r.Acted == 0 && r.Matches < f.stopon.Nth:
		messages.Notef("matches: %d, fewer than --nth %d", r.Matches, f.stopon.Nth)
	case r.Acted == 0:
		messages.Notef("matches: %d, none acted on", r.Matches)
	}
	for _, loss := range []struct {
		what  string
		times uint64
	}{
		{"matches that came too soon after others", r.Limited},
		{"matches lost, so nothing was done: they came faster than they were read", r.Lost},
		{"matches not reported before the end", r.Unreported},
		{"functions or scripts whose names were lost", r.Unnamed},
		{"stalls that ended before their stack was taken", r.Missed},
		{"writes that were not searched to their end", r.Unsearched},
		{"system calls whose end was not seen: threads were preempted in all the programs that see them", r.Unended},
		{"exceptions whose class could not be read", r.Unclassed},
		{"matches counted without their trigger", r.Untallied},
		{"static probes whose arguments are not known: there are too many kinds of them", r.Unnumbered},
	} {
		if loss.times > 0 {
			messages.Notef("%s: %d", loss.what, loss.times)
		}
	}
	messages.Failures(r.Failures)
}
