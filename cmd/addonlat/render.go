package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"time"

	"ustack/symbolize"
	"ustack/tools/addonlat"
	"ustack/tools/profile"
	"ustack/tools/quantize"
)

// A view says how to write a report: by default, as DTrace would draw the
// totals.
type view struct {
	unit  quantize.Unit
	split bool
	table bool
	json  bool
	tiers bool // after the names of functions, in stacks
	timed bool // print the time, because several reports follow
}

// parts are the titles of the parts of a job's time.
var parts = []string{"total", "wait", "run", "delivery"}

// write writes the report of what was measured until at.
func (v view) write(w io.Writer, r *addonlat.Report, at time.Time) error {
	var out bytes.Buffer
	if err := v.render(&out, r, at); err != nil {
		return err
	}
	if _, err := w.Write(out.Bytes()); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

func (v view) render(out *bytes.Buffer, r *addonlat.Report, at time.Time) error {
	if v.json {
		e := json.NewEncoder(out)
		e.SetEscapeHTML(false)
		return e.Encode(v.object(r, at))
	}
	if v.timed {
		fmt.Fprintf(out, "%s\n\n", at.Format(time.DateTime))
	}
	shown := v.draw
	if v.table {
		shown = v.tabulate
	}
	if err := shown(out, r); err != nil {
		return err
	}
	if v.table {
		var rest bytes.Buffer
		v.writeRest(&rest, r)
		wrap(out, rest.String())
	} else {
		v.writeRest(out, r)
	}
	if v.timed {
		out.WriteByte('\n')
	}
	return nil
}

// writeRest writes what follows the distributions: a line for each pool, and
// one for each problem.
func (v view) writeRest(out *bytes.Buffer, r *addonlat.Report) {
	for _, p := range r.Pools {
		fmt.Fprintln(out, poolLine(p))
	}
	withPID := several(r)
	for i := range r.Kinds {
		if k := &r.Kinds[i]; k.Cancelled > 0 || k.Failed > 0 {
			fmt.Fprintf(out, "of %d jobs, cancelled %d, failed %d: %s\n", k.Count, k.Cancelled, k.Failed, v.name(k, withPID))
		}
	}
	if r.Lost > 0 {
		fmt.Fprintf(out, "lost: %d kinds, because there was no room for their names\n", r.Lost)
	}
	if r.Unfollowed > 0 {
		fmt.Fprintf(out, "not followed: %d jobs, because more were in flight than there is room for\n", r.Unfollowed)
	}
}

// wrap writes lines of text at the width of a table: longer ones continue on
// further lines, after a comma or a colon; what still does not fit is cut.
func wrap(out *bytes.Buffer, text string) {
	const width = 100 // columns, as in a table
	for line := range strings.Lines(text) {
		rest := []rune(strings.TrimSuffix(line, "\n"))
		for len(rest) > width {
			head := string(rest[:width])
			at := max(strings.LastIndex(head, ", "), strings.LastIndex(head, ": "))
			if at < 0 {
				rest = append(rest[:width-1], '…')
				break
			}
			fmt.Fprintln(out, head[:at+1])
			rest = append([]rune("    "), rest[len([]rune(head[:at+2])):]...)
		}
		fmt.Fprintln(out, string(rest))
	}
}

// draw writes the totals, or all parts, in DTrace's layout and order.
func (v view) draw(out *bytes.Buffer, r *addonlat.Report) error {
	withPID := several(r)
	entries := make([]quantize.Entry, 0, len(r.Kinds))
	for i := range r.Kinds {
		k := &r.Kinds[i]
		entry := quantize.Entry{Key: key(k), Stack: v.stack(k.Stack), Distribution: k.Total.Powers()}
		if withPID { // DTrace's form of a key with two parts: a number, then a string
			entry.Key = fmt.Sprintf("%7d  %-50s", k.PID, entry.Key)
		}
		if k.Linear != nil {
			entry.Distribution = k.Linear
		}
		if v.split {
			entry.Parts = split(k, entry.Distribution)
		}
		entries = append(entries, entry)
	}
	return quantize.Print(out, v.unit, entries)
}

func split(k *addonlat.Kind, total quantize.Distribution) []quantize.Part {
	all := []quantize.Distribution{total, k.Wait.Powers(), k.Run.Powers(), k.Delivery.Powers()}
	titled := make([]quantize.Part, len(parts))
	for i, title := range parts {
		titled[i] = quantize.Part{Title: title, Distribution: all[i]}
	}
	return titled
}

// tabulate writes a table. As in a drawing, what took the most total time comes
// last.
func (v view) tabulate(out *bytes.Buffer, r *addonlat.Report) error {
	withPID := several(r)
	kinds := make([]*addonlat.Kind, len(r.Kinds))
	for i := range r.Kinds {
		kinds[i] = &r.Kinds[i]
	}
	slices.SortStableFunc(kinds, func(a, b *addonlat.Kind) int { return cmp.Compare(a.Total.Sum, b.Total.Sum) })
	table := quantize.Table{Unit: v.unit, Parts: parts}
	for _, k := range kinds {
		row := quantize.TableRow{Key: v.name(k, false), Histograms: []*quantize.Histogram{&k.Total, &k.Wait, &k.Run, &k.Delivery}}
		if withPID {
			row.Prefix = fmt.Sprintf("%d  ", k.PID)
		}
		table.Rows = append(table.Rows, row)
	}
	if err := table.Write(out); err != nil {
		return err
	}
	out.WriteByte('\n')
	return nil
}

// key is a kind's name, safe to print; empty if its stack identifies it.
func key(k *addonlat.Kind) string {
	if len(k.Stack) > 0 {
		return ""
	}
	return profile.Label(symbolize.Frame{Name: k.Key})
}

// name is a kind's key or stack on one line.
func (v view) name(k *addonlat.Kind, withPID bool) string {
	text := key(k) + strings.Join(v.stack(k.Stack), ";")
	if withPID {
		return fmt.Sprintf("%d  %s", k.PID, text)
	}
	return text
}

// several reports whether the report is about more than one process.
func several(r *addonlat.Report) bool {
	pids := make(map[int]bool)
	for _, k := range r.Kinds {
		pids[k.PID] = true
	}
	for _, p := range r.Pools {
		pids[p.PID] = true
	}
	return len(pids) > 1
}

// stack returns the frames as lines of text, leaf first: native ones as in
// DTrace, module`function.
func (v view) stack(frames []symbolize.Frame) []string {
	lines := make([]string, len(frames))
	for i, f := range frames {
		if f.Kind == symbolize.Native && f.Name != "" && f.Module != "" {
			f.Name = path.Base(f.Module) + "`" + f.Name
		}
		if v.tiers {
			f = profile.WithTier(f)
		}
		lines[i] = profile.Label(f)
	}
	return lines
}

// inFlight is the number of jobs in flight, if it is known.
func inFlight(p addonlat.Pool) string {
	if p.Unseen {
		return "unknown (see the warnings)"
	}
	return fmt.Sprint(p.InFlight)
}

// poolLine returns a line about a pool. Unusual facts appear only if they
// apply.
func poolLine(p addonlat.Pool) string {
	facts := []string{
		fmt.Sprintf("pool of %d: threads %d", p.PID, p.Threads),
		fmt.Sprintf("busy %.1f%%", p.Busy*100),
		fmt.Sprintf("deepest queue %d", p.Deepest),
		fmt.Sprintf("submitted %d", p.Submitted),
		fmt.Sprintf("completed %d", p.Completed),
		fmt.Sprintf("cancelled %d", p.Cancelled),
		fmt.Sprintf("failed %d", p.Failed),
		"in flight " + inFlight(p),
	}
	for _, fact := range []struct {
		what  string
		count uint64
	}{
		{"slow-I/O quota reached", p.SlowQuota},
		{"begun before", p.Before},
		{"io_uring", p.Uring},
	} {
		if fact.count > 0 {
			facts = append(facts, fmt.Sprintf("%s %d", fact.what, fact.count))
		}
	}
	return strings.Join(facts, ", ")
}
