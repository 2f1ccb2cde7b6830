package heap

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"sort"

	"ustack/symbolize/v8"
)

// A weakness says which references of a kind of objects do not keep their targets alive,
// besides those that are tagged as weak.
type weakness struct {
	fields []int // offsets, in bytes
	pairs  bool  // a table whose keys keep its values alive
}

// noneWeak is the weakness of most objects.
var noneWeak weakness

// weaknessOf returns the weakness of a map's objects.
func weaknessOf(h *v8.Heap, m *v8.Map) *weakness {
	switch m.Kind {
	case "EphemeronHashTable":
		return &weakness{pairs: true}
	case "WeakCell":
		return &weakness{fields: offsetsOf(h, "WeakCell", "target", "unregister_token")}
	case "JSWeakRef":
		return &weakness{fields: offsetsOf(h, "JSWeakRef", "target")}
	}
	return &noneWeak
}

func offsetsOf(h *v8.Heap, class string, fields ...string) []int {
	var offsets []int
	for _, field := range fields {
		if offset, ok := h.Offset(class, field); ok {
			offsets = append(offsets, offset)
		}
	}
	return offsets
}

// pageAround returns the page that contains an address, including pages in the empty
// half of the new space; nil if there is none.
func (o *Objects) pageAround(address uint64) *Page {
	i := sort.Search(len(o.mapped), func(i int) bool { return o.mapped[i].Address > address }) - 1
	if i < 0 || address >= o.mapped[i].Address+o.mapped[i].Size {
		return nil
	}
	return &o.mapped[i]
}

// A Graph is the objects of a process, the references between them, and which of them
// are live: reachable from a root.
type Graph struct {
	*Objects
	Roots []Root // by object
	Live  int    // objects

	links   linkNames
	buffers [][]byte // not in use
	live    bitSet
	certain bitSet // of the live: those that handles keep, not just words that may be left over; nil once the graph is complete
	out     edges
	in      *edges     // nil until needed
	pairs   []weakPair // by key

	outside   map[ID]uint64 // bytes that objects have outside the heap
	dangling  []danglingRef
	lostRoots []lostObject // to which roots refer
}

// A weakPair is an entry of a WeakMap: its value is live if its table and its key are.
type weakPair struct{ table, key, value ID }

// NewGraph follows the references of all objects. The threads' registers and stacks also
// refer to some. It walks the heap again if live objects refer to others that no walk has
// found so far: see collection.go.
func NewGraph(ctx context.Context, o *Objects, stacks []Stack) (*Graph, error) {
	for repairs := 0; ; repairs++ {
		g := &Graph{Objects: o}
		if err := g.follow(ctx, stacks); err != nil {
			return nil, err
		}
		again, err := g.repair(ctx, repairs < maxRepairs)
		if err != nil {
			return nil, err
		}
		if !again {
			g.dangling, g.lostRoots, g.certain = nil, nil, nil
			return g, g.findOutside(ctx)
		}
	}
}

// Unmarked returns the graph of objects whose references were not followed, for counting
// them: none is known to be live.
func (o *Objects) Unmarked() *Graph {
	o.Doubts.Unmarked = true
	return &Graph{Objects: o, live: newBits(o.Len())}
}

// follow finds the references, and which objects are live.
func (g *Graph) follow(ctx context.Context, stacks []Stack) error {
	if err := g.connect(ctx); err != nil {
		return err
	}
	s, err := g.roots(ctx, stacks)
	if err != nil {
		return err
	}
	g.Roots, g.lostRoots = s.roots, s.lost
	return g.mark(ctx, s.certain)
}

// All yields all objects until ctx is done.
func (g *Graph) All(ctx context.Context) iter.Seq[ID] {
	return func(yield func(ID) bool) {
		for id := range ID(g.Len()) {
			if id%often == 0 && ctx.Err() != nil || !yield(id) {
				return
			}
		}
	}
}

// IsLive reports whether a program can still reach the object.
func (g *Graph) IsLive(id ID) bool { return g.live.has(id) }

// often is how many objects are processed between two checks of the context.
const often = 1 << 12

// mark finds the live objects, given those roots that are certainly live.
func (g *Graph) mark(ctx context.Context, certain bitSet) error {
	g.live = newBits(g.Len())
	m := &marker{Graph: g, keys: newBits(g.Len()), waiting: make(map[ID][]ID)}
	slices.SortFunc(g.pairs, func(a, b weakPair) int { return cmp.Compare(a.key, b.key) })
	for _, p := range g.pairs {
		m.keys.add(p.key)
	}
	for _, r := range g.Roots {
		if certain.has(r.Object) {
			m.add(r.Object)
		}
	}
	if err := m.follow(ctx); err != nil {
		return err
	}
	g.certain = slices.Clone(g.live)
	for _, r := range g.Roots {
		m.add(r.Object)
	}
	return m.follow(ctx)
}

// A marker follows references from live objects.
type marker struct {
	*Graph
	stack   []ID        // whose references are not yet followed
	keys    bitSet      // of weak pairs
	waiting map[ID][]ID // values of live keys, by the table that is not yet live
}

func (m *marker) add(id ID) {
	if !m.live.has(id) {
		m.live.add(id)
		m.Live++
		m.stack = append(m.stack, id)
	}
}

func (m *marker) follow(ctx context.Context) error {
	add := m.add // once: it is a closure
	for step := 0; len(m.stack) > 0; step++ {
		if step%often == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		id := m.stack[len(m.stack)-1]
		m.stack = m.stack[:len(m.stack)-1]
		m.out.each(id, add)
		if m.keys.has(id) {
			for _, p := range m.pairsOf(id) {
				if m.live.has(p.table) {
					m.add(p.value)
				} else {
					m.waiting[p.table] = append(m.waiting[p.table], p.value)
				}
			}
		}
		for _, value := range m.waiting[id] {
			m.add(value)
		}
		delete(m.waiting, id)
	}
	return nil
}

// pairsOf returns the pairs of a key.
func (g *Graph) pairsOf(key ID) []weakPair {
	first := g.firstPair(key)
	last := first
	for last < len(g.pairs) && g.pairs[last].key == key {
		last++
	}
	return g.pairs[first:last]
}

// firstPair returns the index at which the pairs of a key begin.
func (g *Graph) firstPair(key ID) int {
	if len(g.pairs) == 0 {
		return 0
	}
	return sort.Search(len(g.pairs), func(i int) bool { return g.pairs[i].key >= key })
}

// A bitSet is a set of objects.
type bitSet []uint64

func newBits(n int) bitSet { return make(bitSet, n/64+1) }

func (b bitSet) has(id ID) bool { return b[id/64]>>(id%64)&1 != 0 }
func (b bitSet) add(id ID)      { b[id/64] |= 1 << (id % 64) }
