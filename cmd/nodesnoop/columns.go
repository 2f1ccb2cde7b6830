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

// A column shows one thing about each event. It appends its text, which takes half the time
// that joining strings does.
type column struct {
	name   string
	width  int // at least; 0: as wide as the text, for the last one
	right  bool
	append func(b []byte, r *rows, e *nodesnoop.Event) []byte
}

// columns are all columns.
var columns = []column{
	{"TIME", 13, false, func(b []byte, r *rows, e *nodesnoop.Event) []byte { return r.appendTime(b, e.Begun.Add(e.Latency)) }},
	{"PID", 7, true, func(b []byte, _ *rows, e *nodesnoop.Event) []byte { return strconv.AppendInt(b, int64(e.PID), 10) }},
	{"THREAD", 7, true, func(b []byte, _ *rows, e *nodesnoop.Event) []byte { return strconv.AppendInt(b, int64(e.TID), 10) }},
	{"PROBE", 6, false, func(b []byte, _ *rows, e *nodesnoop.Event) []byte { return append(b, e.Kind.String()...) }},
	{"LATENCY", 11, true, func(b []byte, _ *rows, e *nodesnoop.Event) []byte { return appendMS(b, e.Latency) }},
	{"TTFB", 11, true, request(func(b []byte, e *nodesnoop.Event) []byte {
		if e.Status == 0 {
			return b
		}
		return appendMS(b, e.TTFB)
	})},
	{"GC", 9, true, request(func(b []byte, e *nodesnoop.Event) []byte { return appendMS(b, e.GC) })},
	{"BUSY", 11, true, request(func(b []byte, e *nodesnoop.Event) []byte {
		if e.Busy < 0 {
			return b
		}
		return appendMS(b, e.Busy)
	})},
	{"WAIT", 11, true, func(b []byte, _ *rows, e *nodesnoop.Event) []byte {
		if e.Run == 0 {
			return append(b, '-')
		}
		return appendMS(b, e.Wait)
	}},
	{"METHOD", 7, false, asked(func(b []byte, e *nodesnoop.Event) []byte { return append(b, e.Method...) })},
	{"STATUS", 6, false, request(func(b []byte, e *nodesnoop.Event) []byte {
		if e.Status == 0 {
			return b
		}
		return strconv.AppendInt(b, int64(e.Status), 10)
	})},
	{"BYTES", 9, true, request(func(b []byte, e *nodesnoop.Event) []byte { return strconv.AppendUint(b, e.Bytes, 10) })},
	{"RADDR", 15, false, asked(func(b []byte, e *nodesnoop.Event) []byte { return append(b, address(e.Peer)...) })},
	{"RPORT", 5, true, asked(func(b []byte, e *nodesnoop.Event) []byte {
		if e.Peer.Port == 0 {
			return b
		}
		return strconv.AppendInt(b, int64(e.Peer.Port), 10)
	})},
	{"HOST", 24, false, request(func(b []byte, e *nodesnoop.Event) []byte { return append(b, e.Host...) })},
	{"WHICH", 8, false, func(b []byte, _ *rows, e *nodesnoop.Event) []byte { return append(b, which(e)...) }},
	{"ROUTE", 24, false, request(func(b []byte, e *nodesnoop.Event) []byte {
		return append(append(b, nodesnoop.Route(nodesnoop.Path(e.URL))...), cut(e)...)
	})},
	{"PATH", 24, false, asked(func(b []byte, e *nodesnoop.Event) []byte { return append(append(b, target(e)...), cut(e)...) })},
	{"URL", 24, false, asked(func(b []byte, e *nodesnoop.Event) []byte { return append(append(b, e.URL...), cut(e)...) })},
}

// ioMethodWidth is that of METHOD where it has operations too, of which dns.lookupService is long.
const ioMethodWidth = 17

// usual are the columns that are shown if none are named.
const usual = "TIME,PID,PROBE,LATENCY,STATUS,METHOD,PATH"

// request returns a column's text that only requests have; others have a dash.
func request(text func([]byte, *nodesnoop.Event) []byte) func([]byte, *rows, *nodesnoop.Event) []byte {
	return asked(func(b []byte, e *nodesnoop.Event) []byte {
		if e.Kind == nodesnoop.IO {
			return b
		}
		return text(b, e)
	})
}

// asked returns a column's text that requests and other operations have; others have a dash.
func asked(text func([]byte, *nodesnoop.Event) []byte) func([]byte, *rows, *nodesnoop.Event) []byte {
	return func(b []byte, _ *rows, e *nodesnoop.Event) []byte {
		if e.Kind.IsRequest() || e.Kind == nodesnoop.IO {
			if with := text(b, e); len(with) > len(b) {
				return with
			}
		}
		return append(b, '-')
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
	case e.Kind == nodesnoop.LoopRun, e.Outcome == nodesnoop.Unknown:
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
func ms(d time.Duration) string { return string(appendMS(nil, d)) }

func appendMS(b []byte, d time.Duration) []byte {
	return append(appendMicros(b, d, 1000), "ms"...)
}

// appendMicros appends a duration in units of so many microseconds, a power of ten, with all
// its decimals.
func appendMicros(b []byte, d time.Duration, unit int64) []byte {
	micros := d.Round(time.Microsecond).Microseconds()
	if micros < 0 {
		b, micros = append(b, '-'), -micros
	}
	b = strconv.AppendInt(b, micros/unit, 10)
	point := len(b)
	b = strconv.AppendInt(b, unit+micros%unit, 10)
	b[point] = '.' // for the one
	return b
}

// parseColumns returns the columns of a list of names.
func parseColumns(list string, io bool) ([]column, error) {
	var chosen []column
	for _, name := range strings.Split(list, ",") {
		i := slices.IndexFunc(columns, func(c column) bool { return strings.EqualFold(c.name, strings.TrimSpace(name)) })
		if i < 0 {
			return nil, cli.Usagef("-o: no column %q (columns: %s)", name, strings.Join(names(), ", "))
		}
		c := columns[i]
		if io && c.name == "METHOD" {
			c.width = ioMethodWidth
		}
		chosen = append(chosen, c)
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
	// The last line and the last column, to be used again.
	buffer, cell []byte
}

// time returns when something was: of the day, or in seconds since the start.
func (r *rows) time(t time.Time) string { return string(r.appendTime(nil, t)) }

func (r *rows) appendTime(b []byte, t time.Time) []byte {
	if r.absolute {
		return t.AppendFormat(b, "15:04:05.000000")
	}
	var space [32]byte
	seconds := appendMicros(space[:0], t.Sub(r.start), 1_000_000)
	b = append(append(b, '['), blanks[:max(0, secondsWidth-len(seconds))]...)
	return append(append(b, seconds...), ']')
}

const secondsWidth = 11

// timeWidth returns how wide that is.
func (r *rows) timeWidth() int { return len(r.time(r.start)) }

func (r *rows) begin() { r.start = time.Now() }

func (r *rows) event(w io.Writer, e *nodesnoop.Event) error { return r.print(w, e) }

func (r *rows) end(io.Writer) error { return nil }

func (r *rows) print(w io.Writer, e *nodesnoop.Event) error {
	if !r.headed {
		r.headed = true
		if err := r.line(w, func(b []byte, c *column) []byte { return append(b, c.name...) }); err != nil {
			return err
		}
	}
	if err := r.line(w, func(b []byte, c *column) []byte { return printable.Bytes(c.append(b, r, e)) }); err != nil {
		return err
	}
	return writeFrames(w, e.Frames)
}

// line prints a line; fmt would take most of the time that an event costs.
func (r *rows) line(w io.Writer, appendText func([]byte, *column) []byte) error {
	b := r.buffer[:0]
	for i := range r.columns {
		c := &r.columns[i]
		if i > 0 {
			b = append(b, ' ')
		}
		r.cell = appendText(r.cell[:0], c)
		padding := blanks[:min(len(blanks), max(0, c.width-utf8.RuneCount(r.cell)))]
		switch {
		case c.right:
			b = append(append(b, padding...), r.cell...)
		case i == len(r.columns)-1:
			b = append(b, r.cell...)
		default:
			b = append(append(b, r.cell...), padding...)
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
