package main

import (
	"bytes"
	"io"
	"strconv"
	"strings"
	"testing"
	"time"

	"ustack/symbolize"
	"ustack/tools/event"
	"ustack/tools/logsnoop"
	"ustack/tools/record"
)

func newView(t testing.TB, format string) *view {
	t.Helper()
	f, err := record.NewFormat(format, false)
	if err != nil {
		t.Fatal(err)
	}
	return &view{format: f}
}

// shown returns what a view shows of events.
func shown(t *testing.T, v *view, events ...*logsnoop.Event) string {
	t.Helper()
	var b bytes.Buffer
	for _, e := range events {
		if err := v.write(&b, e); err != nil {
			t.Fatal(err)
		}
	}
	return b.String()
}

const bunyanLine = `{"name":"app","hostname":"vm","pid":7,"level":20,"n":8,"msg":"something","time":"2026-11-24T13:27:27.829Z","v":0}`

var bunyanProbe = &event.Description{Provider: "bunyan", Name: "log-debug"}

func TestEventsAreShown(t *testing.T) {
	at := time.Date(2026, 11, 24, 13, 0, 0, 0, time.Local)
	for name, tt := range map[string]struct {
		event logsnoop.Event
		want  string
	}{
		"record":     {logsnoop.Event{Text: bunyanLine}, "DEBUG - something\n"},
		"of a probe": {logsnoop.Event{Text: bunyanLine + "\n", Probe: bunyanProbe}, "DEBUG - something\n"},
		"plain":      {logsnoop.Event{Text: "a\x1b[2J\x00\xff"}, `a\x1b[2J\x00\xff` + "\n"},
		"carriage":   {logsnoop.Event{Text: "a\r"}, "a\n"},
		"half JSON":  {logsnoop.Event{Text: `{"level":30,`, Cut: true}, "{\"level\":30,…\n"},
		"with a stack": {logsnoop.Event{Text: "a", Frames: []symbolize.Frame{
			{Kind: symbolize.JS, Name: "f\x1b", File: "a.js", Line: 1, Column: 2}, {Kind: symbolize.Typed, Name: "internal"},
		}}, "a\n        at f\\x1b a.js:1:2\n"},
		"own probe": {logsnoop.Event{Time: at, PID: 7, Probe: &event.Description{Provider: "shop", Name: "sold"}, Arguments: []logsnoop.Argument{
			{Value: 1 << 40, Text: "Äpfel\n\u202e", IsText: true},
			{Value: ^uint64(6), Signed: true},
			{Value: 1 << 40, Text: "\x01\x02", IsText: true},
			{Value: 9},
			{Value: 1 << 40, Text: "red \x1b[31m", IsText: true},
			{Value: 1 << 40, Text: "é\u009b", IsText: true},
		}}, `13:00:00.000000  7  shop:sold("Äpfel\n\u202e", -7, 0x10000000000, 9, "red \x1b[31m", "é\u009b")` + "\n"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := shown(t, newView(t, "simple"), &tt.event); got != tt.want {
				t.Errorf("shown = %q, want %q", got, tt.want)
			}
		})
	}
}

func TestEventsAreLeftOut(t *testing.T) {
	written, probed := &logsnoop.Event{Text: bunyanLine}, &logsnoop.Event{Text: bunyanLine, Probe: bunyanProbe}
	plain := &logsnoop.Event{Text: "plain"}
	condition := func(text string) *record.Condition {
		c, err := record.NewCondition(text)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	for name, tt := range map[string]struct {
		change func(*view)
		want   int // lines
	}{
		"all":             {func(*view) {}, 3},
		"both":            {func(v *view) { v.both = true }, 2},
		"strict":          {func(v *view) { v.strict = true }, 2},
		"level":           {func(v *view) { v.level = record.Info }, 1},
		"same level":      {func(v *view) { v.level = record.Debug }, 3},
		"condition":       {func(v *view) { v.condition = condition("this.n == 8") }, 3},
		"other condition": {func(v *view) { v.condition = condition("this.n == 9") }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			v := newView(t, "bunyan")
			tt.change(v)
			if got := strings.Count(shown(t, v, written, probed, plain), "\n"); got != tt.want {
				t.Errorf("%d lines, want %d", got, tt.want)
			}
		})
	}
}

// TestRecordsThatComeTwiceAreShownOnce has records of which a probe has some and files have others, in
// any order: each letter is a record, written to a file or of a probe.
func TestRecordsThatComeTwiceAreShownOnce(t *testing.T) {
	for events, want := range map[string]int{
		"p": 1, "a": 1, "pa": 1, "ap": 1, "ppaa": 2, "apap": 2, "aapp": 2, "papa": 2, "aa": 2, "ppa": 2, "paa": 2,
		"ab": 2, "pab": 1, "apb": 1, "abp": 2, "o": 1, "po": 2,
	} {
		v := newView(t, "bunyan")
		v.both = true
		var all []*logsnoop.Event
		for _, kind := range events {
			e := &logsnoop.Event{PID: 7, Text: bunyanLine}
			switch kind {
			case 'p':
				e.Probe, e.Text = bunyanProbe, bunyanLine+"\n"
			case 'o': // of another process
				e.PID = 8
			default:
				e.FD = int(kind)
			}
			all = append(all, e)
		}
		if got := strings.Count(shown(t, v, all...), "\n"); got != want {
			t.Errorf("%s: %d lines, want %d", events, got, want)
		}
	}
}

func TestCopiesAreBounded(t *testing.T) {
	var c copies
	const records = maxCopies
	for i := range records {
		line := strconv.Itoa(i)
		if c.isCopy(&logsnoop.Event{Probe: bunyanProbe}, line) || !c.isCopy(&logsnoop.Event{}, line) {
			t.Fatalf("record %d: the first is a copy, or the second is not", i)
		}
	}
	if n := len(c.counts) + len(c.older); n > 2*maxCopies {
		t.Errorf("%d counts are kept, want %d at most", n, 2*maxCopies)
	}
}

func TestProbesOfLowerLevelsAreLeftAlone(t *testing.T) {
	for name, want := range map[string]bool{"log-debug": false, "log-info": true, "log-fatal": true, "log-": true, "other": true, "log-x": true} {
		if got := atLeast(record.Info, name); got != want {
			t.Errorf("atLeast(info, %s) = %v, want %v", name, got, want)
		}
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestWriterReportsErrors(t *testing.T) {
	w := newWriter(failing{})
	if _, err := io.WriteString(w, "a"); err != nil {
		t.Errorf("Write = %v, want that it waits", err)
	}
	w.flush()
	if _, err := io.WriteString(w, "b"); err == nil {
		t.Error("Write after an error succeeds")
	}
	if w.close() == nil {
		t.Error("close after an error succeeds")
	}
}

func BenchmarkEvent(b *testing.B) {
	for _, format := range []string{"long", "bunyan"} {
		b.Run(format, func(b *testing.B) {
			v, e := newView(b, format), &logsnoop.Event{Text: bunyanLine, Probe: bunyanProbe}
			out := newWriter(io.Discard)
			b.ReportAllocs()
			for b.Loop() {
				if err := v.write(out, e); err != nil {
					b.Fatal(err)
				}
			}
			_ = out.close() // nothing is written
		})
	}
}
