package nodejs

import (
	"ustack/symbolize/v8"
	"ustack/symbolize/v8/heap"
	"ustack/symbolize/v8/value"
)

// A Timer was created by setTimeout, setInterval or setImmediate and has not fired yet.
type Timer struct {
	Object   value.Address `json:"object"`
	Kind     string        `json:"kind"`               // "timeout", "interval" or "immediate"
	After    float64       `json:"after_ms,omitempty"` // from its start
	Start    float64       `json:"start_ms,omitempty"` // by the event loop's clock, from the thread's start
	Callback value.Brief   `json:"callback"`
	Place    string        `json:"place,omitempty"` // where the callback is defined
	Unref    bool          `json:"unref,omitempty"` // it does not keep the program running
	Heap     uint64        `json:"-"`               // of its isolate
}

// Timers returns the pending timers, in the order of Node.js's lists.
func (p *Process) Timers(g *heap.Graph) []Timer {
	timers := []Timer{}
	seen := map[uint64]bool{}
	for id := range heap.ID(g.Len()) {
		o := g.Object(id)
		if o.Map.Kind != "JSObject" || !g.IsLive(id) {
			continue
		}
		before := len(timers)
		switch class, _ := p.v8.Heap.Class(o); class {
		case "TimersList":
			timers = append(timers, p.listTimers(o, seen)...)
		case "Immediate":
			if t, ok := p.immediate(o); ok {
				timers = append(timers, t)
			}
		}
		for i := range timers[before:] {
			timers[before+i].Heap = g.Page(id).Heap
		}
	}
	return timers
}

// listTimers returns the timers of one list, all of which have the same duration. It is a
// ring that includes the list itself. Objects that seen has, by address, end it: while V8
// moves objects, a timer may refer to another copy of its list.
func (p *Process) listTimers(list v8.Object, seen map[uint64]bool) []Timer {
	var timers []Timer
	for o, n := list, 0; !seen[o.Address] && n < maxListed; n++ {
		seen[o.Address] = true
		if t, ok := p.timer(o); ok {
			timers = append(timers, t)
		}
		next, _, _ := p.v8.Heap.Own(o, "_idleNext")
		var err error
		if o, err = p.v8.Heap.Object(next); err != nil {
			break // what came before has been read
		}
	}
	return timers
}

func (p *Process) timer(o v8.Object) (Timer, bool) {
	h := p.v8.Heap
	t := Timer{Object: value.Address(o.Ref()), Kind: "timeout"}
	callback, ok, _ := h.Own(o, "_onTimeout")
	if !ok || h.Oddball(callback) != "" {
		return t, false
	}
	t.Callback, t.Place = value.BriefOf(h, callback), p.definedAt(callback)
	t.After, t.Start = p.ownNumber(o, "_idleTimeout"), p.ownNumber(o, "_idleStart")
	if repeat, ok, _ := h.Own(o, "_repeat"); ok && h.Oddball(repeat) == "" {
		t.Kind = "interval"
	}
	t.Unref = p.isFalse(o, "refed")
	return t, true
}

func (p *Process) immediate(o v8.Object) (Timer, bool) {
	h := p.v8.Heap
	callback, ok, _ := h.Own(o, "_onImmediate")
	if destroyed, _, _ := h.Own(o, "_destroyed"); !ok || h.Oddball(callback) != "" || h.Oddball(destroyed) == "true" {
		return Timer{}, false
	}
	return Timer{
		Object: value.Address(o.Ref()), Kind: "immediate", Callback: value.BriefOf(h, callback), Place: p.definedAt(callback),
		Unref: p.isFalse(o, "refed"),
	}, true
}

// isFalse reports whether o's property whose key is a symbol with that description is
// false.
func (p *Process) isFalse(o v8.Object, symbol string) bool {
	properties, _ := p.v8.Heap.Properties(o) // what cannot be read is not false
	for _, property := range properties {
		if property.Symbol && property.Name == symbol {
			return p.v8.Heap.Oddball(property.Value) == "false"
		}
	}
	return false
}

func (p *Process) ownNumber(o v8.Object, name string) float64 {
	v, _, _ := p.v8.Heap.Own(o, name)
	n, _ := p.v8.Heap.Number(v)
	return n
}

// definedAt returns where a function is defined; empty if the value is not a function.
func (p *Process) definedAt(function v8.Value) string {
	f, err := value.FunctionOf(p.v8.Heap, function)
	if err != nil {
		return ""
	}
	return p.stacks.DefinedAt(f)
}
