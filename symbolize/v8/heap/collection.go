package heap

import (
	"context"
	"slices"

	"ustack/symbolize/v8"
)

// A collection moves objects: a scavenge moves young objects, a compaction those of
// some pages. Meanwhile, a moved object's old place holds its new address instead of its
// map, and references lead to either place. Young objects not moved yet are in pages
// that are otherwise empty. A young object with a page of its own only changes its
// space; until then, its first word is its own address, and its map is in a hash table
// of C++ (src/heap/scavenger.cc, mark-compact.cc).
//
// Pages also have gaps that V8 fills with objects from the start. Whatever follows the
// newest object in a gap is left over from before, and may look like an object that
// reaches into the next one after the gap. References from live objects are more
// reliable: objects begin where they lead.
const (
	maxDangling = 1 << 22 // dangling references remembered
	maxRepairs  = 4       // further walks, each of which knows more; two have always been enough so far
)

// A danglingRef is a reference to a place in a page where no object was found.
type danglingRef struct {
	from ID
	to   uint64 // address
}

// forwards reports whether an object's first word may be a forwarding address.
func forwards(word uint64) bool { return word%wordSize == 0 && word != 0 }

// findMoved returns the object that was moved from an address.
func (o *Objects) findMoved(address uint64) (ID, bool) {
	to, ok := o.movedTo(address)
	if !ok {
		return 0, false
	}
	return o.at.page(to).find(to)
}

// movedTo returns the new address of the object that was at an address, if it was
// moved. A large object that was moved is still at its old address.
func (o *Objects) movedTo(address uint64) (to uint64, ok bool) {
	var word [wordSize]byte
	if address%wordSize != 0 {
		return 0, false
	}
	if _, err := o.memory.ReadAt(word[:], address); err != nil {
		return 0, false
	}
	to = wordOf(word[:], 0)
	return to, forwards(to) && to != address && o.at.page(to) != nil
}

// movedSize returns the size in bytes of an object that was moved to an address; 0
// if none was.
func (w *pageWalker) movedSize(to uint64) int {
	var head [v8.FormHead]byte
	if w.at.page(to) == nil {
		return 0
	}
	if n, _ := w.memory.ReadAt(head[:], to); n < wordSize {
		return 0
	}
	index, ok := w.kindOf(wordOf(head[:], 0))
	if !ok || !w.kinds.at(uint32(index)).sized {
		return 0
	}
	size := w.kinds.at(uint32(index)).form.Size(head[:])
	if size < 0 || size%wordSize != 0 {
		return 0
	}
	return size
}

// repair finds where objects begin that live ones refer to and the walk has missed,
// and walks again. It returns false if it did not walk: there is nothing left to find,
// or may is false.
func (g *Graph) repair(ctx context.Context, may bool) (again bool, err error) {
	lost := g.lost()
	g.Doubts.Dangling = len(lost)
	lost = append(lost, g.lostRoots...) // not doubts: a frame holds words that its function no longer uses
	if len(lost) == 0 || !may {
		return false, nil
	}
	if !g.moving && slices.ContainsFunc(lost, g.isMoving) {
		g.moving = true
		if err := g.findLostMaps(ctx); err != nil {
			return false, err
		}
		return true, g.Objects.walk(ctx)
	}
	found, err := g.addAnchors(ctx, lost)
	if err != nil || !found {
		return false, err
	}
	return true, g.Objects.walk(ctx)
}

// isMoving reports whether the memory at an address to which a live object refers shows
// that a collection was moving objects.
func (g *Graph) isMoving(lost lostObject) bool {
	to, ok := g.movedTo(lost.at)
	return ok || to == lost.at || g.Objects.at.page(lost.at).from
}

// findLostMaps finds the maps of the large young objects that a scavenge has left in
// place: C++ has the maps, next to references to the objects.
func (g *Graph) findLostMaps(ctx context.Context) error {
	lost := make(map[uint64]*maplessObject) // by reference
	for i := range g.pages {
		var head [v8.FormHead]byte
		p := &g.pages[i]
		if _, err := g.memory.ReadAt(head[:], p.Start); err == nil && p.Large() && wordOf(head[:], 0) == p.Start {
			lost[p.Start|1] = &maplessObject{page: p, head: head[:]}
		}
	}
	if len(lost) == 0 {
		return nil
	}
	look := func(data []byte, _ uint64) {
		for i := 0; i+2*wordSize <= len(data); i += wordSize {
			if o := lost[wordOf(data, i)]; o != nil {
				o.consider(g.Objects, wordOf(data, i+wordSize))
			}
		}
	}
	buffer := make([]byte, pageAlign)
	for _, r := range writable(g.memory.Regions()) {
		if err := eachData(ctx, g.memory, r, buffer, look); err != nil {
			return err
		}
	}
	g.lostMaps = make(map[uint64]uint64)
	for _, o := range lost {
		if o.size > 0 {
			g.lostMaps[o.page.Start] = o.word
		}
	}
	g.heap.UseMaps(g.lostMaps)
	return nil
}

// A maplessObject is a large object without its map.
type maplessObject struct {
	page *pageObjects
	head []byte
	word uint64 // refers to what may be its map
	size int    // in bytes, with that map
}

// consider examines a word found next to a reference to the object. Not all such words
// refer to its map: a frame may have spilled both, and freed memory may be about another
// object that was there before. The object fills its page, so its map is the one that
// makes it longest.
func (o *maplessObject) consider(all *Objects, word uint64) {
	index, ok := all.kindOf(word)
	if !ok || !all.kinds.at(uint32(index)).sized || all.kinds.at(uint32(index)).form.Map.Size > 0 {
		return // an object with a page of its own must have a length
	}
	size := all.kinds.at(uint32(index)).form.Size(o.head)
	if size%wordSize == 0 && size > o.size && uint64(size) <= o.page.End-o.page.Start {
		o.word, o.size = word, size
	}
}
