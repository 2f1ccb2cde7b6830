package jscore

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"ustack/symbolize/v8"
	"ustack/symbolize/v8/heap"
	"ustack/symbolize/v8/value"
)

// A Timer was created by setTimeout, setInterval or setImmediate and has not fired yet.
type Timer struct {
	Object   Address `json:"object"`
	Kind     string  `json:"kind"`               // "timeout", "interval" or "immediate"
	After    float64 `json:"after_ms,omitempty"` // from its start
	Start    float64 `json:"start_ms,omitempty"` // by the event loop's clock, from the thread's start
	Callback Brief   `json:"callback"`
	Place    string  `json:"place,omitempty"` // where the callback is defined
	Unref    bool    `json:"unref,omitempty"` // it does not keep the program running
}

// Timers are a process's timers, in the order of Node.js's lists.
type Timers struct {
	Timers []Timer `json:"timers"`
}

// Timers finds the pending timers.
func (d *Dump) Timers(g *Graph) *Timers {
	timers := &Timers{Timers: []Timer{}}
	for id := range heap.ID(g.Len()) {
		o := g.Object(id)
		if o.Map.Kind != "JSObject" || !g.IsLive(id) {
			continue
		}
		switch class, _ := d.v8.Heap.Class(o); class {
		case "TimersList":
			d.addTimers(timers, o)
		case "Immediate":
			d.addImmediate(timers, o)
		}
	}
	return timers
}

// addTimers adds the timers of one list, all of which have the same duration. It is a
// ring that includes the list itself.
func (d *Dump) addTimers(timers *Timers, list v8.Object) {
	next, ok, _ := d.v8.Heap.Own(list, "_idleNext")
	for n := 0; ok && next.IsObject() && next.Address() != list.Address && n < maxListed; n++ {
		o, err := d.v8.Heap.Object(next)
		if err != nil {
			return // what came before has been read
		}
		if t, ok := d.timer(o); ok {
			timers.Timers = append(timers.Timers, t)
		}
		next, ok, _ = d.v8.Heap.Own(o, "_idleNext")
	}
}

func (d *Dump) timer(o v8.Object) (Timer, bool) {
	h := d.v8.Heap
	t := Timer{Object: Address(o.Ref()), Kind: "timeout"}
	callback, ok, _ := h.Own(o, "_onTimeout")
	if !ok || h.Oddball(callback) != "" {
		return t, false
	}
	t.Callback, t.Place = value.BriefOf(h, callback), d.definedAt(callback)
	t.After, t.Start = d.ownNumber(o, "_idleTimeout"), d.ownNumber(o, "_idleStart")
	if repeat, ok, _ := h.Own(o, "_repeat"); ok && h.Oddball(repeat) == "" {
		t.Kind = "interval"
	}
	t.Unref = d.isFalse(o, "refed")
	return t, true
}

func (d *Dump) addImmediate(timers *Timers, o v8.Object) {
	h := d.v8.Heap
	callback, ok, _ := h.Own(o, "_onImmediate")
	if destroyed, _, _ := h.Own(o, "_destroyed"); !ok || h.Oddball(callback) != "" || h.Oddball(destroyed) == "true" {
		return
	}
	timers.Timers = append(timers.Timers, Timer{
		Object: Address(o.Ref()), Kind: "immediate", Callback: value.BriefOf(h, callback), Place: d.definedAt(callback),
		Unref: d.isFalse(o, "refed"),
	})
}

// isFalse reports whether o's property whose key is a symbol with that description is
// false.
func (d *Dump) isFalse(o v8.Object, symbol string) bool {
	properties, _ := d.v8.Heap.Properties(o) // what cannot be read is not false
	for _, p := range properties {
		if p.Symbol && p.Name == symbol {
			return d.v8.Heap.Oddball(p.Value) == "false"
		}
	}
	return false
}

func (d *Dump) ownNumber(o v8.Object, name string) float64 {
	v, _, _ := d.v8.Heap.Own(o, name)
	n, _ := d.v8.Heap.Number(v)
	return n
}

// definedAt returns where a function is defined; empty if the value is not a function.
func (d *Dump) definedAt(function v8.Value) string {
	f, err := d.functionOf(function)
	if err != nil {
		return ""
	}
	return d.place(f)
}

// WriteText writes a line for each timer.
func (l *Timers) WriteText(w io.Writer) error {
	var b strings.Builder
	for _, t := range l.Timers {
		kind := t.Kind
		if t.Kind != "immediate" {
			kind += " " + value.FormatNumber(t.After) + " ms"
		}
		if t.Unref {
			kind += ", unref"
		}
		fmt.Fprintf(&b, "%s %s: %s %s", t.Object, kind, t.Callback.Address, cmp.Or(t.Callback.Text, t.Callback.Kind))
		if t.Place != "" {
			b.WriteString(" at " + t.Place)
		}
		b.WriteByte('\n')
	}
	if len(l.Timers) == 0 {
		b.WriteString("no timers\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Addresses returns the addresses of the timers' objects.
func (l *Timers) Addresses() []v8.Value {
	values := make([]v8.Value, len(l.Timers))
	for i, t := range l.Timers {
		values[i] = v8.Value(t.Object)
	}
	return values
}
