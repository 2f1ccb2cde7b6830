package malloc

import (
	"cmp"
	"context"
	"slices"
)

// struct malloc_state (malloc/malloc.c): a lock and flags, the lists of small chunks in
// glibc before 2.43, the top, one more chunk, and the lists of free chunks, a bit for each,
// the next arena, one more pointer, a counter and two sizes.
const (
	lists    = 127                             // of free chunks
	listsAt  = 2 * wordSize                    // from the top on
	nextAt   = listsAt + 2*lists*wordSize + 16 // likewise
	systemAt = nextAt + 3*wordSize
	stateEnd = systemAt + 2*wordSize

	fewestEmpty = 16      // lists; most are of sizes that programs seldom free
	maxData     = 1 << 20 // bytes of a library's writable data that are searched for an arena
	maxAllData  = 1 << 26 // bytes of all libraries' data
	maxMain     = 64      // states that are tried as the main arena's
	fastLists   = 10
)

// topOffsets are where the top may be in the state of an arena: with lists of small chunks
// and without.
var topOffsets = []uint64{16 + fastLists*wordSize, 16}

// The memory from which all arenas but the main one take theirs (malloc/arena.c): each
// piece begins with the arena's address, the previous piece's and its own size.
const (
	heapAlign   = 1 << 26
	maxHeapHead = 1 << 12
)

// findArenas finds the main arena, and those that are linked to it.
func (h *Heap) findArenas(ctx context.Context) error {
	total, tried := uint64(0), 0
	for _, r := range h.window.memory.Regions() {
		size := r.End - r.Start
		if !isFile(r) || !r.Write || size > maxData || total+size > maxAllData {
			continue
		}
		total += size
		if err := ctx.Err(); err != nil {
			return err
		}
		data := make([]byte, size)
		n, _ := h.window.memory.ReadAt(data, r.Start)
		for i := 0; i+stateEnd <= n; i += wordSize {
			if !isState(data[i:], r.Start+uint64(i)) {
				continue
			}
			if h.link(r.Start + uint64(i)) {
				return nil
			}
			if tried++; tried == maxMain {
				return ErrNoArena
			}
		}
	}
	return ErrNoArena
}

// isState reports whether the words at an address are an arena's from the top on. The ends
// of a list are in the list as if they were in a chunk, which would begin two words before
// them.
func isState(words []byte, at uint64) bool {
	empty := 0
	for i := range lists {
		list := at + uint64(2*i*wordSize)
		first, last := wordOf(words, listsAt+2*i*wordSize), wordOf(words, listsAt+(2*i+1)*wordSize)
		switch {
		case first == 0, last == 0, first%chunkAlign != 0 && first != list, (first == list) != (last == list):
			return false
		case first == list:
			empty++
		}
	}
	return empty >= fewestEmpty
}

// link follows the ring of arenas from the main one, whose top is at an address. It
// reports whether the ring is whole.
func (h *Heap) link(topAt uint64) bool {
	for _, offset := range topOffsets {
		main := topAt - offset
		var arenas []Arena
		for at := main; len(arenas) < maxArenas; {
			a, next, ok := h.arena(at, offset)
			if !ok {
				break
			}
			a.Main = at == main
			arenas = append(arenas, a)
			if next == main {
				h.Arenas = arenas
				return true
			}
			if slices.ContainsFunc(arenas, func(a Arena) bool { return a.Address == next }) {
				break
			}
			at = next
		}
	}
	return false
}

// arena reads the state of an arena at an address.
func (h *Heap) arena(at, topOffset uint64) (a Arena, next uint64, ok bool) {
	state := make([]byte, stateEnd)
	if _, err := h.window.memory.ReadAt(state, at+topOffset); err != nil || !isState(state, at+topOffset) {
		return Arena{}, 0, false
	}
	a = Arena{Address: at, System: wordOf(state, systemAt), Top: wordOf(state, 0)}
	if topOffset == topOffsets[0] {
		a.fast = at + topOffset - fastLists*wordSize
	}
	return a, wordOf(state, nextAt), true
}

// findHeaps finds the pieces of all arenas but the main one: the newest has the top, and
// each leads to the one before.
func (h *Heap) findHeaps() {
	seen := make(map[uint64]bool)
	for i, a := range h.Arenas {
		for at := a.Top &^ (heapAlign - 1); !a.Main && at != 0 && !seen[at] && len(seen) < maxHeaps; {
			seen[at] = true
			words := h.window.words(at, 3)
			if words == nil {
				break
			}
			owner, before, size := wordOf(words, 0), wordOf(words, wordSize), wordOf(words, 2*wordSize)
			if owner != a.Address || size == 0 || size > heapAlign || size%pageSize != 0 || before%heapAlign != 0 || at+size < at {
				break
			}
			head := a.Address % heapAlign // the arena itself is in its first piece
			if at == a.Address&^(heapAlign-1) {
				head = alignUp(head+a.stateSize(), chunkAlign)
			}
			if head <= maxHeapHead {
				h.Areas = append(h.Areas, Area{at, at + size, at + head, i})
			}
			at = before
		}
	}
	h.sort()
}

// stateSize returns the size of an arena's state.
func (a Arena) stateSize() uint64 {
	if a.fast != 0 {
		return topOffsets[0] + stateEnd
	}
	return topOffsets[1] + stateEnd
}

func (h *Heap) sort() {
	slices.SortFunc(h.Areas, func(a, b Area) int { return cmp.Compare(a.Start, b.Start) })
}
