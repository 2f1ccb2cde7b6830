package heap

import (
	"context"
	"sort"

	"ustack/symbolize/v8"
)

// Bytes returns the size of an object, including memory outside V8's heap that belongs
// to it. Memory that several objects share counts for the first live one.
func (g *Graph) Bytes(id ID) uint64 { return g.Size(id) + g.outside[id] }

// findOutside finds what objects have outside the heap: the bytes of ArrayBuffers, and
// of strings whose characters are kept by C++. Parts of files, such as the sources of
// Node.js itself, do not count.
func (g *Graph) findOutside(ctx context.Context) error {
	g.outside = make(map[ID]uint64)
	owners := make(map[uint64]ID) // by the memory's address
	for id := range g.All(ctx) {
		if !v8.HasOutside(g.Map(id)) {
			continue
		}
		address, bytes, err := g.heap.Outside(g.Object(id))
		if err != nil || bytes == 0 || !g.isOutside(address, bytes) {
			continue // garbage, or nothing of its own
		}
		if owner, ok := owners[address]; ok {
			if g.IsLive(owner) || !g.IsLive(id) {
				continue
			}
			delete(g.outside, owner)
		}
		owners[address] = id
		g.outside[id] = bytes
	}
	return ctx.Err()
}

// Outside returns how many of an object's Bytes are outside V8's heap.
func (g *Graph) Outside(id ID) uint64 { return g.outside[id] }

// isOutside reports whether the bytes at an address are memory that is neither V8's
// heap nor part of a file.
func (g *Graph) isOutside(address, bytes uint64) bool {
	regions := g.memory.Regions()
	i := sort.Search(len(regions), func(i int) bool { return regions[i].End > address })
	if i == len(regions) || regions[i].Start > address {
		return false
	}
	r := regions[i]
	return r.File == "" && address+bytes > address && g.pageAround(address) == nil
}
