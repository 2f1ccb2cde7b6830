package jscore

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"

	"ustack/symbolize/nodejs"
	"ustack/symbolize/v8"
	"ustack/symbolize/v8/census"
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
	Classes     []ClassShare         `json:"classes"`     // that keep most alive
	Collections []Retainer           `json:"collections"` // arrays, maps and sets that keep most alive
	Closures    []*census.Definition `json:"closures"`    // live closures, the most numerous first
	Listeners   []nodejs.Listeners   `json:"listeners"`   // most listeners first
	Live        uint64               `json:"live"`        // bytes of all live objects
}

// A ClassShare is what the objects of a class keep alive.
type ClassShare struct {
	Class    string  `json:"class"`
	Count    int     `json:"count"`    // live objects
	Retained uint64  `json:"retained"` // bytes; what one keeps for another of the class counts only once
	Address  Address `json:"address"`  // tagged, of the one that keeps most
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
	l := &Leaks{Live: d.Total(), Classes: d.classes(o.Limit)}
	for _, kind := range []string{"JSArray", "JSMap", "JSSet", "JSWeakMap"} {
		l.Collections = append(l.Collections, d.Retainers(ctx, CensusOptions{Kind: kind}, o.Limit).Objects...)
	}
	slices.SortStableFunc(l.Collections, func(a, b Retainer) int { return cmp.Compare(b.Retained, a.Retained) })
	l.Collections = l.Collections[:min(o.Limit, len(l.Collections))]
	l.Closures = census.Functions(ctx, d.graph.Graph, FunctionOptions{Live: true}, d.graph.dump.Named)
	l.Closures = l.Closures[:min(o.Limit, len(l.Closures))]
	l.Listeners = nodejs.EventListeners(ctx, d.graph.Graph, d.graph.heap, o.Listeners)
	l.Listeners = l.Listeners[:min(o.Limit, len(l.Listeners))]
	return l
}

// classes returns what the objects of each class keep alive, most first, at most limit.
func (d *Dominated) classes(limit int) []ClassShare {
	var shares []ClassShare
	all := d.Classes()
	for _, c := range all[:min(limit, len(all))] {
		shares = append(shares, ClassShare{c.Class, c.Count, c.Retained, Address(d.graph.Object(c.Most).Ref())})
	}
	return shares
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
