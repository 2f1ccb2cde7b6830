package jscore

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"

	"ustack/symbolize/v8"
	"ustack/symbolize/v8/heap"
	"ustack/symbolize/v8/value"
)

// CensusOptions say which objects to count. The zero value counts everything that a
// program sees as an object.
type CensusOptions struct {
	Class    string // only those of that class
	Property string // only those with a property of that name
	Kind     string // only those of that kind: V8's own ("JSArray", "FixedArray"), or without its JS ("array"), or "string"
	Live     bool   // only those that are live
	Internal bool   // also V8's internal objects, strings and numbers included
	ByClass  bool   // do not distinguish objects of a class by their properties
}

// A Group is objects with the same class and property names.
type Group struct {
	Class      string   `json:"class"`
	Kind       string   `json:"kind"`
	Properties []string `json:"properties,omitempty"` // names, in order
	Dictionary bool     `json:"dictionary,omitempty"` // properties are in dictionaries: too many objects to read each
	Tally
}

// A Tally sums up objects.
type Tally struct {
	Count   int     `json:"count"`
	Live    int     `json:"live"`
	Bytes   uint64  `json:"bytes"`   // of the objects themselves, including outside V8's heap
	Outside uint64  `json:"outside"` // of these bytes, those outside V8's heap
	Address Address `json:"address"` // tagged, of one of them: a live one if there is any

	object heap.ID
}

// A Census counts objects.
type Census struct {
	Groups  []*Group    `json:"groups"` // largest in bytes first
	Count   int         `json:"count"`
	Live    int         `json:"live"`
	Bytes   uint64      `json:"bytes"`
	Outside uint64      `json:"outside"`
	Doubts  heap.Doubts `json:"doubts"`
}

// maxOwnShapes is how many objects of a map are grouped by properties that V8 stores
// for each of them: reading these takes a few microseconds an object.
const maxOwnShapes = 10_000

// Census counts objects by class and properties. Once ctx is done it returns at once,
// with the objects counted so far.
func (g *Graph) Census(ctx context.Context, o CensusOptions) *Census {
	c := newClassifier(g, o)
	census := &Census{Doubts: g.Doubts}
	for id := range g.All(ctx) {
		if o.Live && !g.IsLive(id) {
			continue
		}
		if group := c.group(id); group != nil {
			group.add(g, id)
		}
	}
	for _, group := range c.groups {
		if group.Count == 0 {
			continue
		}
		group.Address = Address(v8.Ref(g.Address(group.object)))
		census.Groups = append(census.Groups, group)
		census.Count += group.Count
		census.Live += group.Live
		census.Bytes += group.Bytes
		census.Outside += group.Outside
	}
	slices.SortStableFunc(census.Groups, func(a, b *Group) int { return cmp.Compare(b.Bytes, a.Bytes) })
	return census
}

// add counts an object.
func (t *Tally) add(g *Graph, id heap.ID) {
	live := g.IsLive(id)
	if t.Count == 0 || live && t.Live == 0 {
		t.object = id
	}
	t.Count++
	t.Bytes += g.Bytes(id)
	t.Outside += g.Outside(id)
	if live {
		t.Live++
	}
}

// Select yields the objects that a census with these options counts, by address,
// until ctx is done.
func (g *Graph) Select(ctx context.Context, o CensusOptions) iter.Seq[heap.ID] {
	return func(yield func(heap.ID) bool) {
		c := newClassifier(g, o)
		for id := range g.All(ctx) {
			if o.Live && !g.IsLive(id) || c.group(id) == nil {
				continue
			}
			if !yield(id) {
				return
			}
		}
	}
}

// Alike yields the objects that a census counts together with id, until ctx is done.
func (g *Graph) Alike(ctx context.Context, id heap.ID, o CensusOptions) iter.Seq[heap.ID] {
	return func(yield func(heap.ID) bool) {
		o.Internal = true
		c := newClassifier(g, o)
		group := c.group(id)
		for other := range g.All(ctx) {
			if o.Live && !g.IsLive(other) || c.group(other) != group {
				continue
			}
			if !yield(other) {
				return
			}
		}
	}
}

// A classifier groups objects by class and properties.
type classifier struct {
	graph   *Graph
	options CensusOptions
	groups  []*Group
	byName  map[string]*Group
	byKind  []mapGroup // by the graph's numbers of maps
}

// A mapGroup is the group of a map's objects, once it is known.
type mapGroup struct {
	known bool
	group *Group // nil: not counted
	own   int    // objects read that have properties of their own
}

func newClassifier(g *Graph, o CensusOptions) *classifier {
	return &classifier{graph: g, options: o, byName: make(map[string]*Group), byKind: make([]mapGroup, g.Maps())}
}

// group returns the group of an object; nil if it should not be counted.
func (c *classifier) group(id heap.ID) *Group {
	m := &c.byKind[c.graph.MapIndex(id)]
	if m.known {
		return m.group
	}
	o := c.graph.Object(id)
	if !c.counts(o) {
		m.known = true
		return nil
	}
	own := c.tellsOwn(o)
	if m.own++; m.own > maxOwnShapes {
		m.group, m.known = c.named(o, nil, true), true
		return m.group
	}
	group := c.named(o, c.names(o), false)
	if !own {
		m.group, m.known = group, true
	}
	return group
}

// tellsOwn reports whether objects of o's map are grouped by properties that V8 stores
// for each object.
func (c *classifier) tellsOwn(o v8.Object) bool {
	return o.Map.Dictionary && !c.options.ByClass && c.graph.heap.IsReceiver(o)
}

// names returns the names of o's properties, as far as objects are grouped by them.
func (c *classifier) names(o v8.Object) []string {
	h := c.graph.heap
	if c.options.ByClass && c.options.Property == "" || !h.IsReceiver(o) {
		return nil
	}
	var names []string
	add := func(p v8.Property) {
		if name, ok := value.PropertyName(h, p); ok {
			names = append(names, name)
		}
	}
	if o.Map.Dictionary {
		properties, _ := h.Properties(o) // what cannot be read is ignored
		for _, p := range properties {
			add(p)
		}
		return names
	}
	fields, _ := h.MapFields(o.Map)
	for _, f := range fields {
		add(f.Property)
	}
	return names
}

// named returns the group of o's class and these property names; nil if it should not
// be counted.
func (c *classifier) named(o v8.Object, names []string, dictionary bool) *Group {
	class, err := c.graph.heap.Class(o)
	if err != nil {
		class = "<bad>"
	}
	if !c.graph.heap.IsReceiver(o) {
		class = "(" + o.Map.KindName() + ")"
	}
	if want := c.options.Class; want != "" && want != class {
		return nil
	}
	if want := c.options.Property; want != "" && !slices.Contains(names, want) {
		return nil
	}
	if c.options.ByClass {
		names, dictionary = nil, false
	}
	key := class + "\x00" + strings.Join(names, "\x00")
	if dictionary {
		key += "\x01"
	}
	group, ok := c.byName[key]
	if !ok {
		group = &Group{Class: class, Kind: o.Map.KindName(), Properties: names, Dictionary: dictionary}
		c.byName[key] = group
		c.groups = append(c.groups, group)
	}
	return group
}

// counts reports whether to count objects like o, as far as their map decides it.
func (c *classifier) counts(o v8.Object) bool {
	h := c.graph.heap
	if kind := c.options.Kind; kind != "" {
		return strings.EqualFold(kind, o.Map.Kind) || strings.EqualFold("JS"+kind, o.Map.Kind) ||
			strings.EqualFold(kind, "string") && h.IsString(o)
	}
	return c.options.Internal || h.IsReceiver(o)
}

// maxShown is how much of a group's properties is shown.
const maxShown = 100 // characters

// WriteText writes a table like that of mdb_v8's findjsobjects.
func (c *Census) WriteText(w io.Writer) error {
	out := bufio.NewWriter(w)
	fmt.Fprintf(out, "%16s %9s %9s %12s %6s %s\n", "OBJECT", "#OBJECTS", "#LIVE", "BYTES", "#PROPS", "CLASS: PROPERTIES")
	for _, g := range c.Groups {
		count := fmt.Sprint(len(g.Properties))
		if g.Dictionary {
			count = "-"
		}
		fmt.Fprintf(out, "%16s %9d %9d %12d %6s %s", g.Address, g.Count, g.Live, g.Bytes, count, g.Class)
		if len(g.Properties) > 0 {
			fmt.Fprintf(out, ": %s", shortened(strings.Join(g.Properties, ", "), maxShown))
		}
		out.WriteByte('\n')
	}
	fmt.Fprintf(out, "%16s %9d %9d %12d\n", "total", c.Count, c.Live, c.Bytes)
	if c.Outside > 0 {
		fmt.Fprintf(out, "outside of V8's heap: %d of these bytes\n", c.Outside)
	}
	writeDoubts(out, c.Doubts)
	return out.Flush()
}

// Addresses returns the address of one object of each group.
func (c *Census) Addresses() []v8.Value {
	addresses := make([]v8.Value, len(c.Groups))
	for i, g := range c.Groups {
		addresses[i] = v8.Value(g.Address)
	}
	return addresses
}

// writeDoubts prints the doubts, if there are any.
func writeDoubts(w io.Writer, d heap.Doubts) {
	if d.Collecting {
		fmt.Fprintln(w, "a garbage collection was moving objects: live ones count once, wherever they were; garbage may count twice, or not")
	}
	if d.Loose {
		fmt.Fprintln(w, "some garbage may pass for live: not all that V8 keeps objects alive by was found (is malloc glibc's?)")
	}
	for _, doubt := range []struct {
		count uint64
		text  string
	}{
		{d.Unreadable, "not counted: what was in %d bytes that the core does not have\n"},
		{d.Lost, "not counted: what may have been in %d bytes that no object accounts for\n"},
		{uint64(d.Overlong), "not counted: %d objects that reach beyond the end of their page\n"},
		{uint64(d.Overlapping), "not counted: %d objects, already replaced in part by live ones\n"},
		{uint64(d.Dangling), "not counted: what was at %d addresses that live objects refer to\n"},
	} {
		if doubt.count > 0 {
			fmt.Fprintf(w, doubt.text, doubt.count)
		}
	}
}

// shortened returns at most limit characters of s.
func shortened(s string, limit int) string {
	runes := []rune(s)
	if len(runes) <= limit {
		return s
	}
	return string(runes[:limit-1]) + "…"
}
