package malloc

import "context"

// A cacheForm is the layout of the block in which malloc keeps a thread's free chunks:
// numbers of chunks by size, then lists of them.
type cacheForm struct {
	chunk   uint64 // size
	width   int    // bytes of a number
	bins    int
	counted bool // the numbers are of chunks that are there, and not of those that may still be added
}

// cacheForms are those of glibc 2.26, 2.30 and 2.42 (tcache_perthread_struct).
var cacheForms = []cacheForm{
	{0x250, 1, 64, true},
	{0x290, 2, 64, true},
	{0x300, 2, 76, false},
}

const (
	smallBins = 64      // with chunks of one size
	maxList   = 1 << 16 // chunks in a list: a tunable's limit
)

// findCached finds the chunks that are free and look as if they were in use: those of
// threads, and small ones.
func (h *Heap) findCached(ctx context.Context) error {
	var blocks []Chunk
	err := h.Each(ctx, func(c Chunk) {
		h.left += 2 // each chunk is in one list at most, which is followed in two ways
		for _, f := range cacheForms {
			if c.Use == InUse && c.Size == f.chunk {
				blocks = append(blocks, c)
			}
		}
	})
	if err != nil {
		return err
	}
	for _, c := range blocks {
		for _, f := range cacheForms {
			if c.Size == f.chunk {
				h.addCache(c.Start+headSize, f)
			}
		}
	}
	for _, a := range h.Arenas {
		for i := range uint64(fastLists) {
			if a.fast == 0 {
				continue
			}
			first, _ := h.window.word(a.fast + i*wordSize)
			if list, ok := h.list(first, headSize, minChunk+i*chunkAlign); ok {
				h.mark(list, Fast)
			}
		}
	}
	return ctx.Err()
}

func (h *Heap) mark(chunks []uint64, use Use) {
	for _, at := range chunks {
		h.cached[at] = use
	}
}

// addCache notes the chunks that the block at an address lists, if it is a thread's: each
// list has as many chunks as it says, of the right size.
func (h *Heap) addCache(at uint64, f cacheForm) {
	head := f.width * f.bins
	data := make([]byte, head+f.bins*wordSize)
	if _, err := h.window.memory.ReadAt(data, at); err != nil {
		return
	}
	var all []uint64
	for i := range f.bins {
		count := int(data[i*f.width])
		if f.width == 2 {
			count |= int(data[2*i+1]) << 8
		}
		size := uint64(minChunk + i*chunkAlign)
		if i >= smallBins {
			size = 0
		}
		first := wordOf(data, head+i*wordSize)
		if f.counted && count == 0 && first != 0 {
			return
		}
		list, ok := h.list(first, 0, size)
		if !ok || f.counted && len(list) != count {
			return
		}
		all = append(all, list...)
	}
	h.mark(all, Cached)
}

// list returns the chunks of a singly linked list that begins with a pointer: to the
// chunk itself if linkAt is headSize, else to the program's part. size is that of its
// chunks; 0 if they differ. Since glibc 2.32, the pointers between chunks are combined with
// the number of the page that they are in.
func (h *Heap) list(first uint64, linkAt, size uint64) (chunks []uint64, ok bool) {
	for _, mangled := range []bool{true, false} {
		if chunks, ok = h.follow(first, linkAt, size, mangled); ok {
			return chunks, true
		}
	}
	return nil, false
}

func (h *Heap) follow(first, linkAt, size uint64, mangled bool) (chunks []uint64, ok bool) {
	for p := first; p != 0; {
		chunk := p - headSize + linkAt
		head, _, ok := h.window.head(chunk)
		if h.area(chunk) == nil || !ok || size != 0 && head&^allFlags != size || len(chunks) >= maxList || h.left <= 0 {
			return nil, false
		}
		h.left--
		chunks = append(chunks, chunk)
		place := p + linkAt
		if p, ok = h.window.word(place); !ok {
			return nil, false
		}
		if mangled {
			p ^= place / pageSize
		}
	}
	return chunks, true
}
