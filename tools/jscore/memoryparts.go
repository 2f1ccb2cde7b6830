package jscore

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"ustack/symbolize/malloc"
	"ustack/symbolize/space"
	"ustack/symbolize/v8/heap"
)

// add adds a part of the part.
func (p *MemoryPart) add(of MemoryPart) {
	if of.Bytes > 0 {
		p.Bytes += of.Bytes
		p.Parts = append(p.Parts, of)
	}
}

// add adds a part of the memory.
func (m *Memory) add(p MemoryPart) {
	slices.SortStableFunc(p.Parts, func(a, b MemoryPart) int { return cmp.Compare(b.Bytes, a.Bytes) })
	if p.Bytes == 0 {
		return
	}
	m.Parts = append(m.Parts, p)
}

// Part returns the part of that name; one without bytes if there is none.
func (m *Memory) Part(name string) MemoryPart {
	for _, p := range m.Parts {
		if p.Name == name {
			return p
		}
	}
	return MemoryPart{Name: name}
}

// A pageUse is what bytes of V8's pages are used for.
type pageUse struct{ live, garbage, free, head uint64 }

func (u *pageUse) add(more pageUse) {
	u.live += more.live
	u.garbage += more.garbage
	u.free += more.free
	u.head += more.head
}

func (u *pageUse) total() uint64 { return u.live + u.garbage + u.free + u.head }

// part returns the use as a part.
func (u *pageUse) part(name string) MemoryPart {
	p := MemoryPart{Name: name}
	for _, of := range []MemoryPart{
		{Name: "live", Bytes: u.live},
		{Name: "garbage", Bytes: u.garbage},
		{Name: "free", Bytes: u.free},
		{Name: "headers", Bytes: u.head},
	} {
		p.add(of)
	}
	if usable := u.live + u.garbage + u.free; usable > 0 && u.free > 0 {
		p.Note = fmt.Sprintf("%.0f%% free", 100*float64(u.free)/float64(usable))
	}
	return p
}

// addPages adds what V8's pages are used for, by space and by isolate.
func (l *ledger) addPages(ctx context.Context) error {
	if l.dump.v8.Binary == nil {
		return nil
	}
	pages := heap.FindPages(l.dump, &l.dump.v8.Binary.Release.Pages)
	spaces, isolates := map[string]*pageUse{}, map[uint64]*pageUse{}
	var names []string
	next := heap.ID(0)
	for i := range pages {
		if err := ctx.Err(); err != nil {
			return err
		}
		p := &pages[i]
		use := l.pageUse(p, &next)
		if spaces[p.Space] == nil {
			spaces[p.Space] = new(pageUse)
			names = append(names, p.Space)
		}
		spaces[p.Space].add(use)
		if isolates[p.Heap] == nil {
			isolates[p.Heap] = new(pageUse)
		}
		isolates[p.Heap].add(use)
	}
	heaps, code := MemoryPart{Name: partHeap}, MemoryPart{Name: partCode}
	for _, name := range names {
		to := &heaps
		if strings.HasPrefix(name, "code") {
			to = &code
		}
		to.add(spaces[name].part(name + " space"))
	}
	released := MemoryPart{Name: "released pages"}
	for _, h := range l.held {
		if h.by == byReleased {
			released.Bytes += l.resident.count(h.start, h.end)
		}
	}
	heaps.add(released)
	l.memory.add(heaps)
	l.memory.add(code)
	for address, use := range isolates {
		l.memory.Isolates = append(l.memory.Isolates, IsolateMemory{
			Address(address), l.dump.isMain(address), use.total(), use.live, use.garbage, use.free,
		})
	}
	slices.SortFunc(l.memory.Isolates, func(a, b IsolateMemory) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Heap, b.Heap))
	})
	if l.graph != nil {
		l.memory.Doubts = &l.graph.Doubts
	}
	return nil
}

// isMain reports whether the address of a heap, which is in its isolate, is the main thread's.
func (d *Dump) isMain(address uint64) bool {
	const maxIsolate = 1 << 18 // bytes
	for _, i := range d.Isolates() {
		if address >= i.Address && address-i.Address < maxIsolate {
			return slices.Contains(i.Threads, d.Info().PID)
		}
	}
	return false
}

// pageUse returns what the bytes of a page are used for. next is the first object at or after
// the page; it becomes the first one after it.
func (l *ledger) pageUse(p *heap.Page, next *heap.ID) (use pageUse) {
	total := l.resident.count(p.Address, p.Address+p.Size)
	whole := total == p.Size
	use.head = total - l.resident.count(p.Start, p.End)
	if l.graph == nil {
		use.live = total - use.head
		return use
	}
	for ; int(*next) < l.graph.Len(); *next++ {
		at := l.graph.Address(*next)
		if at >= p.End {
			break
		}
		if at < p.Start {
			continue
		}
		size := min(l.graph.Size(*next), p.End-at)
		if !whole {
			size = l.resident.count(at, at+size)
		}
		if l.graph.IsLive(*next) {
			use.live += size
		} else {
			use.garbage += size
		}
	}
	if used := use.head + use.live + use.garbage; used < total {
		use.free = total - used
	}
	return use
}

// A mallocUse is what the bytes of malloc's memory are used for.
type mallocUse struct {
	part   MemoryPart
	arenas []ArenaMemory
	sizes  map[uint64]*SizeClass
	blocks int
	inUse  uint64
}

// addMalloc adds what malloc's memory is used for.
func (l *ledger) addMalloc(ctx context.Context) error {
	if l.malloc == nil {
		return nil
	}
	u := &mallocUse{part: MemoryPart{Name: partMalloc}, sizes: make(map[uint64]*SizeClass)}
	for _, a := range l.malloc.Arenas {
		u.arenas = append(u.arenas, ArenaMemory{Address: Address(a.Address), Main: a.Main, System: a.System})
	}
	uses := make(map[malloc.Use]uint64)
	total := uint64(0)
	for _, h := range l.held {
		if h.by == byMalloc {
			total += l.resident.count(h.start, h.end)
		}
	}
	outside := uint64(0)
	err := l.malloc.Each(ctx, func(c malloc.Chunk) {
		bytes := l.resident.count(c.Start, c.Start+c.Size)
		if c.Taken() {
			start, end := c.Block()
			n := min(l.outsideIn(start, min(end, c.Start+c.Size)), bytes)
			outside += n
			u.addTaken(c, bytes-n, n)
		} else {
			u.arenas[c.Arena].add(c, bytes)
		}
		uses[c.Use] += bytes
	})
	if err != nil {
		return err
	}
	u.part.add(MemoryPart{Name: "in use", Bytes: u.inUse, Note: plural(u.blocks, "block")})
	known := uses[malloc.InUse] + uses[malloc.Mapped]
	for _, use := range []malloc.Use{malloc.Free, malloc.Top, malloc.Cached, malloc.Fast} {
		u.part.add(MemoryPart{Name: freeNames[use], Bytes: uses[use]})
		known += uses[use]
	}
	u.part.add(MemoryPart{Name: "its own data", Bytes: total - min(total, known)})
	l.memory.add(u.part)
	slices.SortStableFunc(u.arenas, func(a, b ArenaMemory) int { return cmp.Compare(b.InUse+b.Free, a.InUse+a.Free) })
	l.memory.Arenas = u.arenas
	for _, s := range u.sizes {
		l.memory.Sizes = append(l.memory.Sizes, *s)
	}
	slices.SortFunc(l.memory.Sizes, func(a, b SizeClass) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Size, b.Size))
	})
	l.memory.Sizes = l.memory.Sizes[:min(len(l.memory.Sizes), maxSizes)]
	return nil
}

const maxSizes = 1 << 10 // sizes of blocks that are reported

// freeNames name what is free and where.
var freeNames = map[malloc.Use]string{
	malloc.Free: "free between blocks", malloc.Top: "free at arenas' ends", malloc.Cached: "free in thread caches", malloc.Fast: "free small blocks",
}

// addTaken adds a block that the program has: bytes of it are its own, and outside are those
// of an array buffer or a string.
func (u *mallocUse) addTaken(c malloc.Chunk, bytes, outside uint64) {
	if c.Arena >= 0 {
		u.arenas[c.Arena].add(c, bytes+outside)
	}
	u.inUse += bytes
	if outside > bytes {
		return // the block is the buffer's
	}
	u.blocks++
	s := u.sizes[c.Size]
	if s == nil {
		s = &SizeClass{Size: c.Size}
		u.sizes[c.Size] = s
	}
	s.Blocks++
	s.Bytes += bytes
}

// addHeld adds stacks and files.
func (l *ledger) addHeld(context.Context) error {
	stacks := MemoryPart{Name: partStacks, Note: plural(l.memory.Threads, "thread")}
	files := map[holder]*MemoryPart{byLibrary: {Name: partLibraries}, byFile: {Name: partFiles}}
	sums := map[holder]map[string]uint64{byLibrary: {}, byFile: {}}
	snapshots := l.snapshots()
	for _, h := range l.held {
		switch bytes := l.resident.count(h.start, h.end); h.by {
		case byStack:
			stacks.Bytes += bytes
		case byKernel:
			sums[byLibrary][h.name] += bytes
		case byLibrary, byFile:
			snapshot := uint64(0)
			for _, r := range snapshots {
				snapshot += l.resident.count(max(r.Start, h.start), min(r.End, h.end))
			}
			l.snapshot += snapshot
			sums[h.by][h.name] += bytes - snapshot
		}
	}
	for by, byName := range sums {
		for name, bytes := range byName {
			files[by].add(MemoryPart{Name: filepath.Base(name), Bytes: bytes})
		}
	}
	l.memory.add(stacks)
	l.memory.add(*files[byLibrary])
	l.memory.add(*files[byFile])
	l.memory.add(MemoryPart{Name: partSnapshots, Bytes: l.snapshot, Note: "in the program's file"})
	return nil
}

// snapshotNames are the variables that hold the snapshots of V8's heap with which node starts.
var snapshotNames = []string{"_ZN4nodeL21v8_snapshot_blob_dataE", "_ZN2v88internalL9blob_dataE"}

// snapshots returns where they are.
func (l *ledger) snapshots() []space.Range {
	var found []space.Range
	m := l.dump.v8.Module
	if m == nil || m.ELF == nil {
		return nil
	}
	for _, name := range snapshotNames {
		if s, ok := m.ELF.Symbol(name); ok {
			found = append(found, space.Range{Start: s.Address + m.Bias, End: s.Address + m.Bias + s.Size})
		}
	}
	return found
}

// maxGaps bounds the mappings of unknown use that are reported one by one.
const maxGaps = 10

// addGaps adds the memory that has no other use: that of array buffers outside of malloc, code
// outside of V8's pages, and what is not known.
func (l *ledger) addGaps(context.Context) error {
	code, unknown := uint64(0), map[space.Region]uint64{}
	l.resident.eachGap(l.held, func(start, end uint64) {
		for start < end {
			r, ok := l.dump.Region(start)
			to := end
			if ok {
				to = min(end, r.End)
			} else if r, next := l.nextRegion(start); next {
				to = min(end, r.Start)
			}
			bytes := l.resident.count(start, to) - l.outsideIn(start, to)
			if ok && r.Exec && r.File == "" {
				code += bytes
			} else {
				unknown[r] += bytes
			}
			start = to
		}
	})
	if code > 0 {
		part := l.memory.Part(partCode)
		part.add(MemoryPart{Name: "other machine code", Bytes: code})
		l.memory.Parts = slices.DeleteFunc(l.memory.Parts, func(p MemoryPart) bool { return p.Name == partCode })
		l.memory.add(part)
	}
	part := MemoryPart{Name: partUnknown}
	for r, bytes := range unknown {
		part.add(MemoryPart{Name: fmt.Sprintf("%x-%x", r.Start, r.End), Bytes: bytes})
	}
	l.memory.add(part)
	return nil
}

// nextRegion returns the first region that begins after an address.
func (l *ledger) nextRegion(address uint64) (space.Region, bool) {
	regions := l.dump.Regions()
	i, _ := slices.BinarySearchFunc(regions, address, func(r space.Region, at uint64) int { return cmp.Compare(r.Start, at) })
	if i == len(regions) {
		return space.Region{}, false
	}
	return regions[i], true
}

// finish orders the parts, and limits them to what can be listed.
func (l *ledger) finish() {
	m := l.memory
	slices.SortStableFunc(m.Parts, func(a, b MemoryPart) int {
		if unknown := (a.Name == partUnknown); unknown != (b.Name == partUnknown) {
			return map[bool]int{true: 1, false: -1}[unknown]
		}
		return cmp.Compare(b.Bytes, a.Bytes)
	})
	for i := range m.Parts {
		p := &m.Parts[i]
		if len(p.Parts) <= maxGaps {
			continue
		}
		rest := MemoryPart{Name: plural(len(p.Parts)-maxGaps, "other")}
		for _, of := range p.Parts[maxGaps:] {
			rest.Bytes += of.Bytes
		}
		p.Parts = append(p.Parts[:maxGaps:maxGaps], rest)
	}
}

// plural returns a count with a noun.
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
