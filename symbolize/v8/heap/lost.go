package heap

import (
	"context"
	"maps"
	"slices"
)

// A lostObject is an address in a page where no object was found and one should be: something
// live refers to it.
type lostObject struct {
	at      uint64
	certain bool // that what refers to it is live
}

// lost returns the lost objects to which live ones refer.
func (g *Graph) lost() []lostObject {
	certain := make(map[uint64]bool) // by address
	for _, d := range g.dangling {
		if g.IsLive(d.from) {
			certain[d.to] = certain[d.to] || g.certain.has(d.from)
		}
	}
	lost := make([]lostObject, 0, len(certain))
	for _, at := range slices.Sorted(maps.Keys(certain)) {
		lost = append(lost, lostObject{at, certain[at]})
	}
	return lost
}

// addAnchors adds the addresses of objects that can be reached from lost ones and are
// not known to be live. It returns false if there are none.
func (g *Graph) addAnchors(ctx context.Context, lost []lostObject) (found bool, err error) {
	f := &lostFinder{
		Graph: g, walker: &pageWalker{Objects: g.Objects}, buffer: make([]byte, pageAlign),
		seen: make(map[uint64]bool), anchors: make(map[uint64][]uint64), firm: make(map[uint64][]uint64),
	}
	if err := f.find(ctx, lost, true); err != nil {
		return false, err
	}
	f.firmAnchors = maps.Clone(f.anchors)
	if err := f.find(ctx, lost, false); err != nil {
		return false, err
	}
	if len(f.anchors) == 0 {
		return false, nil
	}
	if g.anchors == nil {
		g.anchors = make(map[uint64][]uint64)
	}
	for page, more := range f.anchors {
		all := append(g.anchors[page], more...)
		slices.Sort(all)
		g.anchors[page] = slices.Compact(all)
	}
	return true, nil
}

// A lostFinder finds lost objects, first those that are certainly live. Of two objects in the
// same place, one that is certainly live is the right one: a word left over in a frame may
// refer to what is left over in a gap.
type lostFinder struct {
	*Graph
	walker *pageWalker
	buffer []byte
	seen   map[uint64]bool

	// Addresses, by their page's.
	anchors     map[uint64][]uint64 // found
	firmAnchors map[uint64][]uint64 // those that are certainly live
	firm        map[uint64][]uint64 // those, and the known objects that are certainly live; sorted; filled when needed
}

// find finds those of the lost objects that are certainly live, or those that are not, and
// what can be reached from them and is not known to be live.
func (f *lostFinder) find(ctx context.Context, lost []lostObject, certain bool) error {
	var queue []uint64
	for _, o := range lost {
		if o.certain == certain {
			queue = append(queue, o.at)
		}
	}
	for len(queue) > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		at := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		if to, ok := f.movedTo(at); ok {
			at = to
		}
		if f.seen[at] || len(f.seen) > maxDangling {
			continue
		}
		f.seen[at] = true
		p := f.Objects.at.page(at)
		id, known := p.find(at)
		if known && f.IsLive(id) {
			continue
		}
		data := f.objectAt(p, at, certain)
		if data == nil {
			continue
		}
		if !known {
			f.anchors[p.Address] = append(f.anchors[p.Address], at)
		}
		for i := 0; i+wordSize <= len(data); i += wordSize {
			if ref := wordOf(data, i); ref&3 == 1 && f.Objects.at.page(ref-1) != nil && !f.seen[ref-1] {
				queue = append(queue, ref-1)
			}
		}
	}
	return nil
}

// objectAt returns the part of the object at an address in a page that may hold
// references; nil if there is no object or it overlaps one that is as certainly live.
func (f *lostFinder) objectAt(p *pageObjects, at uint64, certain bool) []byte {
	if at < p.Start || at >= p.End || at%wordSize != 0 || p.Large() && at != p.Start {
		return nil
	}
	if id, ok := f.Around(at); ok && (f.certain.has(id) || !certain && f.IsLive(id)) {
		return nil
	}
	n, _ := f.memory.ReadAt(f.buffer[:min(p.End-at, uint64(len(f.buffer)))], at)
	if n < wordSize {
		return nil
	}
	index, ok := f.kindOf(wordOf(f.buffer, 0))
	if !ok || f.kinds.at(uint32(index)).free {
		return nil
	}
	size := f.walker.sizeOf(p, f.buffer[:n], index, n)
	if size == 0 || !certain && f.overlapsFirm(p, at, uint64(size)) {
		return nil
	}
	if form := f.kinds.at(uint32(index)).form; form.Tagged >= 0 {
		size = min(size, form.Tagged)
	}
	return f.buffer[:min(size, n)]
}

// overlapsFirm reports whether an object that is certainly live, and known or found, begins
// inside of one of a size at an address. All those that are certain have been found.
func (f *lostFinder) overlapsFirm(p *pageObjects, at, size uint64) bool {
	firm, ok := f.firm[p.Address]
	if !ok {
		firm = slices.Clone(f.firmAnchors[p.Address])
		p.each(func(id ID, address uint64) {
			if f.certain.has(id) {
				firm = append(firm, address)
			}
		})
		slices.Sort(firm)
		f.firm[p.Address] = firm
	}
	i, _ := slices.BinarySearch(firm, at+1)
	return i < len(firm) && firm[i] < at+size
}
