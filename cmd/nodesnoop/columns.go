package main

import (
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"ustack/cmd/internal/cli"
	"ustack/tools/nodesnoop"
	"ustack/tools/printable"
)

// A column shows one thing about each event.
type column struct {
	name  string
	width int // at least; 0: as wide as the text, for the last one
	right bool
	text  func(r *rows, e *nodesnoop.Event) string
}

// columns are all columns.
var columns = []column{
	{"TIME", 13, false, func(r *rows, e *nodesnoop.Event) string { return r.time(e.Begun.Add(e.Latency)) }},
	{"PID", 7, true, func(_ *rows, e *nodesnoop.Event) string { return strconv.Itoa(e.PID) }},
	{"THREAD", 7, true, func(_ *rows, e *nodesnoop.Event) string { return strconv.Itoa(e.TID) }},
	{"PROBE", 6, false, func(_ *rows, e *nodesnoop.Event) string { return e.Kind.String() }},
	{"LATENCY", 11, true, func(_ *rows, e *nodesnoop.Event) string { return ms(e.Latency) }},
	{"TTFB", 11, true, request(func(e *nodesnoop.Event) string {
		if e.Status == 0 {
			return "-"
		}
		return ms(e.TTFB)
	})},
	{"GC", 9, true, request(func(e *nodesnoop.Event) string { return ms(e.GC) })},
	{"BUSY", 11, true, request(func(e *nodesnoop.Event) string {
		if e.Busy < 0 {
			return "-"
		}
		return ms(e.Busy)
	})},
	{"WAIT", 11, true, func(_ *rows, e *nodesnoop.Event) string {
		if e.Run == 0 {
			return "-"
		}
		return ms(e.Wait)
	}},
	{"METHOD", 7, false, asked(func(e *nodesnoop.Event) string { return e.Method })},
	{"STATUS", 6, false, request(func(e *nodesnoop.Event) string {
		if e.Status == 0 {
			return "-"
		}
		return strconv.Itoa(e.Status)
	})},
	{"BYTES", 9, true, request(func(e *nodesnoop.Event) string { return strconv.FormatUint(e.Bytes, 10) })},
	{"RADDR", 15, false, asked(func(e *nodesnoop.Event) string { return address(e.Peer) })},
	{"RPORT", 5, true, asked(func(e *nodesnoop.Event) string {
		if e.Peer.Port == 0 {
			return "-"
		}
		return strconv.Itoa(e.Peer.Port)
	})},
	{"HOST", 24, false, request(func(e *nodesnoop.Event) string { return e.Host })},
	{"WHICH", 8, false, func(_ *rows, e *nodesnoop.Event) string { return which(e) }},
	{"ROUTE", 24, false, request(func(e *nodesnoop.Event) string { return nodesnoop.Route(nodesnoop.Path(e.URL)) + cut(e) })},
	{"PATH", 24, false, asked(func(e *nodesnoop.Event) string { return target(e) + cut(e) })},
	{"URL", 24, false, asked(func(e *nodesnoop.Event) string { return e.URL + cut(e) })},
}

// usual are the columns that are shown if none are named.
const usual = "TIME,PID,PROBE,LATENCY,STATUS,METHOD,PATH"

// request returns a text that only requests have.
func request(text func(*nodesnoop.Event) string) func(*rows, *nodesnoop.Event) string {
	return asked(func(e *nodesnoop.Event) string {
		if e.Kind == nodesnoop.IO {
			return ""
		}
		return text(e)
	})
}

// asked returns a text that requests and other operations have.
func asked(text func(*nodesnoop.Event) string) func(*rows, *nodesnoop.Event) string {
	return func(_ *rows, e *nodesnoop.Event) string {
		if s := text(e); s != "" && (e.Kind.IsRequest() || e.Kind == nodesnoop.IO) {
			return s
		}
		return "-"
	}
}

// target returns a request's path, or all of what an operation is on.
func target(e *nodesnoop.Event) string {
	if e.Kind == nodesnoop.IO {
		return e.URL
	}
	return nodesnoop.Path(e.URL)
}

// which says how a request or operation ended, or which kind of collection it was.
func which(e *nodesnoop.Event) string {
	switch {
	case e.Kind == nodesnoop.GC:
		return e.Collection
	case e.Kind == nodesnoop.LoopRun:
		return "-"
	case e.Kind == nodesnoop.IO && e.Failure != "":
		return e.Failure
	case e.EndLost:
		return e.Outcome.String() + "?"
	}
	return e.Outcome.String()
}

// cut marks a target that is longer than what is shown.
func cut(e *nodesnoop.Event) string {
	if e.URLBytes > len(e.URL) {
		return "..."
	}
	return ""
}

func address(p nodesnoop.Peer) string {
	if p.Addr != (netip.Addr{}) {
		return p.Addr.String()
	}
	return p.Path
}

// ms returns a duration in milliseconds.
func ms(d time.Duration) string {
	return strconv.FormatFloat(float64(d)/float64(time.Millisecond), 'f', 3, 64) + "ms"
}

// parseColumns returns the columns of a list of names.
func parseColumns(list string) ([]column, error) {
	var chosen []column
	for _, name := range strings.Split(list, ",") {
		i := slices.IndexFunc(columns, func(c column) bool { return strings.EqualFold(c.name, strings.TrimSpace(name)) })
		if i < 0 {
			return nil, cli.Usagef("-o: no column %q (columns: %s)", name, strings.Join(names(), ", "))
		}
		chosen = append(chosen, columns[i])
	}
	return chosen, nil
}

func names() []string {
	var all []string
	for _, c := range columns {
		all = append(all, c.name)
	}
	return all
}

// rows prints events as lines of columns.
type rows struct {
	columns  []column
	absolute bool
	start    time.Time
	headed   bool
	buffer   []byte // of the last line, to be used again
}

// time returns when something was: of the day, or in seconds since the start.
func (r *rows) time(t time.Time) string {
	if r.absolute {
		return t.Format("15:04:05.000000")
	}
	seconds := strconv.FormatFloat(t.Sub(r.start).Seconds(), 'f', 6, 64)
	return "[" + blanks[:max(0, secondsWidth-len(seconds))] + seconds + "]"
}

const secondsWidth = 11

// timeWidth returns how wide that is.
func (r *rows) timeWidth() int { return len(r.time(time.Time{})) }

func (r *rows) begin() { r.start = time.Now() }

func (r *rows) event(w io.Writer, e *nodesnoop.Event) error { return r.print(w, e) }

func (r *rows) end(io.Writer) error { return nil }

func (r *rows) print(w io.Writer, e *nodesnoop.Event) error {
	if !r.headed {
		r.headed = true
		if err := r.line(w, func(c column) string { return c.name }); err != nil {
			return err
		}
	}
	if err := r.line(w, func(c column) string { return printable.String(c.text(r, e)) }); err != nil {
		return err
	}
	return writeFrames(w, e.Frames)
}

// line prints a line; fmt would take most of the time that an event costs.
func (r *rows) line(w io.Writer, text func(column) string) error {
	b := r.buffer[:0]
	for i, c := range r.columns {
		if i > 0 {
			b = append(b, ' ')
		}
		s := text(c)
		padding := blanks[:min(len(blanks), max(0, c.width-utf8.RuneCountInString(s)))]
		switch {
		case c.right:
			b = append(append(b, padding...), s...)
		case i == len(r.columns)-1:
			b = append(b, s...)
		default:
			b = append(append(b, s...), padding...)
		}
	}
	b = append(b, '\n')
	r.buffer = b
	if _, err := w.Write(b); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return nil
}

// blanks fill the widest column.
const blanks = "                                "
