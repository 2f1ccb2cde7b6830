package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"ustack/symbolize"
	"ustack/tools/flamegraph"
	"ustack/tools/stopon"
)

// A view says how hits are shown.
type view struct {
	internal bool
	color    bool
}

const (
	timeForm = "2006-01-02 15:04:05.000000"
	bold     = "\x1b[1m"
	plain    = "\x1b[0m"
)

// write writes a hit for people: when and where, what, and the stack, leaf first.
func (v view) write(w io.Writer, h *stopon.Hit) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s  %s[%d]", h.Time.Format(timeForm), printable(h.Comm), h.PID)
	if h.TID != 0 && h.TID != h.PID {
		fmt.Fprintf(&b, "  thread %d (%s)", h.TID, printable(h.Thread))
	}
	event := printable(h.Event)
	if v.color {
		event = bold + event + plain
	}
	fmt.Fprintf(&b, "\n%s\n", event)
	for _, f := range h.Frames {
		if f.Kind == symbolize.Typed && !v.internal {
			continue
		}
		fmt.Fprintf(&b, "    %s\n", line(f))
	}
	b.WriteByte('\n')
	_, err := io.WriteString(w, b.String())
	return err
}

// line is a frame as DTrace wrote it, file`function, and a JavaScript one with
// its place.
func line(f symbolize.Frame) string {
	label := flamegraph.Label(f)
	if f.Kind == symbolize.JS || f.Module == "" || f.Name == "" {
		return label
	}
	return printable(f.Module[strings.LastIndexByte(f.Module, '/')+1:]) + "`" + label
}

// printable is text from a process with what a terminal would obey made visible.
func printable(text string) string {
	quoted := fmt.Sprintf("%+q", text)
	return strings.NewReplacer(`\"`, `"`, `\\`, `\`).Replace(quoted[1 : len(quoted)-1])
}

func writeJSON(w io.Writer, h *stopon.Hit) error {
	text, err := json.Marshal(h)
	if err != nil {
		return err
	}
	_, err = w.Write(append(text, '\n'))
	return err
}
