package heap

import (
	"context"
	"fmt"
	"math"
	"slices"
)

// edges are references from each object to others.
type edges struct {
	first []uint32 // by ID: where its edges begin; one extra at the end
	parts [][]ID   // of partSize each
	count int
}

const (
	partBits = 18
	partSize = 1 << partBits
	maxEdges = math.MaxUint32
)

// append adds an edge of the object whose edges are not yet complete.
func (e *edges) append(to ID) {
	if e.count%partSize == 0 {
		e.parts = append(e.parts, make([]ID, 0, partSize))
	}
	last := &e.parts[len(e.parts)-1]
	*last = append(*last, to)
	e.count++
}

// end completes an object's edges.
func (e *edges) end() { e.first = append(e.first, uint32(e.count)) }

func (e *edges) at(i uint32) ID { return e.parts[i>>partBits][i%partSize] }

// each visits what an object refers to.
func (e *edges) each(id ID, visit func(ID)) {
	for i := e.first[id]; i < e.first[id+1]; i++ {
		visit(e.at(i))
	}
}

// connect finds what each object refers to.
func (g *Graph) connect(ctx context.Context) error {
	g.out.first = append(make([]uint32, 0, g.Len()+1), 0)
	c := &connector{Graph: g, buffer: make([]byte, pageAlign)}
	for i := range g.pages {
		if err := ctx.Err(); err != nil {
			return err
		}
		p := &g.pages[i]
		switch {
		case p.count == 0:
		case p.Large():
			p.each(c.large)
		default:
			n, _ := g.memory.ReadAt(c.buffer[:p.End-p.Start], p.Start) // Walk has counted what the core lacks
			c.start, c.data = p.Start, c.buffer[:n]
			p.each(c.small)
		}
		if g.out.count > maxEdges {
			return fmt.Errorf("follow references: more than %d", uint(maxEdges))
		}
	}
	return nil
}

// A connector reads pages and adds the references in them to a graph.
type connector struct {
	*Graph
	buffer []byte
	start  uint64 // address of data
	data   []byte
}

// small adds the references of an object in data.
func (c *connector) small(id ID, address uint64) {
	from := address - c.start
	end := min(from+c.Size(id), uint64(len(c.data)))
	k := c.kinds.at(c.kind[id])
	if k.form.Tagged >= 0 {
		end = min(end, from+uint64(k.form.Tagged))
	}
	c.words(id, k, 0, c.data[min(from, end):end])
	c.out.end()
}

// large adds the references of an object that has its own page.
func (c *connector) large(id ID, address uint64) {
	size := c.Size(id)
	k := c.kinds.at(c.kind[id])
	if k.form.Tagged >= 0 {
		size = min(size, uint64(k.form.Tagged))
	}
	for at := uint64(0); at < size; {
		n, err := c.memory.ReadAt(c.buffer[:min(size-at, uint64(len(c.buffer)))], address+at)
		c.words(id, k, at, c.buffer[:n])
		at += uint64(n)
		if err != nil {
			break
		}
	}
	c.out.end()
}

// words adds the references in data, which is at an offset in the object.
func (c *connector) words(id ID, k *objectKind, offset uint64, data []byte) {
	switch {
	case k.weak.pairs:
		c.table(id, offset, data)
		return
	case k.weak.fields != nil:
		for _, field := range k.weak.fields {
			if field+wordSize <= len(data) && offset == 0 {
				clear(data[field : field+wordSize])
			}
		}
	}
	for i := 0; i+wordSize <= len(data); i += wordSize {
		if w := wordOf(data, i); w&3 == 1 {
			if to, ok := c.Find(w - 1); ok {
				c.out.append(to)
			} else if c.Objects.at.page(w-1) != nil {
				c.dangle(id, w-1)
			}
		}
	}
}

// dangle records that an object refers to an address where no object was found.
func (c *connector) dangle(from ID, to uint64) {
	if len(c.dangling) < maxDangling {
		c.dangling = append(c.dangling, danglingRef{from, to})
	}
}

// pairsStart is the offset of the entries in a table of weak keys: after its map, its
// length and the three words that every hash table has.
const pairsStart = 40

// table adds the entries of a table of weak keys.
func (c *connector) table(id ID, offset uint64, data []byte) {
	at := 0
	if offset == 0 {
		if to, ok := c.Find(wordOf(data, 0) - 1); ok {
			c.out.append(to)
		}
		at = pairsStart
	} else {
		at = int((offset - pairsStart) % (2 * wordSize))
	}
	for ; at+2*wordSize <= len(data); at += 2 * wordSize {
		key, value := wordOf(data, at), wordOf(data, at+wordSize)
		if key&3 != 1 || value&3 != 1 {
			continue
		}
		k, ok := c.Find(key - 1)
		v, found := c.Find(value - 1)
		if ok && found {
			c.pairs = append(c.pairs, weakPair{id, k, v})
		}
	}
}

// backward returns the edges of g reversed: from each object to those that refer to it.
// Values that a key keeps alive are referred to by the key.
func (g *Graph) backward() *edges {
	if g.in != nil {
		return g.in
	}
	n := g.Len()
	in := &edges{first: make([]uint32, n+1), count: g.out.count}
	pairs := slices.DeleteFunc(slices.Clone(g.pairs), func(p weakPair) bool { return !g.IsLive(p.table) })
	for i := range uint32(g.out.count) {
		in.first[g.out.at(i)+1]++
	}
	for _, p := range pairs {
		in.first[p.value+1]++
		in.count++
	}
	for id := range n {
		in.first[id+1] += in.first[id]
	}
	for left := in.count; left > 0; left -= partSize {
		in.parts = append(in.parts, make([]ID, min(left, partSize)))
	}
	next := make([]uint32, n)
	copy(next, in.first)
	put := func(from, to ID) {
		i := next[to]
		next[to]++
		in.parts[i>>partBits][i%partSize] = from
	}
	for id := range ID(n) {
		g.out.each(id, func(to ID) { put(id, to) })
	}
	for _, p := range pairs {
		put(p.key, p.value)
	}
	g.in = in
	return in
}
