package jscore

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"

	"ustack/symbolize/v8"
)

// LeakOptions say what is suspicious. The zero value is useful.
type LeakOptions struct {
	Limit     int // suspects of each sort; 10 if 0
	Listeners int // how many for one event of one object are suspicious; 11 if 0, since Node.js warns of them
}

const (
	defaultSuspects  = 10
	defaultListeners = 11
)

// Leaks is what may be growing without bound.
type Leaks struct {
	Classes     []ClassShare  `json:"classes"`     // that keep most alive
	Collections []Retainer    `json:"collections"` // arrays, maps and sets that keep most alive
	Closures    []*Definition `json:"closures"`    // live closures, the most numerous first
	Listeners   []Listeners   `json:"listeners"`   // most listeners first
	Live        uint64        `json:"live"`        // bytes of all live objects
}

// A ClassShare is what the objects of a class keep alive.
type ClassShare struct {
	Class    string  `json:"class"`
	Count    int     `json:"count"`    // live objects
	Retained uint64  `json:"retained"` // bytes; what one keeps for another of the class counts only once
	Address  Address `json:"address"`  // tagged, of the one that keeps most
}

// Listeners are the listeners for one event of one object.
type Listeners struct {
	Emitter Brief  `json:"emitter"`
	Event   string `json:"event"`
	Count   int    `json:"count"`
}

// Leaks reports what may be growing without bound. Once ctx is done it returns at once,
// with what was found so far.
func (d *Dominated) Leaks(ctx context.Context, o LeakOptions) *Leaks {
	if o.Limit <= 0 {
		o.Limit = defaultSuspects
	}
	if o.Listeners <= 0 {
		o.Listeners = defaultListeners
	}
	l := &Leaks{Live: d.retained[0], Classes: d.Classes()}
	l.Classes = l.Classes[:min(o.Limit, len(l.Classes))]
	for _, kind := range []string{"JSArray", "JSMap", "JSSet", "JSWeakMap"} {
		l.Collections = append(l.Collections, d.Retainers(ctx, CensusOptions{Kind: kind}, o.Limit).Objects...)
	}
	slices.SortStableFunc(l.Collections, func(a, b Retainer) int { return cmp.Compare(b.Retained, a.Retained) })
	l.Collections = l.Collections[:min(o.Limit, len(l.Collections))]
	l.Closures = d.graph.Functions(ctx, FunctionOptions{Live: true}).Definitions
	l.Closures = l.Closures[:min(o.Limit, len(l.Closures))]
	l.Listeners = d.graph.listeners(ctx, o.Listeners)
	l.Listeners = l.Listeners[:min(o.Limit, len(l.Listeners))]
	return l
}

// Classes returns what the objects of each class keep alive, most first.
func (d *Dominated) Classes() []ClassShare {
	t := d.tree()
	shares := map[string]*ClassShare{}
	best := map[string]uint64{}
	above := map[string]int{} // objects of a class on the path from the roots
	names := d.classNames()
	t.visit(func(n uint32) {
		id := d.object[n]
		class := names[d.graph.kind[id]]
		if class == "" {
			return
		}
		s, ok := shares[class]
		if !ok {
			s = &ClassShare{Class: class}
			shares[class] = s
		}
		s.Count++
		if above[class] == 0 {
			s.Retained += d.retained[n]
		}
		if d.retained[n] > best[class] {
			best[class] = d.retained[n]
			s.Address = Address(d.graph.Object(id).Ref())
		}
		above[class]++
	}, func(n uint32) {
		if class := names[d.graph.kind[d.object[n]]]; class != "" {
			above[class]--
		}
	})
	list := make([]ClassShare, 0, len(shares))
	for _, s := range shares {
		list = append(list, *s)
	}
	slices.SortFunc(list, func(a, b ClassShare) int {
		return cmp.Or(cmp.Compare(b.Retained, a.Retained), cmp.Compare(a.Class, b.Class))
	})
	return list
}

// classNames returns the classes of the live objects by their maps' indices; "" for
// what a program does not see as an object.
func (d *Dominated) classNames() []string {
	g := d.graph
	names, known := make([]string, len(g.kinds)), make([]bool, len(g.kinds))
	for _, id := range d.object[1:] {
		kind := g.kind[id]
		if known[kind] {
			continue
		}
		known[kind] = true
		o := g.Object(id)
		if !g.heap.IsReceiver(o) {
			continue
		}
		class, err := g.heap.Class(o)
		if err != nil {
			class = "<bad>"
		}
		names[kind] = class
	}
	return names
}

// A dominatorTree holds for each object what it keeps alive.
type dominatorTree struct {
	first []uint32 // by number: where its own begin in below; one extra at the end
	below []uint32 // numbers
}

func (d *Dominated) tree() *dominatorTree {
	count := len(d.object)
	t := &dominatorTree{first: make([]uint32, count+1), below: make([]uint32, max(count-1, 0))}
	for n := 1; n < count; n++ {
		t.first[d.by[n]+1]++
	}
	for n := range count {
		t.first[n+1] += t.first[n]
	}
	next := slices.Clone(t.first)
	for n := 1; n < count; n++ {
		t.below[next[d.by[n]]] = uint32(n)
		next[d.by[n]]++
	}
	return t
}

// visit traverses the tree below the roots: it enters each object before, and leaves it
// after, the objects that it keeps alive.
func (t *dominatorTree) visit(enter, leave func(n uint32)) {
	type place struct{ number, next uint32 }
	stack := []place{{0, t.first[0]}}
	for len(stack) > 0 {
		top := &stack[len(stack)-1]
		if top.next < t.first[top.number+1] {
			n := t.below[top.next]
			top.next++
			enter(n)
			stack = append(stack, place{n, t.first[n]})
			continue
		}
		if top.number != 0 {
			leave(top.number)
		}
		stack = stack[:len(stack)-1]
	}
}

// listeners returns the live objects whose events have least listeners or more.
func (g *Graph) listeners(ctx context.Context, least int) []Listeners {
	var found []Listeners
	for id := range g.Select(ctx, CensusOptions{Property: "_events", Live: true}) {
		emitter := g.Object(id)
		events, ok, err := g.heap.Own(emitter, "_events")
		if err != nil || !ok {
			continue
		}
		o, err := g.heap.Object(events)
		if err != nil {
			continue // undefined, in a prototype
		}
		properties, _ := g.heap.Properties(o) // what cannot be read is not counted
		for _, p := range properties {
			array, err := g.heap.Object(p.Value)
			if err != nil {
				continue
			}
			if count, ok := g.heap.Length(array); ok && count >= least {
				found = append(found, Listeners{BriefOf(g.heap, emitter.Ref()), p.Name, count})
			}
		}
	}
	slices.SortStableFunc(found, func(a, b Listeners) int { return cmp.Compare(b.Count, a.Count) })
	return found
}

// WriteText writes a table for each sort of suspects.
func (l *Leaks) WriteText(w io.Writer) error {
	out := bufio.NewWriter(w)
	share := func(bytes uint64) float64 { return 100 * float64(bytes) / float64(max(l.Live, 1)) }
	fmt.Fprintf(out, "Classes that keep most alive:\n%16s %9s %12s %6s %s\n", "OBJECT", "#LIVE", "RETAINED", "%LIVE", "CLASS")
	for _, c := range l.Classes {
		fmt.Fprintf(out, "%16s %9d %12d %5.1f%% %s\n", c.Address, c.Count, c.Retained, share(c.Retained), c.Class)
	}
	fmt.Fprintf(out, "\nArrays, maps and sets that keep most alive:\n%12s %6s %s\n", "RETAINED", "%LIVE", "OBJECT")
	for _, c := range l.Collections {
		fmt.Fprintf(out, "%12d %5.1f%% %v\n", c.Retained, share(c.Retained), c.Brief)
	}
	fmt.Fprintf(out, "\nFunctions with most closures:\n")
	for _, c := range l.Closures {
		fmt.Fprintf(out, "%16s %9d %s in %s:%d\n", c.Address, c.Live, c.Name, c.File, c.Line)
	}
	if len(l.Listeners) > 0 {
		fmt.Fprintf(out, "\nEvents with many listeners:\n")
	}
	for _, e := range l.Listeners {
		fmt.Fprintf(out, "%9d for %q of %v\n", e.Count, e.Event, e.Emitter)
	}
	return out.Flush()
}

// Addresses returns the addresses of the classes' objects and of the collections.
func (l *Leaks) Addresses() []v8.Value {
	var addresses []v8.Value
	for _, c := range l.Classes {
		addresses = append(addresses, v8.Value(c.Address))
	}
	for _, c := range l.Collections {
		addresses = append(addresses, v8.Value(c.Address))
	}
	return addresses
}
