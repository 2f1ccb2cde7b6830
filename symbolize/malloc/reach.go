package malloc

import (
	"cmp"
	"context"
	"slices"
	"sort"

	"ustack/symbolize/space"
)

// Roots are where references to blocks may be, besides the blocks themselves.
type Roots struct {
	Ranges    []space.Range // of memory; what of it is malloc's is left out
	Registers []uint64
}

// Unreferenced returns the blocks that the program has and to which nothing refers, neither
// the roots nor a block that they lead to, by address. A word refers to a block if it is an
// address in it, so a block may seem referenced that is not.
func (h *Heap) Unreferenced(ctx context.Context, r Roots) ([]Chunk, error) {
	s := &search{heap: h, buffer: make([]byte, windowSize)}
	if err := s.index(ctx); err != nil {
		return nil, err
	}
	for _, word := range r.Registers {
		s.word(word)
	}
	for _, in := range h.outsideOf(r.Ranges) {
		if err := s.scan(ctx, in.Start, in.End); err != nil {
			return nil, err
		}
	}
	for len(s.todo) > 0 {
		id := s.todo[len(s.todo)-1]
		s.todo = s.todo[:len(s.todo)-1]
		start, end := s.chunks[id].Block()
		if err := s.scan(ctx, start, end); err != nil {
			return nil, err
		}
	}
	var lost []Chunk
	for id, c := range s.chunks {
		if !s.reached[id] {
			lost = append(lost, c)
		}
	}
	return lost, nil
}

// outsideOf returns the parts of ranges that malloc does not manage.
func (h *Heap) outsideOf(ranges []space.Range) []space.Range {
	var own []space.Range
	for _, a := range h.Areas {
		own = append(own, space.Range{Start: a.Start, End: a.End})
	}
	for _, a := range h.Arenas { // their lists refer to free blocks
		own = append(own, space.Range{Start: a.Address, End: a.Address + a.stateSize()})
	}
	for _, c := range h.Mapped {
		own = append(own, space.Range{Start: c.Start, End: c.Start + c.Size})
	}
	return space.Without(ranges, own)
}

// A search finds which blocks can be reached.
type search struct {
	heap    *Heap
	chunks  []Chunk // that the program has, by address
	reached []bool  // by index of chunks
	todo    []int   // indices of chunks that were reached and not searched
	pieces  []piece // by address
	buffer  []byte
}

// A piece is contiguous memory with blocks.
type piece struct {
	start, end uint64
	step       uint64 // bytes
	first      []int  // by step: index of the first chunk that begins in it or later; then that after the piece
}

// newPiece returns the piece from start up to end, with the chunks from one index up to
// another. However large it is, it has hardly more steps than chunks.
func (s *search) newPiece(start, end uint64, from, to int) piece {
	const few = 16
	p := piece{start: start, end: end, step: pageSize}
	for (end-start)/p.step > uint64(few+to-from) {
		p.step *= 2
	}
	for at := uint64(0); at < end-start; at += p.step {
		for from < to && s.chunks[from].Start-start < at {
			from++
		}
		p.first = append(p.first, from)
	}
	p.first = append(p.first, to)
	return p
}

// index lists the blocks.
func (s *search) index(ctx context.Context) error {
	err := s.heap.Each(ctx, func(c Chunk) {
		if c.Taken() {
			s.chunks = append(s.chunks, c)
		}
	})
	if err != nil {
		return err
	}
	slices.SortFunc(s.chunks, func(a, b Chunk) int { return cmp.Compare(a.Start, b.Start) })
	s.reached = make([]bool, len(s.chunks))
	for _, a := range s.heap.Areas {
		from := sort.Search(len(s.chunks), func(i int) bool { return s.chunks[i].Start >= a.Start })
		to := sort.Search(len(s.chunks), func(i int) bool { return s.chunks[i].Start >= a.End })
		s.pieces = append(s.pieces, s.newPiece(a.Start, a.End, from, to))
	}
	for i, c := range s.chunks {
		if c.Use == Mapped {
			s.pieces = append(s.pieces, s.newPiece(c.Start, c.Start+c.Size, i, i+1))
		}
	}
	slices.SortFunc(s.pieces, func(a, b piece) int { return cmp.Compare(a.start, b.start) })
	return nil
}

// scan searches memory for references.
func (s *search) scan(ctx context.Context, start, end uint64) error {
	for at := alignUp(start, wordSize); at < end; {
		if err := ctx.Err(); err != nil {
			return err
		}
		if end-at > pageSize { // a small piece is read at once
			next, ok := s.heap.window.memory.NextData(at)
			if !ok || next >= end {
				return nil
			}
			at = max(at, next&^(wordSize-1))
		}
		part := s.buffer[:min(uint64(len(s.buffer)), end-at)]
		n, _ := s.heap.window.memory.ReadAt(part, at) // what is missing refers to nothing
		for i := 0; i+wordSize <= n; i += wordSize {
			s.word(wordOf(part, i))
		}
		at += uint64(len(part))
	}
	return nil
}

// word notes the block that a word refers to.
func (s *search) word(word uint64) {
	if len(s.pieces) == 0 || word < s.pieces[0].start || word >= s.pieces[len(s.pieces)-1].end {
		return
	}
	i := sort.Search(len(s.pieces), func(i int) bool { return s.pieces[i].end > word })
	p := &s.pieces[i]
	if word < p.start {
		return
	}
	step := (word - p.start) / p.step
	from, to := p.first[step], p.first[step+1]
	id := from - 1 + sort.Search(to-from, func(i int) bool { return s.chunks[from+i].Start+headSize > word })
	if id < 0 || s.reached[id] {
		return
	}
	if start, end := s.chunks[id].Block(); word >= start && word < end {
		s.reached[id] = true
		s.todo = append(s.todo, id)
	}
}
