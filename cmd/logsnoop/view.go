package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf8"

	"ustack/symbolize"
	"ustack/tools/logsnoop"
	"ustack/tools/printable"
	"ustack/tools/profile"
	"ustack/tools/record"
)

// A view says which events to show, and how.
type view struct {
	strict    bool // only records
	level     record.Level
	condition *record.Condition // nil: none
	format    *record.Format
	tiers     bool
	json      bool
	record    record.Record // used again for each event
	both      bool          // bunyan's probes and what is written are watched: records may come twice
	copies    copies
	shown     uint64 // events
}

// failed returns for how many records the condition failed.
func (v *view) failed() uint64 {
	if v.condition == nil {
		return 0
	}
	return v.condition.Failed
}

func (v *view) firstFailure() error {
	if v.condition == nil {
		return nil
	}
	return v.condition.First
}

// write shows an event, unless it is left out.
func (v *view) write(w io.Writer, e *logsnoop.Event) error {
	line := strings.TrimRight(e.Text, "\r\n")
	isRecord := v.record.Parse(line)
	r := v.record
	switch {
	case v.both && isRecord && r.Bunyan && v.copies.isCopy(e, line):
		return nil
	case isRecord && (v.level > 0 && r.Level < v.level || v.condition != nil && !v.condition.Holds(r)):
		return nil
	case !isRecord && v.strict:
		return nil
	}
	v.shown++
	var text string
	switch {
	case v.json:
		return v.writeJSON(w, e, r, isRecord)
	case isRecord:
		text = v.format.Text(r, e.Time)
	case e.Probe != nil:
		text = probe(e)
	default:
		text = printable.String(line) + "\n"
	}
	if e.Cut {
		text = strings.TrimSuffix(text, "\n") + "…\n"
	}
	if _, err := io.WriteString(w, text); err != nil {
		return err
	}
	return v.writeStack(w, e)
}

const timeForm = "15:04:05.000000"

// probe returns a line about a static probe that is no record.
func probe(e *logsnoop.Event) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s  %d  %s(", e.Time.Format(timeForm), e.PID, printable.String(e.Probe.String()))
	for i, a := range e.Arguments {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(argument(a))
	}
	b.WriteString(")\n")
	return b.String()
}

// argument returns an argument as a text if it seems to be one.
func argument(a logsnoop.Argument) string {
	switch {
	case a.IsText && isText(a.Text):
		return printable.String(strconv.Quote(a.Text))
	case a.Signed:
		return fmt.Sprint(int64(a.Value))
	case a.Value < 1<<16:
		return fmt.Sprint(a.Value)
	}
	return fmt.Sprintf("%#x", a.Value)
}

// isText reports whether what an argument points to is a text, rather than an object. A text may have
// control characters, but not more than others.
func isText(text string) bool {
	others := 0
	for _, r := range text {
		if unicode.IsControl(r) && !unicode.IsSpace(r) {
			others--
		} else {
			others++
		}
	}
	return utf8.ValidString(text) && others >= 0
}

func (v *view) writeStack(w io.Writer, e *logsnoop.Event) error {
	for _, f := range e.Frames {
		if f.Kind == symbolize.Typed {
			continue
		}
		if _, err := fmt.Fprintf(w, "        at %s\n", v.function(f)); err != nil {
			return err
		}
	}
	return nil
}

func (v *view) function(f symbolize.Frame) string {
	if v.tiers {
		f = profile.WithTier(f)
	}
	return profile.Qualified(f)
}

// An object is an event in JSON, as the manual page describes it.
type object struct {
	Time      time.Time       `json:"time"`
	PID       int             `json:"pid"`
	TID       int             `json:"tid"`
	Probe     string          `json:"probe,omitempty"`
	Arguments []any           `json:"arguments,omitempty"`
	FD        *int            `json:"fd,omitempty"`
	File      string          `json:"file,omitempty"`
	Level     int             `json:"level,omitempty"`
	Record    json.RawMessage `json:"record,omitempty"`
	Text      *string         `json:"text,omitempty"`
	Cut       bool            `json:"cut"`
	Stack     []string        `json:"stack,omitempty"`
}

func (v *view) writeJSON(w io.Writer, e *logsnoop.Event, r record.Record, isRecord bool) error {
	o := object{Time: e.Time.UTC(), PID: e.PID, TID: e.TID, File: e.File, Cut: e.Cut}
	if e.Probe != nil {
		o.Probe = e.Probe.String()
		for _, a := range e.Arguments {
			switch {
			case a.IsText && isText(a.Text):
				o.Arguments = append(o.Arguments, a.Text)
			case a.Signed:
				o.Arguments = append(o.Arguments, int64(a.Value))
			default:
				o.Arguments = append(o.Arguments, a.Value)
			}
		}
	} else {
		o.FD = &e.FD
	}
	if isRecord {
		o.Level, o.Record = int(r.Level), json.RawMessage(r.Line)
	} else if e.Probe == nil {
		o.Text = &e.Text
	}
	if isRecord && e.Probe != nil {
		o.Arguments = nil // the record is the argument
	}
	for _, f := range e.Frames {
		if f.Kind != symbolize.Typed {
			o.Stack = append(o.Stack, v.function(f))
		}
	}
	text, err := json.Marshal(o)
	if err != nil {
		return err
	}
	_, err = w.Write(append(printable.JSON(text), '\n'))
	return err
}

// writeList writes a process's static probes.
func (v *view) writeList(w io.Writer, pid int, all []logsnoop.Listed) error {
	if v.json {
		for _, l := range all {
			text, err := json.Marshal(struct {
				PID int `json:"pid"`
				logsnoop.Listed
			}{pid, l})
			if err == nil {
				_, err = w.Write(append(printable.JSON(text), '\n'))
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if len(all) > 0 {
		fmt.Fprintln(t, "PID\tPROVIDER\tNAME\tARGUMENTS\tFILE")
	}
	for _, l := range all {
		fmt.Fprintf(t, "%d\t%s\t%s\t%s\t%s\n", pid, printable.String(l.Provider), printable.String(l.Name), printable.String(l.Arguments), printable.String(l.File))
	}
	return t.Flush()
}

// flushAfter is how long what was written may wait for more.
const flushAfter = 50 * time.Millisecond

// A writer collects what is written for a moment: thousands of records may come at once.
type writer struct {
	mutex sync.Mutex
	b     *bufio.Writer
	timer *time.Timer
	waits bool // for timer
	err   error
}

const writerBytes = 64 << 10

func newWriter(w io.Writer) *writer {
	out := &writer{b: bufio.NewWriterSize(w, writerBytes)}
	out.timer = time.AfterFunc(flushAfter, out.flush)
	out.timer.Stop()
	return out
}

func (w *writer) Write(p []byte) (int, error) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if w.err != nil {
		return 0, w.err
	}
	if !w.waits {
		w.waits = true
		w.timer.Reset(flushAfter)
	}
	return w.b.Write(p)
}

func (w *writer) flush() {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.waits = false
	w.err = errors.Join(w.err, w.b.Flush())
}

func (w *writer) close() error {
	w.timer.Stop()
	w.flush()
	return w.err
}
