// Package census counts what is in a heap: objects by class and properties, closures by the
// function they were created from, and equal strings. Its results say how much there is
// of each, in all and live, and name one of each for a closer look.
package census

import (
	"cmp"
	"context"
	"iter"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"ustack/symbolize/contain"
	"ustack/symbolize/v8"
	"ustack/symbolize/v8/heap"
	"ustack/symbolize/v8/value"
)

// Options say which objects to count. The zero value counts everything that a
// program sees as an object.
type Options struct {
	Class    string // only those of that class
	Property string // only those with a property of that name
	Kind     string // only those of that kind: V8's own ("JSArray", "FixedArray"), or without its JS ("array"), or "string"
	Live     bool   // only those that are live
	Internal bool   // also V8's internal objects, strings and numbers included
	ByClass  bool   // do not distinguish objects of a class by their properties
	ByHeap   bool   // distinguish objects by the isolate whose heap they are in
}

// A Group is objects with the same class and property names.
type Group struct {
	Class      string       `json:"class"`
	Kind       string       `json:"kind"`                 // of the object at Address
	Properties []value.Text `json:"properties,omitempty"` // names, in order
	Dictionary bool         `json:"dictionary,omitempty"` // properties are in dictionaries: too many objects to read each
	Heap       uint64       `json:"-"`                    // of an isolate; 0: shared, or not distinguished
	Isolate    *int         `json:"isolate,omitempty"`    // its number, for the caller to set
	Tally
}

// A Tally sums up objects.
type Tally struct {
	Count   int           `json:"count"`
	Live    int           `json:"live"`
	Bytes   uint64        `json:"bytes"`   // of the objects themselves, including outside V8's heap
	Outside uint64        `json:"outside"` // of these bytes, those outside V8's heap
	Address value.Address `json:"address"` // tagged, of one of them: a live one if there is any
	Object  heap.ID       `json:"-"`       // at that address
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

// Take counts objects by class and properties. Once ctx is done it returns at once,
// with the objects counted so far.
func Take(ctx context.Context, g *heap.Graph, o Options) *Census {
	c := newClassifier(g, o)
	c.groupMaps(ctx)
	census := &Census{Doubts: g.Doubts}
	for id := range g.All(ctx) {
		if o.Live && !g.IsLive(id) {
			continue
		}
		if group := c.group(id); group != nil {
			c.inHeap(group, id).add(g, id)
		}
	}
	census.Doubts.Interrupted = census.Doubts.Interrupted || ctx.Err() != nil
	for _, group := range c.groups {
		if group.Count == 0 {
			continue
		}
		group.Address = value.Address(v8.Ref(g.Address(group.Object)))
		group.Kind = g.Map(group.Object).KindName()
		census.Groups = append(census.Groups, group)
		census.Count += group.Count
		census.Live += group.Live
		census.Bytes += group.Bytes
		census.Outside += group.Outside
	}
	slices.SortFunc(census.Groups, func(a, b *Group) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Object, b.Object))
	})
	return census
}

// add counts an object.
func (t *Tally) add(g *heap.Graph, id heap.ID) {
	live := g.IsLive(id)
	if t.Count == 0 || live && t.Live == 0 {
		t.Object = id
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
func Select(ctx context.Context, g *heap.Graph, o Options) iter.Seq[heap.ID] {
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
func Alike(ctx context.Context, g *heap.Graph, id heap.ID, o Options) iter.Seq[heap.ID] {
	return func(yield func(heap.ID) bool) {
		o.Internal = true
		c := newClassifier(g, o)
		group := c.inHeap(c.group(id), id)
		for other := range g.All(ctx) {
			if o.Live && !g.IsLive(other) || c.inHeap(c.group(other), other) != group {
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
	graph   *heap.Graph
	options Options
	byKind  []mapGroup // by the graph's numbers of maps
	heapOf  func(heap.ID) uint64
	byHeap  map[groupHeap]*Group

	naming sync.Mutex // of those below
	groups []*Group
	byName map[string]*Group
	key    []byte // of byName, for the next look-up
}

// A groupHeap stands for the objects of a group that are in an isolate's heap.
type groupHeap struct {
	group *Group
	heap  uint64
}

// A mapGroup is the group of a map's objects, once it is known.
type mapGroup struct {
	known bool
	group *Group // nil: not counted
	own   int    // objects read that have properties of their own
}

// A description is what an object is grouped by.
type description struct {
	class string
	names []value.Text // of properties
}

func newClassifier(g *heap.Graph, o Options) *classifier {
	return &classifier{
		graph: g, options: o, byName: make(map[string]*Group, g.Maps()), byKind: make([]mapGroup, g.Maps()),
		heapOf: g.HeapsOf(), byHeap: make(map[groupHeap]*Group),
	}
}

// inHeap returns the part of an object's group that is in the same heap, if heaps are
// distinguished; nil for nil.
func (c *classifier) inHeap(group *Group, id heap.ID) *Group {
	if !c.options.ByHeap || group == nil {
		return group
	}
	key := groupHeap{group, c.heapOf(id)}
	part, ok := c.byHeap[key]
	if !ok {
		part = &Group{Class: group.Class, Properties: group.Properties, Dictionary: group.Dictionary, Heap: key.heap}
		c.byHeap[key] = part
		c.groups = append(c.groups, part)
	}
	return part
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
	own := c.groupedByOwn(o)
	if m.own++; m.own > maxOwnShapes {
		m.group, m.known = c.named(description{class: c.class(c.graph.Heap(), o)}, true), true
		return m.group
	}
	group := c.named(c.describe(c.graph.Heap(), o), false)
	if !own {
		m.group, m.known = group, true
	}
	return group
}

// groupedByOwn reports whether objects of o's map are grouped by properties that V8 stores
// for each object.
func (c *classifier) groupedByOwn(o v8.Object) bool {
	return o.Map.Dictionary && !c.options.ByClass && c.graph.Heap().IsReceiver(o)
}

// groupMaps groups the maps whose objects are counted. It reads different maps at the same time.
func (c *classifier) groupMaps(ctx context.Context) {
	const together = 64 // maps
	seen := make([]bool, len(c.byKind))
	var objects []heap.ID // one of each map
	for id := range c.graph.All(ctx) {
		if kind := c.graph.MapIndex(id); !seen[kind] {
			seen[kind] = true
			objects = append(objects, id)
		}
	}
	var next atomic.Int64
	var readers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		readers.Go(func() {
			h := c.graph.Heap().Fork()
			for ctx.Err() == nil {
				end := int(next.Add(together))
				if c.groupSome(h, objects[min(end-together, len(objects)):min(end, len(objects))]) != nil || end >= len(objects) {
					return
				}
			}
		})
	}
	readers.Wait()
}

// groupSome groups the objects' maps. What it fails to read is read again, and fails again, when the
// objects are counted.
func (c *classifier) groupSome(h *v8.Heap, objects []heap.ID) (err error) {
	defer contain.Panic(&err, "read maps of objects")
	maps := make([]*mapGroup, 0, len(objects))
	described := make([]description, 0, len(objects))
	for _, id := range objects {
		if o := c.graph.Object(id); c.counts(o) && !c.groupedByOwn(o) {
			maps = append(maps, &c.byKind[c.graph.MapIndex(id)])
			described = append(described, c.describe(h, o))
		}
	}
	c.naming.Lock()
	defer c.naming.Unlock()
	for i, m := range maps {
		m.group, m.known = c.named(described[i], false), true
	}
	return nil
}

func (c *classifier) describe(h *v8.Heap, o v8.Object) description {
	return description{c.class(h, o), c.names(h, o)}
}

func (c *classifier) class(h *v8.Heap, o v8.Object) string {
	if !h.IsReceiver(o) {
		return "(" + o.Map.KindName() + ")"
	}
	class, err := h.Class(o)
	if err != nil {
		return "<bad>"
	}
	return class
}

// names returns the names of o's properties, as far as objects are grouped by them.
func (c *classifier) names(h *v8.Heap, o v8.Object) []value.Text {
	if c.options.ByClass && c.options.Property == "" || !h.IsReceiver(o) {
		return nil
	}
	names := make([]value.Text, 0, o.Map.Own)
	add := func(p v8.Property) {
		if name, ok := value.PropertyName(h, p); ok {
			names = append(names, value.Text(name))
		}
	}
	if o.Map.Dictionary {
		properties, _ := h.Properties(o) // what cannot be read is ignored
		for _, p := range properties {
			add(p)
		}
		return names
	}
	for p := range h.MapProperties(o.Map) {
		add(*p)
	}
	return names
}

// named returns the group of objects with that description; nil if it should not be counted.
func (c *classifier) named(d description, dictionary bool) *Group {
	class, names := d.class, d.names
	if want := c.options.Class; want != "" && want != class {
		return nil
	}
	if want := c.options.Property; want != "" && !slices.Contains(names, value.Text(want)) && !slices.Contains(names, value.Text(v8.UnescapeSurrogates(want))) {
		return nil
	}
	if c.options.ByClass {
		names, dictionary = nil, false
	}
	c.key = append(append(c.key[:0], class...), 0)
	for i, name := range names {
		if i > 0 {
			c.key = append(c.key, 0)
		}
		c.key = append(c.key, name...)
	}
	if dictionary {
		c.key = append(c.key, 1)
	}
	group, ok := c.byName[string(c.key)]
	if !ok {
		group = &Group{Class: class, Properties: names, Dictionary: dictionary}
		c.byName[string(c.key)] = group
		c.groups = append(c.groups, group)
	}
	return group
}

// counts reports whether to count objects like o, as far as their map decides it.
func (c *classifier) counts(o v8.Object) bool {
	h := c.graph.Heap()
	if kind := c.options.Kind; kind != "" {
		return strings.EqualFold(kind, o.Map.Kind) || strings.EqualFold("JS"+kind, o.Map.Kind) ||
			strings.EqualFold(kind, "string") && h.IsString(o)
	}
	return c.options.Internal || h.IsReceiver(o)
}
