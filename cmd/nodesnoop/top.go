package main

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"ustack/tools/nodesnoop"
	"ustack/tools/printable"
)

// Lines of a screen.
const (
	topGroups = 15
	topSlow   = 5
	topKey    = 48 // columns of a key
)

// A top shows, at each interval, what there was in it.
type top struct {
	nodesnoop.Summary
	rows     rows
	terminal bool // clear it before each screen
	begun    time.Time
	slow     []nodesnoop.Event // the slowest requests, slowest first
}

func (t *top) begin() { t.begun, t.rows.start = time.Now(), time.Now() }

func (t *top) event(_ io.Writer, e *nodesnoop.Event) error {
	t.Add(e)
	if !e.Kind.IsRequest() || len(t.slow) == topSlow && e.Latency <= t.slow[topSlow-1].Latency {
		return nil
	}
	at, _ := slices.BinarySearchFunc(t.slow, e.Latency, func(x nodesnoop.Event, l time.Duration) int { return int(l - x.Latency) })
	t.slow = slices.Insert(t.slow, at, *e)
	t.slow = t.slow[:min(len(t.slow), topSlow)]
	return nil
}

func (t *top) end(io.Writer) error { return nil }

const clearScreen = "\x1b[H\x1b[2J"

// report writes a screen, and begins the next interval.
func (t *top) report(w io.Writer, loops []nodesnoop.Loop, now time.Time) error {
	var b bytes.Buffer
	if t.terminal {
		b.WriteString(clearScreen)
	}
	seconds := now.Sub(t.begun).Seconds()
	t.head(&b, loops, now, seconds)
	t.groups(&b, seconds)
	if len(t.slow) > 0 {
		b.WriteString("\nSlowest:\n")
		t.rows.headed = false
		for i := range t.slow {
			if err := t.rows.print(&b, &t.slow[i]); err != nil {
				return err
			}
		}
	}
	b.WriteByte('\n')
	t.Summary, t.slow, t.begun = nodesnoop.Summary{By: t.By}, nil, now
	if _, err := w.Write(b.Bytes()); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return nil
}

// head writes what there was in all.
func (t *top) head(b *bytes.Buffer, loops []nodesnoop.Loop, now time.Time, seconds float64) {
	fmt.Fprintf(b, "%s", now.Format("15:04:05"))
	for _, kind := range []nodesnoop.Kind{nodesnoop.Server, nodesnoop.Client} {
		total := t.Total(kind)
		h := &total.Latency
		if h.Count == 0 {
			continue
		}
		fmt.Fprintf(b, "   %v %.1f/s, %.1f errors/s, p50 %s, p99 %s", kind, float64(h.Count)/seconds, float64(total.Errors)/seconds,
			ms(time.Duration(h.Percentile(50))), ms(time.Duration(h.Percentile(99))))
	}
	gc := t.Total(nodesnoop.GC)
	fmt.Fprintf(b, "\nGC %.1f/s, %.1f%% of the time", float64(gc.Latency.Count)/seconds, gc.Time().Seconds()/seconds*100)
	slices.SortFunc(loops, func(a, b nodesnoop.Loop) int { return a.PID - b.PID })
	for i, l := range loops {
		if i == topGroups {
			fmt.Fprintf(b, "   and %d more", len(loops)-i)
			break
		}
		fmt.Fprintf(b, "   event loop of %d %.1f%%", l.PID, l.Utilization*100)
	}
	b.WriteString("\n\n")
}

// groups writes the groups with most time.
func (t *top) groups(b *bytes.Buffer, seconds float64) {
	fmt.Fprintf(b, "%-6s %-*s %9s %9s %11s %11s %11s\n", "PROBE", topKey, strings.ToUpper(nodesnoop.Bys[t.By]), "PER SEC", "ERRORS", "P50", "P99", "MAX")
	groups := t.Groups()
	for i, g := range groups {
		if i == topGroups {
			fmt.Fprintf(b, "and %d more\n", len(groups)-i)
			break
		}
		key := []rune(printable.String(g.Key))
		if len(key) > topKey {
			key = append(key[:topKey-1], '…')
		}
		h := &g.Latency
		fmt.Fprintf(b, "%-6v %-*s %9.1f %9d %11s %11s %11s\n", g.Kind, topKey, string(key), float64(h.Count)/seconds, g.Errors,
			ms(time.Duration(h.Percentile(50))), ms(time.Duration(h.Percentile(99))), ms(time.Duration(h.Max)))
	}
}
