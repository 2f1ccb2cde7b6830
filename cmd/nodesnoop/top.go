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

// Sizes of a screen.
const (
	topGroups = 15
	topSlow   = 5
	topKey    = 48 // columns of a key
	leastKey  = 8  // columns of a key in a narrow terminal
	besideKey = 63 // columns of a group without its key
	aboveKey  = 4  // rows above the groups
	belowKey  = 9  // rows below the groups: how many more there are, and the slowest requests
	leastKeys = 5  // groups that are shown before the slowest requests are
)

// A top shows, at each interval, what there was in it.
type top struct {
	nodesnoop.Summary
	kinds nodesnoop.Kinds
	rows  rows
	size  func() (rows, columns int) // of the terminal, which is cleared before each screen; nil if the output is not one
	begun time.Time
	shown bool              // there was a screen
	slow  []nodesnoop.Event // the slowest requests, slowest first
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

// end writes what there was in the interval that has not ended. It leaves a terminal's last screen.
func (t *top) end(w io.Writer) error {
	if t.begun.IsZero() || t.shown && t.size != nil || len(t.Groups()) == 0 {
		return nil
	}
	return t.report(w, nil, time.Now())
}

const clearScreen = "\x1b[H\x1b[2J"

// report writes a screen, and begins the next interval.
func (t *top) report(w io.Writer, loops []nodesnoop.Loop, now time.Time) error {
	rowCount, columns := 0, besideKey+topKey
	if t.size != nil {
		rowCount, columns = t.size()
	}
	var b bytes.Buffer
	seconds := now.Sub(t.begun).Seconds()
	t.head(&b, loops, now, seconds)
	t.groups(&b, seconds, groupsIn(rowCount), max(leastKey, min(topKey, columns-besideKey)))
	if len(t.slow) > 0 {
		b.WriteString("\nSlowest:\n")
		t.rows.headed = false
		for i := range t.slow {
			if err := t.rows.print(&b, &t.slow[i]); err != nil {
				return err
			}
		}
	}
	t.Summary, t.slow, t.begun, t.shown = nodesnoop.Summary{By: t.By}, nil, now, true
	screen := b.String() + "\n"
	if t.size != nil {
		screen = clearScreen + fit(b.String(), rowCount-1, columns)
	}
	if _, err := io.WriteString(w, screen); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return nil
}

// groupsIn returns how many groups there is room for in so many rows; 0: as many as usual.
func groupsIn(rows int) int {
	if rows == 0 {
		return topGroups
	}
	room := rows - 1 - aboveKey
	if room >= leastKeys+belowKey {
		room -= belowKey
	}
	return max(1, min(topGroups, room))
}

// fit cuts a text to so many rows and columns.
func fit(text string, rows, columns int) string {
	lines := strings.SplitAfter(text, "\n")
	lines = lines[:min(len(lines), max(rows, 1))]
	for i, line := range lines {
		if runes := []rune(strings.TrimSuffix(line, "\n")); len(runes) > columns {
			lines[i] = string(runes[:columns]) + "\n"
		}
	}
	return strings.Join(lines, "")
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
	var rest []string
	if t.kinds.GC {
		gc := t.Total(nodesnoop.GC)
		rest = append(rest, fmt.Sprintf("GC %.1f/s, %.1f%% of the time", float64(gc.Latency.Count)/seconds, gc.Time().Seconds()/seconds*100))
	}
	slices.SortFunc(loops, func(a, b nodesnoop.Loop) int { return a.PID - b.PID })
	for i, l := range loops {
		if i == topGroups {
			rest = append(rest, fmt.Sprintf("and %d more", len(loops)-i))
			break
		}
		rest = append(rest, fmt.Sprintf("event loop of %d %.1f%%", l.PID, l.Utilization*100))
	}
	fmt.Fprintf(b, "\n%s\n\n", strings.Join(rest, "   "))
}

// groups writes the groups with most time, at most so many, with keys of so many columns.
func (t *top) groups(b *bytes.Buffer, seconds float64, most, columns int) {
	fmt.Fprintf(b, "%-6s %-*s %9s %9s %11s %11s %11s\n", "PROBE", columns, strings.ToUpper(nodesnoop.Bys[t.By]), "PER SEC", "ERRORS", "P50", "P99", "MAX")
	groups := t.Groups()
	for i, g := range groups {
		if i == most {
			fmt.Fprintf(b, "and %d more\n", len(groups)-i)
			break
		}
		key := []rune(printable.String(g.Key))
		if len(key) > columns {
			key = append(key[:columns-1], '…')
		}
		h := &g.Latency
		fmt.Fprintf(b, "%-6v %-*s %9.1f %9d %11s %11s %11s\n", g.Kind, columns, string(key), float64(h.Count)/seconds, g.Errors,
			ms(time.Duration(h.Percentile(50))), ms(time.Duration(h.Percentile(99))), ms(time.Duration(h.Max)))
	}
}
