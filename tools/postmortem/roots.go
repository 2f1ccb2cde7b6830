package postmortem

import (
	"cmp"
	"context"
	"slices"
	"sort"
)

// A Root is an object that something outside of the heaps refers to: a stack, a
// register, a handle of an add-on, V8's own data.
type Root struct {
	Object ID
	From   uint64 // address of a word that refers to it; 0 for a register
}

// redZone is how far below a thread's stack pointer its memory still counts.
const redZone = 128

// A rootScan looks for references in memory that is not V8's. A word that looks
// like a reference is taken for one; left out is what malloc has free, and what
// lies below the threads' stack pointers: both refer to what is long gone.
type rootScan struct {
	objects *Objects
	stacks  []uint64 // where the threads' stacks begin to count
	seen    bitSet   // by ID
	roots   []Root
	buffer  []byte
}

// roots returns the objects that something outside of the heaps refers to.
func (o *Objects) roots(ctx context.Context, threads []Thread) ([]Root, error) {
	s := &rootScan{objects: o, seen: newBits(o.Len()), buffer: make([]byte, pageAlign)}
	for _, t := range threads {
		for _, w := range t.Registers.General {
			s.word(w, 0)
		}
		s.stacks = append(s.stacks, t.Registers.SP-redZone)
	}
	for _, r := range writable(o.memory.Regions()) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		s.span(r)
	}
	slices.SortFunc(s.roots, func(a, b Root) int { return cmp.Compare(a.Object, b.Object) })
	return s.roots, nil
}

// writable returns the ranges that a process may write to, each as long as it is,
// but for memory that malloc may have begun to manage anew.
func writable(regions []Region) []addressRange {
	var spans []addressRange
	for _, r := range regions {
		last := len(spans) - 1
		switch {
		case !r.Write:
		case last >= 0 && spans[last].end == r.Start && r.Start%arenaAlign != 0:
			spans[last].end = r.End
		default:
			spans = append(spans, addressRange{r.Start, r.End})
		}
	}
	return spans
}

// span looks through a range of memory.
func (s *rootScan) span(r addressRange) {
	for _, sp := range s.stacks {
		if sp >= r.start && sp < r.end {
			r.start = sp &^ (wordSize - 1)
		}
	}
	free := freeMemory(s.objects.memory, r)
	for at := r.start; at < r.end; {
		next, ok := s.objects.memory.NextData(at)
		if !ok {
			return
		}
		if at = max(at, next&^(wordSize-1)); at >= r.end {
			return
		}
		if p := s.objects.pageAround(at); p != nil {
			at = p.Address + p.Size
			continue
		}
		unused, in := inSpans(free, at)
		if in {
			at = unused.end
			continue
		}
		end := min(r.end, unused.start, at-at%pageAlign+pageAlign)
		s.scan(at, end)
		at = end
	}
}

// scan looks through memory from an address up to an end, as far as the core has it.
func (s *rootScan) scan(at, end uint64) {
	n, _ := s.objects.memory.ReadAt(s.buffer[:end-at], at) // what is not there refers to nothing
	for i := 0; i+wordSize <= n; i += wordSize {
		if w := wordOf(s.buffer, i); w&3 == 1 {
			s.word(w, at+uint64(i))
		}
	}
}

func (s *rootScan) word(w, from uint64) {
	if w&3 != 1 {
		return
	}
	if id, ok := s.objects.Find(w - 1); ok && !s.seen.has(id) {
		s.seen.add(id)
		s.roots = append(s.roots, Root{id, from})
	}
}

// glibc's malloc keeps a chunk's size before it, in a word of its own whose low
// bits are flags; the bit of a chunk in use is in the next one (malloc/malloc.c).
const (
	chunkSize     = 8  // where in a chunk its size is
	chunkFlags    = 7  // bits of it that are flags
	previousInUse = 1  // flag
	minChunk      = 32 // bytes
	chunkAlign    = 16
	arenaAlign    = 1 << 26 // of the memory that threads other than the first allocate from
	maxArenaHead  = 1 << 12 // bytes before its first chunk; 0x8b0 in glibc 2.36
	manyChunks    = 16      // in a row are no accident
	fencepost     = 16      // size of what marks an arena's end
)

// An addressRange is a range of addresses.
type addressRange struct{ start, end uint64 }

// freeMemory returns what malloc has at hand in a range of memory, by address: what
// is in there was referred to once. It is nil where glibc's malloc does not manage
// the memory.
func freeMemory(m Memory, r addressRange) []addressRange {
	first, last := r.start, r.start
	if r.start%arenaAlign == 0 {
		last = min(r.start+maxArenaHead, r.end)
	}
	for at := first; at <= last; at += chunkAlign {
		if free, ok := walkChunks(m, at, r.end); ok {
			return free
		}
	}
	return nil
}

// walkChunks goes from chunk to chunk. It returns false if these are not chunks.
func walkChunks(m Memory, at, end uint64) (free []addressRange, ok bool) {
	var cached []cachedChunk
	before := addressRange{}
	for count := 0; at+minChunk <= end; count++ {
		var head [3 * wordSize]byte
		if _, err := m.ReadAt(head[:], at+chunkSize); err != nil {
			return nil, false
		}
		size := wordOf(head[:], 0)
		length := size &^ chunkFlags
		if size&previousInUse == 0 && count > 0 {
			free = append(free, before)
		}
		if length <= fencepost && count >= manyChunks {
			return withCached(free, cached), true
		}
		if length < minChunk || length%chunkAlign != 0 || length > end-at {
			return nil, false
		}
		before = addressRange{at, at + length}
		if c, ok := cachedOf(before, wordOf(head[:], wordSize), wordOf(head[:], 2*wordSize)); ok {
			cached = append(cached, c)
		}
		if at += length; at+minChunk > end {
			ok = count+1 >= manyChunks
		}
	}
	return withCached(append(free, before), cached), ok // the last is what is left to give
}

// A cachedChunk may be one that its thread has put aside for its next call of
// malloc. Since glibc 2.34 such a chunk begins with the next one's address,
// exclusive-ored with its own divided by 4096, and a random number that is the
// process's own; its neighbour says that it is in use.
type cachedChunk struct {
	addressRange
	key uint64
}

const (
	maxCached   = 1<<10 + 16 // bytes
	leastCached = 2          // chunks with the same key are no accident
	maxAddress  = 1 << 47
)

func cachedOf(chunk addressRange, first, second uint64) (cachedChunk, bool) {
	next := first ^ (chunk.start+chunkAlign)>>12
	ok := chunk.end-chunk.start <= maxCached && second > maxAddress && next%chunkAlign == 0 && next < maxAddress
	return cachedChunk{chunk, second}, ok
}

// withCached adds to what is free those chunks that have the process's key: the one
// that most of them have.
func withCached(free []addressRange, cached []cachedChunk) []addressRange {
	counts, best := map[uint64]int{}, uint64(0)
	for _, c := range cached {
		if counts[c.key]++; counts[c.key] > counts[best] {
			best = c.key
		}
	}
	if counts[best] < leastCached {
		return free
	}
	for _, c := range cached {
		if c.key == best {
			free = append(free, c.addressRange)
		}
	}
	slices.SortFunc(free, func(a, b addressRange) int { return cmp.Compare(a.start, b.start) })
	return free
}

// inSpans returns the span that an address is in, and whether there is one. Where
// there is none it returns the next.
func inSpans(spans []addressRange, address uint64) (s addressRange, in bool) {
	i := sort.Search(len(spans), func(i int) bool { return spans[i].end > address })
	if i == len(spans) {
		return addressRange{^uint64(0), ^uint64(0)}, false
	}
	return spans[i], address >= spans[i].start
}

// root returns the root that refers to an object.
func (g *Graph) root(id ID) (Root, bool) {
	i, found := slices.BinarySearchFunc(g.Roots, id, func(r Root, id ID) int { return cmp.Compare(r.Object, id) })
	if !found {
		return Root{}, false
	}
	return g.Roots[i], true
}
