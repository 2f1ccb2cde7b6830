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
	fencepost     = 16      // size that marks the end of an area or of a piece of one
	minMapped     = 1 << 15 // least bytes of a chunk in a mapping of its own: a quarter of the usual threshold
	arenaAlign    = 1 << 26 // of the memory from which all threads but the first allocate
	maxArenaHead  = 1 << 12 // bytes before its first chunk; 0x8b0 in glibc 2.36
	manyChunks    = 16      // in a row cannot be an accident
	maxFenceposts = 48      // bytes of fenceposts at the end of a piece
	arenaLists    = 127     // of free chunks, in an arena
	fewestEmpty   = 16      // of these lists; most are of sizes that programs seldom free
	maxData       = 1 << 20 // bytes of a library's writable data that are searched for an arena
	maxAllData    = 1 << 26 // bytes of all libraries' data
)

// An addressRange is a range of addresses.
type addressRange struct{ start, end uint64 }

func (r addressRange) has(address uint64) bool { return address >= r.start && address < r.end }

// A chunkFinder finds the memory that glibc's malloc manages.
type chunkFinder struct {
	memory Memory
	tops   []uint64 // addresses of the chunks from which arenas in libraries' data take new memory
	left   uint64   // chunks that may still be examined
}

// area returns the chunks that malloc manages, one after the other from the start of a
// range or close to it; none if malloc does not manage it.
func (f *chunkFinder) area(r addressRange) addressRange {
	first, last, least := r.start, r.start, manyChunks
	if size := arenaSize(f.memory, r); size != 0 {
		r.end = r.start + size
		last, least = min(r.start+maxArenaHead, r.end), 1
	}
	longest := addressRange{}
	for at := first; at <= last && longest.end < r.end; at += chunkAlign { // what precedes the first may look like a chunk
		if end := f.chunksEnd(addressRange{at, r.end}, least); end > longest.end {
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
// boundary. It is 0 if there are fewer than least, unless they are a whole piece of an
// arena: where the heap cannot grow, because other memory follows it, malloc maps pieces
// elsewhere, each just large enough for a chunk or two (sysmalloc_mmap_fallback).
func (f *chunkFinder) chunksEnd(r addressRange, least int) (end uint64) {
	count := 0
	for at := r.start; f.left > 0; count++ {
		f.left--
		if at%minPage == 0 && count >= least {
			end = at
		}
		if at+minChunk > r.end {
			return end
		}
		size, ok := chunkAt(f.memory, at)
		length := size &^ chunkFlags
		switch {
		case count > 0 && f.isPieceEnd(at):
			return alignUp(at, minPage)
		case ok && length <= fencepost && end != at && count >= least:
			return min(alignUp(at+2*fencepost, minPage), r.end)
		case !ok || length < minChunk || length%chunkAlign != 0 || length > r.end-at:
			return end
		}
		at += length
		if at%minPage == 0 && slices.Contains(f.tops, at-length) {
			return at
		}
	}
	return 0
}

// isPieceEnd reports whether the fenceposts with which malloc ends a piece begin at an
// address: two, or three if there was room for one more.
func (f *chunkFinder) isPieceEnd(at uint64) bool {
	end := alignUp(at, minPage)
	if end-at < 2*fencepost || end-at > maxFenceposts {
		return false
	}
	for ; at < end; at += fencepost {
		if size, ok := chunkAt(f.memory, at); !ok || size&^previousInUse != fencepost {
			return false
		}
	}
	return true
}

// findTops finds the arenas in the writable data of libraries: glibc's main arena is in
// its own.
func (f *chunkFinder) findTops(ctx context.Context) error {
	total := uint64(0)
	for _, r := range f.memory.Regions() {
		size := r.End - r.Start
		if total += size; r.File == "" || !r.Write || size > maxData || total > maxAllData {
			total -= size
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		data := make([]byte, size)
		n, _ := f.memory.ReadAt(data, r.Start)
		for i := 0; i+(2+2*arenaLists)*wordSize <= n; i += wordSize {
			if isArena(data[i:], r.Start+uint64(i)) {
				f.tops = append(f.tops, wordOf(data, i))
			}
		}
	}
	return nil
}

// isArena reports whether the words at an address are an arena's: the address of the
// chunk from which it takes new memory, one more word, and its lists of free chunks. The
// ends of a list are in the list as if they were in a chunk, which would begin two words
// before them (struct malloc_state).
func isArena(words []byte, at uint64) bool {
	empty := 0
	for i := range arenaLists {
		list := at + uint64(2*i*wordSize)
		first, last := wordOf(words, (2*i+2)*wordSize), wordOf(words, (2*i+3)*wordSize)
		switch {
		case first == 0, last == 0, first%chunkAlign != 0, last%chunkAlign != 0, (first == list) != (last == list):
			return false
		case first == list:
			empty++
		}
	}
	return empty >= fewestEmpty
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
	mapped   []addressRange // the program's parts of chunks that malloc mapped separately
	others   []addressRange
	stacks   []addressRange // the threads'
}

// outsideOf finds that memory. It leaves out chunks that malloc mapped separately: V8
// keeps no references in such large chunks, except weak ones.
func outsideOf(ctx context.Context, o *Objects, stacks []Stack) (outside, error) {
	w := outside{spans: writable(o.memory.Regions())}
	finder := &chunkFinder{memory: o.memory, left: maxArenaHead}
	if err := finder.findTops(ctx); err != nil {
		return w, err
	}
	for _, t := range stacks {
		w.stacks = append(w.stacks, t.within(w.spans))
	}
	for _, r := range w.spans { // twice the maximum: other memory may look like chunks
		finder.left += 2 * (r.end - r.start) / minChunk
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
			at = w.add(o, finder, addressRange{at, r.end})
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
func (w *outside) add(o *Objects, finder *chunkFinder, r addressRange) (end uint64) {
	if p := o.pageAround(r.start); p != nil {
		return p.Address + p.Size
	}
	if size := mappedChunk(o.memory, r); size != 0 {
		w.mapped = append(w.mapped, addressRange{r.start + chunkHead, r.start + size})
		return r.start + size
	}
	if area := finder.area(r); area.end != 0 {
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
