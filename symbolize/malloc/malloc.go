// Package malloc reads what a process has allocated with the malloc of glibc 2.28 and newer,
// from the process's memory: its arenas, which chunks are in use, and which are free and
// where.
//
// No symbols are needed. The main arena is in a library's data, where its lists of free chunks
// have a form of their own; the other arenas are linked to it. A piece of memory is an arena's
// only if each chunk in it leads to the next, to an end that only malloc makes.
package malloc

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"

	"ustack/symbolize/space"
)

// ErrNoArena is returned by Find if the process has no glibc, or one of an unknown form.
var ErrNoArena = errors.New("find malloc's arenas: no library has the main one (is it glibc's malloc?)")

// A chunk begins with a word that belongs to the one before, and one with its own size and
// flags (malloc/malloc.c).
const (
	wordSize   = 8
	chunkAlign = 16
	minChunk   = 32
	fencepost  = 16   // size that marks the end of a piece; 0 after it
	headSize   = 16   // bytes of a chunk before the program's part
	pageSize   = 4096 // bytes; sizes of pieces are multiples of it

	previousInUse = 1 // flags
	mappedAlone   = 2
	ofOtherArena  = 4
	allFlags      = 7

	minMapped = 1 << 15 // least bytes of a chunk in a mapping of its own: a quarter of the usual threshold
	maxMapped = 1 << 46 // most bytes of one
)

const (
	maxArenas = 1 << 12 // glibc's own limit is eight for each CPU
	maxHeaps  = 1 << 16 // pieces of all arenas together
	maxChunks = 1 << 30 // in one process
)

// Memory is the memory of a stopped process.
type Memory interface {
	// ReadAt fills p with the memory at an address.
	ReadAt(p []byte, address uint64) (int, error)
	// Regions returns the process's mappings, by address.
	Regions() []space.Region
	// NextData returns the first address, from address on, at which the memory may hold
	// something other than zeros; ok is false if only zeros follow.
	NextData(address uint64) (next uint64, ok bool)
}

// An Arena is a set of memory from which some of the threads allocate.
type Arena struct {
	Address uint64
	Main    bool   // threads use it first, and it grows by brk(2)
	System  uint64 // bytes that it got from the kernel, by its own account
	Found   uint64 // of these, bytes whose chunks were found
	Top     uint64 // the chunk from which it takes new memory
	fast    uint64 // address of its lists of small free chunks; 0 if it has none
}

// An Area is a contiguous piece of an arena.
type Area struct {
	Start, End uint64 // up to, not including, End
	First      uint64 // chunk; what is before it describes the piece
	Arena      int    // index in Heap.Arenas
}

// A Use says what a chunk is for.
type Use uint8

// The uses of chunks.
const (
	InUse  Use = iota // the program has it
	Mapped            // the program has it, in a mapping of its own
	Cached            // free, kept for a thread
	Fast              // free, in a list of small chunks that are not merged with their neighbours
	Free              // free, in one of the lists of the arena
	Top               // free, at the end of the arena
)

// useNames are the uses' names.
var useNames = [...]string{InUse: "in use", Mapped: "mapped", Cached: "thread cache", Fast: "fast bin", Free: "bin", Top: "top"}

func (u Use) String() string { return useNames[u] }

// A Chunk is a block of memory, with the word that holds its size.
type Chunk struct {
	Start uint64 // of its head
	Size  uint64 // bytes, with the head
	Use   Use
	Arena int // index in Heap.Arenas; -1 for one in a mapping of its own
}

// Block returns the part of the chunk that the program gets. It extends over the first word
// of the next chunk.
func (c Chunk) Block() (start, end uint64) {
	if c.Use == Mapped {
		return c.Start + headSize, c.Start + c.Size
	}
	return c.Start + headSize, c.Start + c.Size + wordSize
}

// Taken reports whether the program has the chunk.
func (c Chunk) Taken() bool { return c.Use == InUse || c.Use == Mapped }

// A Heap is all that malloc manages in a process.
type Heap struct {
	Arenas []Arena // the main one first
	Areas  []Area  // by address
	Mapped []Chunk // those in mappings of their own, by address

	window window
	left   int            // chunks of lists that may still be read
	cached map[uint64]Use // uses of chunks that look as if they were in use, by address
}

// Find finds what malloc manages. others is memory that it does not: ranges by address that
// do not overlap.
func Find(ctx context.Context, m Memory, others []space.Range) (*Heap, error) {
	h := &Heap{window: window{memory: m}, cached: make(map[uint64]Use)}
	if err := h.findArenas(ctx); err != nil {
		return nil, err
	}
	h.findHeaps()
	if err := h.findPieces(ctx, others); err != nil {
		return nil, err
	}
	for _, a := range h.Areas {
		h.Arenas[a.Arena].Found += a.End - a.Start
	}
	return h, h.findCached(ctx)
}

// area returns the area that contains an address; nil if there is none.
func (h *Heap) area(address uint64) *Area {
	i, found := slices.BinarySearchFunc(h.Areas, address, func(a Area, address uint64) int {
		switch {
		case a.End <= address:
			return -1
		case a.Start > address:
			return 1
		}
		return 0
	})
	if !found {
		return nil
	}
	return &h.Areas[i]
}

// Each visits all chunks, those of the areas first, each by address, until ctx is done.
func (h *Heap) Each(ctx context.Context, visit func(Chunk)) error {
	for i := range h.Areas {
		if err := h.eachIn(ctx, &h.Areas[i], visit); err != nil {
			return err
		}
	}
	for _, c := range h.Mapped {
		visit(c)
	}
	return ctx.Err()
}

// eachIn visits the chunks of an area.
func (h *Heap) eachIn(ctx context.Context, a *Area, visit func(Chunk)) error {
	const often = 1 << 16
	top := h.Arenas[a.Arena].Top
	for at, n := a.First, 0; at+minChunk <= a.End; n++ {
		if n%often == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		size, _, ok := h.window.head(at)
		size &^= allFlags
		if !ok || size < minChunk || size > a.End-at {
			break
		}
		c := Chunk{Start: at, Size: size, Arena: a.Arena}
		if at == top {
			c.Use = Top
			visit(c)
			break
		}
		next, _, ok := h.window.head(at + size)
		switch use, cached := h.cached[at]; {
		case ok && next&previousInUse == 0:
			c.Use = Free
		case cached:
			c.Use = use
		}
		visit(c)
		at += size
	}
	return nil
}

// A window reads memory in larger pieces than are asked for.
type window struct {
	memory Memory
	start  uint64
	data   []byte
	buffer []byte
}

const windowSize = 1 << 16

// words returns the words at an address; nil if they cannot be read.
func (w *window) words(at uint64, count int) []byte {
	size := count * wordSize
	if at < w.start || at-w.start+uint64(size) > uint64(len(w.data)) {
		if w.buffer == nil {
			w.buffer = make([]byte, windowSize)
		}
		w.start = at &^ (pageSize - 1)
		n, _ := w.memory.ReadAt(w.buffer, w.start)
		w.data = w.buffer[:n]
	}
	offset := at - w.start
	if offset+uint64(size) > uint64(len(w.data)) || offset+uint64(size) < offset {
		return nil
	}
	return w.data[offset:][:size]
}

// head returns a chunk's word of size and flags, and the one before it.
func (w *window) head(at uint64) (size, before uint64, ok bool) {
	words := w.words(at, 2)
	if words == nil {
		return 0, 0, false
	}
	return wordOf(words, wordSize), wordOf(words, 0), true
}

// word returns the word at an address.
func (w *window) word(at uint64) (uint64, bool) {
	words := w.words(at, 1)
	if words == nil {
		return 0, false
	}
	return wordOf(words, 0), true
}

// wordOf returns the word at an offset in b.
func wordOf(b []byte, offset int) uint64 { return binary.LittleEndian.Uint64(b[offset:]) }

func alignUp(address, to uint64) uint64 { return (address + to - 1) &^ (to - 1) }
