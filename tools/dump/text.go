package dump

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"ustack/symbolize"
	"ustack/tools/printable"
	"ustack/tools/profile"
)

// TextOptions say which frames are shown.
type TextOptions struct {
	Native   bool // native functions too
	Internal bool // V8's typed frames too
}

// WriteText writes the stacks, each below its thread's number, name and state.
func (d *Dump) WriteText(w io.Writer, o TextOptions) error {
	out := bufio.NewWriter(w)
	out.WriteString(printable.String(d.Title))
	if d.V8 != "" {
		fmt.Fprintf(out, ", Node.js %s, V8 %s", d.Node, d.V8)
	}
	fmt.Fprintf(out, ", %s\n", count(len(d.Threads), "thread"))
	for _, t := range d.Threads {
		fmt.Fprintf(out, "\nthread %d \"%s\"%s: %v\n", t.TID, printable.String(t.Name), t.role(), t.State)
		t.writeFrames(out, o)
	}
	return out.Flush()
}

// role says whose JavaScript the thread runs, if any.
func (t *Thread) role() string {
	if t.Isolate == 0 {
		return ""
	}
	return fmt.Sprintf(" isolate %d", t.Isolate)
}

// writeFrames writes a line for each frame that is shown.
func (t *Thread) writeFrames(w io.Writer, o TextOptions) {
	shown := 0
	line := func(prefix string, f symbolize.Frame) {
		if !o.shows(f) {
			return
		}
		shown++
		fmt.Fprintf(w, "    %s%s\n", prefix, label(f))
	}
	for _, f := range t.Frames {
		line("", f)
	}
	for _, f := range t.Awaiting {
		line("awaited by ", f)
	}
	switch {
	case t.Truncated:
		fmt.Fprintln(w, "    (more frames than are followed)")
	case t.Broken:
		fmt.Fprintln(w, "    (the stack cannot be followed further)")
	case shown == 0:
		fmt.Fprintf(w, "    (%s not shown)\n", count(len(t.Frames), "native frame"))
	}
}

// shows reports whether a frame is shown.
func (o TextOptions) shows(f symbolize.Frame) bool {
	switch f.Kind {
	case symbolize.Typed:
		return o.Internal
	case symbolize.Native:
		return o.Native
	}
	return true
}

// label is a frame as a line shows it: a JavaScript function with the line that executes.
func label(f symbolize.Frame) string {
	note := ""
	if f.Inlined {
		note = " (inlined)"
	}
	if f.ExecutingLine > 0 {
		f.Line, f.Column = f.ExecutingLine, f.ExecutingColumn
	}
	if f.Nearest {
		f.Column = 0 // it says nothing
	}
	return profile.Qualified(f) + note
}

func count(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

// WriteJSON writes the dump as one JSON object.
func (d *Dump) WriteJSON(w io.Writer) error {
	text, err := json.Marshal(d)
	if err != nil {
		return err
	}
	_, err = io.WriteString(w, strings.TrimRight(string(printable.JSON(text)), "\n")+"\n")
	return err
}
