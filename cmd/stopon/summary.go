package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"ustack/symbolize"
	"ustack/tools/printable"
	"ustack/tools/stopon"
)

// summaryObject is the form of a summary that programs read.
type summaryObject struct {
	Summary struct {
		Matches    uint64            `json:"matches"`
		Limited    uint64            `json:"limited"`
		Lost       uint64            `json:"lost"`
		Unreported uint64            `json:"unreported"`
		Triggers   []stopon.Tally    `json:"triggers"`
		Stacks     []*stopon.Group   `json:"stacks"`
		Other      uint64            `json:"other"`
		Failures   map[string]uint64 `json:"failures"` // by cause
	} `json:"summary"`
}

// summarize writes what was seen, if that is asked for.
func (f *flags) summarize(out io.Writer, r *stopon.Result) error {
	if !f.summary {
		return nil
	}
	if f.json {
		return writeJSON(out, f.summaryObject(r))
	}
	var b strings.Builder
	f.view.writeTriggers(&b, r)
	for _, g := range f.seen.Groups() {
		f.view.writeGroup(&b, g, r.Acted)
	}
	if n := f.seen.Other(); n > 0 {
		fmt.Fprintf(&b, "%10d  with other stacks\n", n)
	}
	_, err := io.WriteString(out, b.String())
	return err
}

func (f *flags) summaryObject(r *stopon.Result) *summaryObject {
	object := new(summaryObject)
	s := &object.Summary
	s.Matches, s.Limited, s.Lost, s.Unreported = r.Matches, r.Limited, r.Lost, r.Unreported
	s.Triggers = append([]stopon.Tally{}, r.Triggers...)
	s.Stacks, s.Other = f.seen.Groups(), f.seen.Other()
	s.Failures = map[string]uint64{}
	for cause, n := range r.Failures {
		s.Failures[cause] = n
	}
	return object
}

// writeTriggers writes how often each trigger matched.
func (v view) writeTriggers(b *strings.Builder, r *stopon.Result) {
	if len(r.Triggers) == 0 {
		return
	}
	fmt.Fprintf(b, "%10s %10s %10s  TRIGGER\n", "MATCHES", "TOO SOON", "LOST")
	for _, t := range r.Triggers {
		fmt.Fprintf(b, "%10d %10d %10d  %s\n", t.Matches, t.Limited, t.Lost, titled(t.Trigger, t.What))
	}
	b.WriteByte('\n')
}

// titled returns in words what a trigger was about.
func titled(trigger, what string) string {
	switch trigger {
	case "syscall", "function", "signal":
		return printable.String(what)
	case "return":
		return "return from " + printable.String(what)
	case "stall":
		return "event loop stalled"
	case "js":
		return "JavaScript function is running"
	}
	return strings.TrimSuffix(trigger+" "+printable.String(what), " ")
}

// writeGroup writes the hits with one stack: how many of all there are, what, when, how
// long they took, and the stack, leaf first.
func (v view) writeGroup(b *strings.Builder, g *stopon.Group, all uint64) {
	title := titled(g.Trigger, g.What)
	if v.color {
		title = bold + title + plain
	}
	fmt.Fprintf(b, "%10d %5.1f%%  %s", g.Count, 100*float64(g.Count)/float64(all), title)
	if f := g.UserFrame(); f != nil {
		fmt.Fprintf(b, "  %s", v.function(*f))
	}
	fmt.Fprintf(b, "\n    first %s, last %s\n", g.First.Format(timeForm), g.Last.Format(timeForm))
	if g.Timed > 0 {
		fmt.Fprintf(b, "    took %v in all, %v to %v each\n", rounded(g.Total), rounded(g.Min), rounded(g.Max))
	}
	for _, f := range g.Frames {
		if f.Kind != symbolize.Typed || v.internal {
			fmt.Fprintf(b, "    %s\n", v.function(f))
		}
	}
	b.WriteByte('\n')
}

// rounded drops the digits of a duration that are too many to read.
func rounded(d time.Duration) time.Duration {
	digits := time.Duration(1)
	for d/digits >= 100_000 {
		digits *= 10
	}
	return d.Round(digits)
}
