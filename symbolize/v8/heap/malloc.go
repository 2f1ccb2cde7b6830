package heap

import (
	"context"
	"slices"

	"ustack/symbolize/space"
)

// glibc's malloc stores a chunk's size before it, in a separate word whose low bits are
// flags; the flag for a chunk in use is in the next chunk (malloc/malloc.c).
const (
	chunkSize     = 8  // offset of a chunk's size
	chunkFlags    = 7  // bits of the size that are flags
	previousInUse = 1  // flag
	mappedAlone   = 2  // flag of a chunk in a mapping of its own
	chunkHead     = 16 // bytes before the program's part
	minChunk      = 32 // bytes
	chunkAlign    = 16
	fencepost     = 16      // size that marks an area's end
	minMapped     = 1 << 17 // least bytes of a chunk in a mapping of its own
	arenaAlign    = 1 << 26 // of the memory from which all threads but the first allocate
	maxArenaHead  = 1 << 12 // bytes before its first chunk; 0x8b0 in glibc 2.36
	manyChunks    = 16      // in a row cannot be an accident
)

// An addressRange is a range of addresses.
type addressRange struct{ start, end uint64 }

func (r addressRange) has(address uint64) bool { return address >= r.start && address < r.end }

// mallocArea returns the chunks that glibc's malloc manages, one after the other from
// the start of a range or close to it; none if malloc does not manage it. Each chunk
// examined takes one from left; at 0 the search ends.
func mallocArea(m Memory, r addressRange, left *uint64) addressRange {
	first, last, least := r.start, r.start, manyChunks
	if size := arenaSize(m, r); size != 0 {
		r.end = r.start + size
		last, least = min(r.start+maxArenaHead, r.end), 1
	}
	longest := addressRange{}
	for at := first; at <= last && longest.end < r.end; at += chunkAlign { // what precedes the first may look like a chunk
		if end := chunksEnd(m, addressRange{at, r.end}, least, left); end > longest.end {
			longest = addressRange{at, end}
		}
	}
	return longest
}

// arenaSize returns the size of a piece of a thread's arena that begins where a range
// does: the piece says where the arena's own data is, close to the start of some piece,
// and its size in whole pages (malloc/arena.c). It is 0 if there is no such piece.
func arenaSize(m Memory, r addressRange) uint64 {
	var head [3 * wordSize]byte
	if r.start%arenaAlign != 0 {
		return 0
	}
	if _, err := m.ReadAt(head[:], r.start); err != nil {
		return 0
	}
	arena, before, size := wordOf(head[:], 0), wordOf(head[:], wordSize), wordOf(head[:], 2*wordSize)
	switch {
	case arena == 0, arena%arenaAlign == 0, arena%arenaAlign > maxArenaHead, before%arenaAlign != 0:
		return 0
	case size == 0, size%minPage != 0, size > r.end-r.start, size > arenaAlign:
		return 0
	}
	return size
}

// chunksEnd returns the end of the chunks that begin at the start of a range: a page
// boundary. It is 0 if there are fewer than least.
func chunksEnd(m Memory, r addressRange, least int, left *uint64) (end uint64) {
	count := 0
	for at := r.start; *left > 0; count++ {
		*left--
		if at%minPage == 0 && count >= least {
			end = at
		}
		if at+minChunk > r.end {
			return end
		}
		size, ok := chunkAt(m, at)
		length := size &^ chunkFlags
		if ok && length <= fencepost && end != at && count >= least {
			return min(alignUp(at+2*fencepost, minPage), r.end)
		}
		if !ok || length < minChunk || length%chunkAlign != 0 || length > r.end-at {
			return end
		}
		at += length
	}
	return 0
}

// eachChunk yields the parts of an area that the program uses, by address, without the
// chunks' heads. The last chunk is malloc's free remainder and is not in use.
func eachChunk(m Memory, area addressRange, visit func(addressRange)) {
	before := addressRange{}
	for at := area.start; at+minChunk <= area.end; {
		size, ok := chunkAt(m, at)
		length := size &^ chunkFlags
		if size&previousInUse != 0 && before.end != 0 {
			visit(before)
		}
		if !ok || length <= fencepost {
			return
		}
		// A chunk in use extends over the first word of the next.
		before = addressRange{at + chunkHead, at + length + wordSize}
		at += length
	}
}

// chunkAt returns the word that holds the size and flags of the chunk at an address.
func chunkAt(m Memory, at uint64) (size uint64, ok bool) {
	var word [wordSize]byte
	if _, err := m.ReadAt(word[:], at+chunkSize); err != nil {
		return 0, false
	}
	return wordOf(word[:], 0), true
}

// mappedChunk returns the size of a chunk that begins where a range does because malloc
// mapped it separately; 0 if there is none.
func mappedChunk(m Memory, r addressRange) uint64 {
	var head [2 * wordSize]byte
	if _, err := m.ReadAt(head[:], r.start); err != nil {
		return 0
	}
	before, size := wordOf(head[:], 0), wordOf(head[:], wordSize)
	length := size &^ chunkFlags
	if before != 0 || size&chunkFlags != mappedAlone || length%minPage != 0 || length < minMapped || length > r.end-r.start {
		return 0
	}
	return length
}

// Writable memory outside V8's heap, by address.
type outside struct {
	spans    []addressRange // all of it, and V8's heap
	malloced []addressRange // areas managed by malloc
	others   []addressRange
	stacks   []addressRange // the threads'
	chunks   uint64         // malloc chunks that may still be examined
}

// outsideOf finds that memory. It leaves out chunks that malloc mapped separately: V8
// keeps no references in such large chunks, except weak ones.
func outsideOf(ctx context.Context, o *Objects, stacks []Stack) (outside, error) {
	w := outside{spans: writable(o.memory.Regions()), chunks: maxArenaHead}
	for _, t := range stacks {
		w.stacks = append(w.stacks, t.within(w.spans))
	}
	for _, r := range w.spans { // twice the maximum: other memory may look like chunks
		w.chunks += 2 * (r.end - r.start) / minChunk
	}
	for _, r := range w.spans {
		for at := r.start; at < r.end; {
			if err := ctx.Err(); err != nil {
				return w, err
			}
			next, ok := o.memory.NextData(at)
			if !ok {
				break
			}
			if at = max(at, next&^(minPage-1)); at >= r.end {
				break
			}
			at = w.add(o, addressRange{at, r.end})
		}
	}
	return w, nil
}

// within returns the contiguous memory within a range.
func (w *outside) within(r addressRange) addressRange {
	i := slices.IndexFunc(w.spans, func(s addressRange) bool { return s.has(r.start) })
	if i < 0 {
		return addressRange{}
	}
	return addressRange{r.start, min(r.end, w.spans[i].end)}
}

// add adds what is at the start of a range, and returns its end.
func (w *outside) add(o *Objects, r addressRange) (end uint64) {
	if p := o.pageAround(r.start); p != nil {
		return p.Address + p.Size
	}
	if size := mappedChunk(o.memory, r); size != 0 {
		return r.start + size
	}
	if area := mallocArea(o.memory, r, &w.chunks); area.end != 0 {
		w.malloced = append(w.malloced, area)
		return area.end
	}
	end = min(r.start+minPage, r.end)
	if slices.ContainsFunc(w.stacks, func(s addressRange) bool { return s.has(r.start) }) {
		return end // including malloc's memory next to it: a signal handler may have its stack there
	}
	if last := len(w.others) - 1; last >= 0 && w.others[last].end == r.start {
		w.others[last].end = end
	} else {
		w.others = append(w.others, addressRange{r.start, end})
	}
	return end
}

// writable returns the ranges that a process may write to, each as long as possible.
func writable(regions []space.Region) []addressRange {
	var spans []addressRange
	for _, r := range regions {
		last := len(spans) - 1
		switch {
		case !r.Write:
		case last >= 0 && spans[last].end == r.Start:
			spans[last].end = r.End
		default:
			spans = append(spans, addressRange{r.Start, r.End})
		}
	}
	return spans
}
