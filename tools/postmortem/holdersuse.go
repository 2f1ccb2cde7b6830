package postmortem

import (
	"slices"
	"sort"
	"strings"
)

// lookForUses looks through memory that malloc manages for what says which handles
// count and which microtasks wait.
func (h *holders) lookForUses(r addressRange) {
	const overlap = 3 * wordSize
	buffer := make([]byte, pageAlign+overlap)
	for at := r.start; at < r.end; {
		next, ok := h.objects.memory.NextData(at)
		if !ok {
			return
		}
		if at = max(at, next&^(pageAlign-1)); at >= r.end {
			return
		}
		n, _ := h.objects.memory.ReadAt(buffer[:min(uint64(len(buffer)), r.end-at)], at)
		for i := 0; i+wordSize <= n && i < pageAlign; i += wordSize {
			h.use(buffer[i:n], at+uint64(i))
		}
		at += pageAlign
	}
}

// use looks at words, which are at an address.
func (h *holders) use(words []byte, at uint64) {
	first := wordOf(words, 0)
	if len(words) >= 2*wordSize && h.isManaged(first) {
		h.handleUse(first, wordOf(words, wordSize), at)
	}
	if len(words) >= 3*wordSize && slices.ContainsFunc(h.isolates, func(r addressRange) bool { return r.start == first }) {
		h.owned = h.with(h.owned, addressRange{at + wordSize, at + 3*wordSize})
	}
	if len(words) >= 4*wordSize && first <= maxRing {
		h.ringUse(first, wordOf(words, wordSize), wordOf(words, 2*wordSize), wordOf(words, 3*wordSize))
	}
}

func (h *holders) isManaged(address uint64) bool {
	last := len(h.areas) - 1
	return address >= h.areas[0].start && address < h.areas[last].end
}

// handleUse looks at two words in a row. Whatever has handles of its own has there
// where the next one is to be put, and where the block ends; that is the same place
// while no handle may be made, as an isolate says of itself. A list of blocks has
// one block after the other.
func (h *holders) handleUse(first, second, at uint64) {
	b := h.blockAround(first)
	if b == nil {
		return
	}
	end := b.start + handleBlock
	closed := second == first && slices.ContainsFunc(h.isolates, func(r addressRange) bool { return r.has(at) })
	switch {
	case second == end || closed:
		b.used = max(b.used, first)
	case first == b.start && h.isManaged(second):
		if next := h.blockAround(second); next != nil && next.start == second && next != b {
			next.before = append(next.before, first)
		}
	}
}

// blockAround returns the block of local handles that an address is in, its end
// included.
func (h *holders) blockAround(address uint64) *handleBlockState {
	i := sort.Search(len(h.handles), func(i int) bool { return h.handles[i].start > address }) - 1
	if i < 0 || address > h.handles[i].start+handleBlock {
		return nil
	}
	return &h.handles[i]
}

// spread finds the blocks that are full: a list has them before one that is in use.
// Where no block is known to be in use all may be.
func (h *holders) spread() {
	var used []*handleBlockState
	for i := range h.handles {
		if h.handles[i].used != 0 {
			used = append(used, &h.handles[i])
		}
	}
	if len(used) == 0 {
		for i := range h.handles {
			h.handles[i].used = h.handles[i].start + handleBlock
		}
	}
	for len(used) > 0 {
		b := used[len(used)-1]
		used = used[:len(used)-1]
		for _, start := range b.before {
			if before := h.blockAround(start); before.used == 0 {
				before.used = start + handleBlock
				used = append(used, before)
			}
		}
	}
}

// ringUse looks at four words in a row: those with which a queue of microtasks
// begins.
func (h *holders) ringUse(size, capacity, first, ring uint64) {
	switch {
	case size == 0, size > capacity, first >= capacity:
		return
	case capacity < minRing, capacity > maxRing, capacity&(capacity-1) != 0, ring%chunkAlign != 0, !h.isManaged(ring):
		return
	}
	head, ok := chunkAt(h.objects.memory, ring-chunkHead)
	if !ok || !fits((head&^chunkFlags)-wordSize, capacity*wordSize) {
		return
	}
	end := first + size
	h.rings = h.with(h.rings, addressRange{ring + first*wordSize, ring + min(end, capacity)*wordSize})
	if end > capacity {
		h.rings = h.with(h.rings, addressRange{ring, ring + (end-capacity)*wordSize})
	}
}

// listsOf finds the lists that an isolate has of objects, such as those that it was
// made with: three addresses say where one begins, ends, and would have to grow. A
// list of strings whose text is elsewhere does not keep them alive.
func (h *holders) listsOf(isolate addressRange) {
	words := make([]byte, isolate.end-isolate.start)
	n, _ := h.objects.memory.ReadAt(words, isolate.start)
	for i := 0; i+3*wordSize <= n; i += wordSize {
		start, end, room := wordOf(words, i), wordOf(words, i+wordSize), wordOf(words, i+2*wordSize)
		if !h.isManaged(start) || end <= start || room < end || room-start > maxList || (end-start)%wordSize != 0 || start%chunkAlign != 0 {
			continue
		}
		size, ok := chunkAt(h.objects.memory, start-chunkHead)
		if ok && fits((size&^chunkFlags)-wordSize, room-start) && !h.isExternal(start) {
			h.owned = h.with(h.owned, addressRange{start, end})
		}
	}
}

// isExternal reports whether a word refers to a string whose text is elsewhere.
func (h *holders) isExternal(at uint64) bool {
	var word [wordSize]byte
	if _, err := h.objects.memory.ReadAt(word[:], at); err != nil {
		return false
	}
	id, ok := h.objects.Find(wordOf(word[:], 0) - 1)
	return ok && strings.HasPrefix(h.objects.Map(id).Kind, "External")
}

// with adds to what holds objects. Whatever a process says, it is no more than malloc
// gave out.
func (h *holders) with(ranges []addressRange, r addressRange) []addressRange {
	if r.end-r.start > h.left {
		return ranges
	}
	h.left -= r.end - r.start
	return append(ranges, r)
}
