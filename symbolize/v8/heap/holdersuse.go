package heap

import (
	"context"
	"strings"
)

// lookForUses searches memory managed by malloc for what says which handles count and
// which microtasks are pending.
func (h *holders) lookForUses(ctx context.Context, r addressRange) error {
	const overlap = 6 * wordSize
	buffer := make([]byte, pageAlign+overlap)
	for at := r.start; at < r.end; {
		if err := ctx.Err(); err != nil {
			return err
		}
		next, ok := h.objects.memory.NextData(at)
		if !ok {
			return nil
		}
		if at = max(at, next&^(pageAlign-1)); at >= r.end {
			return nil
		}
		n, _ := h.objects.memory.ReadAt(buffer[:min(uint64(len(buffer)), r.end-at)], at)
		for i := 0; i+wordSize <= n && i < pageAlign; i += wordSize {
			h.use(buffer[i:n], at+uint64(i))
		}
		at += pageAlign
	}
	return nil
}

// use examines the words at an address. An isolate's address may be followed by the one
// or two tables of a cache of compiled code (compilation-cache.h).
func (h *holders) use(words []byte, at uint64) {
	first := wordOf(words, 0)
	if h.isManaged(first) {
		h.handleUse(words, at)
	}
	for i := wordSize; i <= 2*wordSize && i+wordSize <= len(words) && h.isIsolate(first); i += wordSize {
		if h.kindOf(wordOf(words, i)) == cacheKind {
			h.owned = h.with(h.owned, addressRange{at + uint64(i), at + uint64(i) + wordSize})
		}
	}
	if len(words) >= 4*wordSize && first <= maxRing {
		h.ringUse(first, wordOf(words, wordSize), wordOf(words, 2*wordSize), wordOf(words, 3*wordSize))
	}
}

func (h *holders) isManaged(address uint64) bool {
	last := len(h.areas) - 1
	return address >= h.areas[0].start && address < h.areas[last].end
}

// ringUse examines four consecutive words, with which a queue of microtasks would begin.
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

// listsOf finds an isolate's lists of objects, such as those that it was created with:
// three addresses say where a list begins, ends, and would have to grow. A list of
// strings whose text is elsewhere does not keep them alive.
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

// isExternal reports whether the word at an address refers to a string whose text is
// elsewhere.
func (h *holders) isExternal(at uint64) bool {
	var word [wordSize]byte
	_, err := h.objects.memory.ReadAt(word[:], at)
	return err == nil && strings.HasPrefix(h.kindOf(wordOf(word[:], 0)), "External")
}

// kindOf returns the kind of the object that a word refers to; empty if it refers to none.
func (h *holders) kindOf(word uint64) string {
	id, ok := h.objects.Find(word - 1)
	if !ok {
		return ""
	}
	return h.objects.Map(id).Kind
}

// with adds a range to what holds objects. Whatever a process claims, the total is no
// more than malloc handed out.
func (h *holders) with(ranges []addressRange, r addressRange) []addressRange {
	if r.end-r.start > h.left {
		return ranges
	}
	h.left -= r.end - r.start
	return append(ranges, r)
}
