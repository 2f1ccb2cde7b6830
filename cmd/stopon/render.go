package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"

	"ustack/symbolize"
	"ustack/tools/printable"
	"ustack/tools/profile"
	"ustack/tools/stopon"
)

// A view says how to show hits.
type view struct {
	internal bool
	tiers    bool // after the names of functions
	color    bool
	written  string // what --write-match searches for; may be empty
}

const (
	timeForm = "2006-01-02 15:04:05.000000"
	bold     = "\x1b[1m"
	plain    = "\x1b[0m"
)

// function returns a frame's function on one line.
func (v view) function(f symbolize.Frame) string {
	if v.tiers {
		f = profile.WithTier(f)
	}
	return profile.Qualified(f)
}

// write writes a hit for people: when and where, what, and the stack, leaf first.
func (v view) write(w io.Writer, h *stopon.Hit) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s  %s[%d]", h.Time.Format(timeForm), printable.String(h.Comm), h.PID)
	if h.Inside != 0 {
		fmt.Fprintf(&b, " (%d inside)", h.Inside)
	}
	if h.TID != 0 && h.TID != h.PID {
		fmt.Fprintf(&b, "  thread %d (%s)", h.TID, printable.String(h.Thread))
	}
	if f := h.UserFrame(); f != nil {
		fmt.Fprintf(&b, "  %s", v.function(*f))
	}
	event := printable.String(h.Event)
	if v.color {
		event = bold + event + plain
	}
	fmt.Fprintf(&b, "\n%s\n", event)
	if len(h.Command) > 0 {
		fmt.Fprintf(&b, "command %s\n", commandLine(h))
	}
	if h.Written != "" {
		fmt.Fprintf(&b, "writes %s\n", around(h.Written, v.written))
	}
	for _, f := range h.Frames {
		if f.Kind == symbolize.Typed && !v.internal {
			continue
		}
		fmt.Fprintf(&b, "    %s\n", v.function(f))
	}
	b.WriteByte('\n')
	_, err := io.WriteString(w, b.String())
	return err
}

const maxCommand = 100 // characters of a command line to show

// commandLine returns the process's command line and working directory.
func commandLine(h *stopon.Hit) string {
	text := []rune(printable.String(strings.Join(h.Command, " ")))
	if len(text) > maxCommand {
		text = append(text[:maxCommand], '…')
	}
	if h.Directory == "" {
		return string(text)
	}
	return string(text) + ", in " + printable.String(h.Directory)
}

const shown = 24 // bytes of the text to show on either side of a match

// around quotes the part of text that contains the match.
func around(text, sought string) string {
	begin := max(0, strings.Index(text, sought))
	end := min(len(text), begin+len(sought)+shown)
	begin = max(0, begin-shown)
	quoted := strconv.Quote(text[begin:end])
	if begin > 0 {
		quoted = "…" + quoted
	}
	if end < len(text) {
		quoted += "…"
	}
	return quoted
}

// writeJSON writes an object on a line of its own, possibly to a terminal.
func writeJSON(w io.Writer, object any) error {
	text, err := json.Marshal(object)
	if err != nil {
		return err
	}
	_, err = w.Write(append(printable.JSON(text), '\n'))
	return err
}
