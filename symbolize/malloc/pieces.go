package malloc

import (
	"cmp"
	"context"
	"slices"
	"sort"
	"strings"

	"ustack/symbolize/space"
)

// findPieces finds the pieces of the main arena, and the chunks in mappings of their own:
// in private memory that is not of a file, between what others have.
func (h *Heap) findPieces(ctx context.Context, others []space.Range) error {
	f := &pieceFinder{Heap: h, top: h.Arenas[0].Top, left: maxChunks}
	for _, a := range h.Areas { // those of the other arenas
		others = append(others[:len(others):len(others)], space.Range{Start: a.Start, End: a.End})
	}
	slices.SortFunc(others, func(a, b space.Range) int { return cmp.Compare(a.Start, b.Start) })
	for _, r := range private(h.window.memory.Regions()) {
		for at := r.Start; at < r.End; {
			next, ok := h.window.memory.NextData(at)
			if !ok || next >= r.End {
				break
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			at = max(at, next&^(pageSize-1))
			from := at
			i := sort.Search(len(others), func(i int) bool { return others[i].End > at })
			switch {
			case i == len(others):
				at = f.at(at, r.End)
			case others[i].Start <= at:
				at = alignUp(others[i].End, pageSize)
			default:
				at = f.at(at, min(r.End, others[i].Start))
			}
			if at < from {
				break // beyond the last address
			}
		}
	}
	h.Areas = append(h.Areas, f.found...)
	h.sort()
	return nil
}

// private returns the ranges of private memory that a process may write to, each as long
// as possible.
func private(regions []space.Region) []space.Range {
	var all []space.Range
	for _, r := range regions {
		last := len(all) - 1
		switch {
		case !r.Write || isFile(r):
		case last >= 0 && all[last].End == r.Start:
			all[last].End = r.End
		default:
			all = append(all, space.Range{Start: r.Start, End: r.End})
		}
	}
	return all
}

// isFile reports whether a region maps a file: the kernel names other memory in brackets.
func isFile(r space.Region) bool { return r.File != "" && !strings.HasPrefix(r.File, "[") }

// A pieceFinder finds pieces of the main arena.
type pieceFinder struct {
	*Heap
	top   uint64
	found []Area
	left  int // chunks that may still be examined
}

// at notes what malloc has at an address, and returns the end of that, or else of the page.
func (f *pieceFinder) at(at, end uint64) uint64 {
	size, before, ok := f.window.head(at)
	if !ok {
		return at + pageSize
	}
	if length := size &^ allFlags; size&allFlags == mappedAlone && before == 0 && length%pageSize == 0 &&
		length >= minMapped && length <= min(end-at, maxMapped) {
		f.Mapped = append(f.Mapped, Chunk{at, length, Mapped, -1})
		return at + length
	}
	if size&previousInUse != 0 && before == 0 {
		if last, ok := f.chain(at, end); ok {
			f.found = append(f.found, Area{Start: at, End: last, First: at})
			return last
		}
	}
	return at + pageSize
}

// chain follows the chunks from an address to the end of a piece: the top, or the marks
// that malloc leaves where memory of others begins.
func (f *pieceFinder) chain(at, end uint64) (last uint64, ok bool) {
	for count, length := 0, uint64(0); f.left > 0; count++ {
		f.left--
		size, before, ok := f.window.head(at)
		switch {
		case !ok:
			return 0, false
		case size&previousInUse == 0 && (count == 0 || before != length):
			return 0, false // a free chunk's size is after it, too
		}
		length = size &^ allFlags
		switch {
		case size&(mappedAlone|ofOtherArena) != 0:
			return 0, false
		case length == fencepost && count > 0:
			return f.marked(at, end)
		case length < minChunk || length%chunkAlign != 0 || length > end-at:
			return 0, false
		case at == f.top:
			return at + length, (at+length)%pageSize == 0
		}
		at += length
	}
	return 0, false
}

// marked returns the end of the piece whose end marks begin at an address: a page's end.
func (f *pieceFinder) marked(at, end uint64) (last uint64, ok bool) {
	const marks = 48 // bytes, at most
	last = alignUp(at, pageSize)
	if last-at < 2*fencepost || last-at > marks || last > end {
		return 0, false
	}
	for at += fencepost; at < last; at += fencepost {
		if size, _, ok := f.window.head(at); !ok || size&^allFlags > fencepost {
			return 0, false
		}
	}
	return last, true
}
