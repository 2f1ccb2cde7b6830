package heap

import (
	"slices"
	"sort"
)

// V8 lists the blocks of handles of each owner, oldest first, and stores where in the
// newest block the next handle goes and where that block ends. All other blocks are full
// (src/handles/handles.h, local-handles.h, persistent-handles.h).
//
// An isolate stores that position in itself; its list, an address and two counts, is
// also there, or follows its address. Other owners have a std::vector close to that
// position.
const maxHandleBlocks = 1 << 20

// A handleBlockState is a piece of memory that may be a block of local handles.
type handleBlockState struct {
	start uint64
	used  uint64 // the address up to which its handles count; 0: none
}

// handleUse examines the words at an address for an owner.
func (h *holders) handleUse(words []byte, at uint64) {
	word := func(i int) uint64 {
		if (i+1)*wordSize > len(words) {
			return 0
		}
		return wordOf(words, i*wordSize)
	}
	first, second := word(0), word(1)
	inIsolate := slices.ContainsFunc(h.isolates, func(r addressRange) bool { return r.has(at) })
	switch {
	case inIsolate:
		h.listUse(first, second, word(2))
	case h.isIsolate(first):
		h.listUse(second, word(2), word(3))
	}
	switch b := h.blockAround(first); {
	case inIsolate && b != nil && (second == b.start+handleBlock || second == first): // the same: no handle may be created
		h.current = append(h.current, first)
	case b != nil && second == b.start+handleBlock:
		for _, i := range []int{3, 4} { // after the scopes' depth, and in V8 9.4 to 12 one more word
			h.fill(h.blockList(word(i), word(i+1), word(i+2)), first)
		}
	case word(4)-word(3) <= handleBlock && h.blockAround(word(3)) != nil:
		if list := h.blockList(first, second, word(2)); list != nil && word(4) == list[len(list)-1].start+handleBlock {
			h.fill(list, word(3))
		}
	}
}

// listUse examines what may be an isolate's list of blocks.
func (h *holders) listUse(data, room, count uint64) {
	if count > room || room > maxHandleBlocks {
		return
	}
	if list := h.blockList(data, data+count*wordSize, data+room*wordSize); list != nil {
		h.lists = append(h.lists, list)
	}
}

func (h *holders) isIsolate(address uint64) bool {
	return slices.ContainsFunc(h.isolates, func(r addressRange) bool { return r.start == address })
}

// blockList returns the blocks in a list from start to end, which may grow to room. It is
// nil if there is no list. Whatever a process claims, all lists together are no longer
// than the memory that malloc handed out.
func (h *holders) blockList(start, end, room uint64) []*handleBlockState {
	if !h.isManaged(start) || start%chunkAlign != 0 || end <= start || room < end || (room-start)/wordSize > maxHandleBlocks || (end-start)%wordSize != 0 {
		return nil
	}
	size, ok := chunkAt(h.objects.memory, start-chunkHead)
	if !ok || !fits((size&^chunkFlags)-wordSize, room-start) {
		return nil
	}
	if end-start > h.left {
		return nil
	}
	h.left -= end - start
	words := make([]byte, end-start)
	if _, err := h.objects.memory.ReadAt(words, start); err != nil {
		return nil
	}
	var list []*handleBlockState
	for i := 0; i < len(words); i += wordSize {
		b := h.blockAround(wordOf(words, i))
		if b == nil || b.start != wordOf(words, i) {
			return nil
		}
		list = append(list, b)
	}
	return list
}

// fill records that the handles of an owner's blocks count up to next, the position in
// the last block at which the next handle goes.
func (h *holders) fill(list []*handleBlockState, next uint64) {
	if len(list) == 0 {
		return
	}
	last := list[len(list)-1]
	if next < last.start || next > last.start+handleBlock {
		return
	}
	last.used = max(last.used, next)
	for _, b := range list[:len(list)-1] {
		b.used = b.start + handleBlock
	}
}

// fillIsolates records which handles of isolates count. If nothing is known of any of
// them, all may count.
func (h *holders) fillIsolates() {
	for _, next := range h.current {
		b := h.blockAround(next)
		list := []*handleBlockState{b}
		for _, l := range h.lists {
			if l[len(l)-1] == b {
				list = l
			}
		}
		h.fill(list, next)
	}
	for i := range h.handles {
		if b := &h.handles[i]; len(h.current) == 0 {
			b.used = b.start + handleBlock
		}
	}
}

// blockAround returns the block of local handles that contains an address, its end
// included.
func (h *holders) blockAround(address uint64) *handleBlockState {
	i := sort.Search(len(h.handles), func(i int) bool { return h.handles[i].start > address }) - 1
	if i < 0 || address > h.handles[i].start+handleBlock {
		return nil
	}
	return &h.handles[i]
}
