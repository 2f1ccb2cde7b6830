package heap

import (
	"slices"
	"testing"

	"ustack/symbolize/space"
)

// A chunk is a malloc chunk.
type chunk struct {
	size uint64
	free bool
}

// chunks lays out chunks from an address on, as malloc does.
func (m madeMemory) chunks(at uint64, chunks []chunk) {
	flag := uint64(previousInUse)
	for _, c := range chunks {
		m.put(at, 0, c.size|flag)
		flag = previousInUse
		if c.free {
			flag = 0
		}
		at += c.size
	}
}

// used returns chunks in use, too many for an accident.
func used(n int) []chunk { return slices.Repeat([]chunk{{size: 64}}, n) }

// madeMallocArea is the area that a chunkFinder finds with a limit that just suffices.
func madeMallocArea(m Memory, r addressRange) addressRange {
	f := &chunkFinder{memory: m, left: (r.end-r.start)/minChunk + maxArenaHead}
	return f.area(r)
}

// inUse returns what eachChunk yields.
func inUse(m Memory, area addressRange) []addressRange {
	var chunks []addressRange
	eachChunk(m, area, func(c addressRange) { chunks = append(chunks, c) })
	return chunks
}

func TestChunksInUseAreToldFromFreeOnes(t *testing.T) {
	const start, size = 0x10000, 0x4000
	chunks := append(used(20), chunk{96, true}, chunk{64, false}, chunk{128, true}, chunk{64, false})
	top := uint64(20*64 + 96 + 64 + 128 + 64)
	chunks = append(chunks, chunk{size - top, false})
	m := madeMemory{start: make([]byte, size)}
	m.chunks(start, chunks)
	area := madeMallocArea(m, addressRange{start, start + size})
	if want := (addressRange{start, start + size}); area != want {
		t.Fatalf("area = %x, want %x", area, want)
	}
	got := inUse(m, area)
	if len(got) != 22 {
		t.Fatalf("chunks in use = %d, want 22", len(got))
	}
	last := uint64(start) + 20*64 + 96
	want := []addressRange{
		{start + chunkHead, start + 64 + wordSize},
		{last + chunkHead, last + 64 + wordSize},
		{last + 64 + 128 + chunkHead, last + 64 + 128 + 64 + wordSize},
	}
	if got := []addressRange{got[0], got[20], got[21]}; !slices.Equal(got, want) {
		t.Errorf("the first and the last two in use = %x, want %x", got, want)
	}
}

func TestChunksOfAThreadsArenaBeginAfterItsHead(t *testing.T) {
	const start, size, head = arenaAlign, 0x21000, 0x8b0
	for name, test := range map[string]struct {
		words []uint64 // at the start
		want  addressRange
	}{
		"the first":      {[]uint64{start + 0x30, 0, size, size}, addressRange{start + head, start + size}},
		"a later one":    {[]uint64{9*arenaAlign + 0x30, 4 * arenaAlign, size, size}, addressRange{start + head, start + size}},
		"no arena":       {[]uint64{0, 0, size, size}, addressRange{}},
		"no page's size": {[]uint64{start + 0x30, 0, size - 8, size}, addressRange{}},
		"too long":       {[]uint64{start + 0x30, 0, size + 2*minPage, size}, addressRange{}},
	} {
		m := madeMemory{start: make([]byte, size+minPage)}
		m.put(start, test.words...)
		m.put(start+head-0x20, 0, 0x60|previousInUse) // of the head, like a chunk before an end
		m.chunks(start+head, []chunk{{0x290, false}, {160, true}, {size - head - 0x290 - 160, false}})
		if got := madeMallocArea(m, addressRange{start, start + size + minPage}); got != test.want {
			t.Errorf("%s: area = %x, want %x", name, got, test.want)
		}
	}
}

// TestPiecesOfAnAreaMayHaveFewChunks lays pieces out as malloc maps them where the heap
// cannot grow: each ends with fenceposts, except the newest, which ends with the chunk
// from which the arena takes memory.
func TestPiecesOfAnAreaMayHaveFewChunks(t *testing.T) {
	const start, size, library = 0x10000, 0x3000, 0x80000
	post := chunk{size: fencepost}
	for name, test := range map[string]struct {
		chunks []chunk
		top    uint64 // address
		want   addressRange
	}{
		"one free":       {[]chunk{{size - 32, true}, post, post}, 0, addressRange{start, start + size}},
		"one in use":     {[]chunk{{size - 32, false}, post, post}, 0, addressRange{start, start + size}},
		"three posts":    {[]chunk{{size - 48, false}, post, post, post}, 0, addressRange{start, start + size}},
		"one post":       {[]chunk{{size - 16, false}, post}, 0, addressRange{}},
		"posts too soon": {[]chunk{{size - 64, false}, post, post}, 0, addressRange{}},
		"only the top":   {[]chunk{{size, false}}, start, addressRange{start, start + size}},
		"the top":        {[]chunk{{1024, false}, {size - 1024, false}}, start + 1024, addressRange{start, start + size}},
		"another top":    {[]chunk{{1024, false}, {size - 1024, false}}, start + 2048, addressRange{}},
	} {
		m := libraryMemory{madeMemory{start: make([]byte, 2*size), library: make([]byte, minPage)}, library}
		m.chunks(start, test.chunks)
		m.arena(library+0x40, test.top)
		f := &chunkFinder{memory: m, left: size}
		if err := f.findTops(t.Context()); err != nil || len(f.tops) != 1 {
			t.Fatalf("%s: tops = %x, %v, want one", name, f.tops, err)
		}
		if got := f.area(addressRange{start, start + 2*size}); got != test.want {
			t.Errorf("%s: area = %x, want %x", name, got, test.want)
		}
	}
}

// libraryMemory is memory of which the part at an address is a library's.
type libraryMemory struct {
	madeMemory
	library uint64
}

func (m libraryMemory) Regions() []space.Region {
	regions := m.madeMemory.Regions()
	for i := range regions {
		if regions[i].Start == m.library {
			regions[i].File = "libc.so.6"
		}
	}
	return regions
}

// arena lays out the end of an arena at an address: one of its lists has a chunk.
func (m madeMemory) arena(at, top uint64) {
	m.put(at, top, 0)
	for i := range uint64(arenaLists) {
		list := at + 2*i*wordSize
		m.put(list+2*wordSize, list, list)
	}
	m.put(at+2*wordSize, 0x10000, 0x20000)
}

func TestAnAreaEndsWhereOtherMemoryBegins(t *testing.T) {
	const start, size = 0x10000, 0x4000
	m := madeMemory{start: make([]byte, size+0x2000)}
	m.chunks(start, append(used(40), chunk{size - 40*64, false}))
	m.put(start+size, 1, 2, 3)
	whole := addressRange{start, start + size + 0x2000}
	if got, want := madeMallocArea(m, whole), (addressRange{start, start + size}); got != want {
		t.Errorf("area before other memory = %x, want %x", got, want)
	}
	m.chunks(start, append(used(40), chunk{fencepost, false}))
	if got, want := madeMallocArea(m, whole), (addressRange{start, start + 0x1000}); got != want {
		t.Errorf("area with an end = %x, want %x", got, want)
	}
}

func TestOtherMemoryIsNotMallocs(t *testing.T) {
	const start, size = 0x10000, 0x4000
	for name, fill := range map[string]func(m madeMemory){
		"zeros":               func(madeMemory) {},
		"a chunk beyond":      func(m madeMemory) { m.chunks(start, append(used(20), chunk{size: size})) },
		"a size not aligned":  func(m madeMemory) { m.chunks(start, append(used(20), chunk{size: 72}, chunk{size: 64})) },
		"a few by accident":   func(m madeMemory) { m.chunks(start, []chunk{{size: 64}, {size: size - 64}}) },
		"a size of all bits":  func(m madeMemory) { m.chunks(start, append(used(20), chunk{size: 1<<64 - 64})) },
		"a size of no chunks": func(m madeMemory) { m.chunks(start, []chunk{{size: 8}}) },
	} {
		m := madeMemory{start: make([]byte, size)}
		fill(m)
		if got := madeMallocArea(m, addressRange{start, start + size}); got != (addressRange{}) {
			t.Errorf("%s: area = %x, want none", name, got)
		}
	}
}

func TestLargeChunksAreKnownByTheirHead(t *testing.T) {
	const start, size = 0x100000, minMapped + 0x1000
	m := madeMemory{start: make([]byte, size)}
	r := addressRange{start, start + size}
	for _, test := range []struct {
		before, size, want uint64
	}{
		{0, size | mappedAlone, size},
		{0, minMapped | mappedAlone, minMapped},
		{0, size, 0},
		{1, size | mappedAlone, 0},
		{0, (size + minPage) | mappedAlone, 0}, // larger than the range
		{0, minPage | mappedAlone, 0},          // malloc has room for so little
		{0, (size - 16) | mappedAlone, 0},
	} {
		m.put(start, test.before, test.size)
		if got := mappedChunk(m, r); got != test.want {
			t.Errorf("a chunk with %x and %x at its head has %x bytes, want %x", test.before, test.size, got, test.want)
		}
	}
}

func TestMemoryOutsideOfTheHeapIsDivided(t *testing.T) {
	const heap, area, alone, other = 1 << 20, 0x200000, 0x300000, 0x400000
	o := &Objects{mapped: []Page{{Address: heap, Start: heap + 0x100, End: heap + 0x200, Size: pageAlign}}}
	m := madeMemory{
		heap: make([]byte, pageAlign+0x1000), area: make([]byte, 0x3000),
		alone: make([]byte, minMapped+0x2000), other: make([]byte, 0x1000),
	}
	m.chunks(area, append(used(30), chunk{0x2000 - 30*64, false}))
	m.put(alone, 0, minMapped|mappedAlone)
	o.memory = m
	got, _ := outsideOf(t.Context(), o, nil)
	if want := []addressRange{{area, area + 0x2000}}; !slices.Equal(got.malloced, want) {
		t.Errorf("malloc's areas = %x, want %x", got.malloced, want)
	}
	want := []addressRange{
		{heap + pageAlign, heap + pageAlign + 0x1000},
		{area + 0x2000, area + 0x3000},
		{alone + minMapped, alone + minMapped + 0x2000},
		{other, other + 0x1000},
	}
	if !slices.Equal(got.others, want) {
		t.Errorf("other memory = %x, want %x", got.others, want)
	}
}

func TestWritableMemoryIsTakenWhole(t *testing.T) {
	got := writable([]space.Region{
		{Start: 0x1000, End: 0x2000, Write: true},
		{Start: 0x2000, End: 0x3000, Write: true},
		{Start: 0x3000, End: 0x4000},
		{Start: 0x5000, End: 0x6000, Write: true},
	})
	if want := []addressRange{{0x1000, 0x3000}, {0x5000, 0x6000}}; !slices.Equal(got, want) {
		t.Errorf("writable = %x, want %x", got, want)
	}
}

func TestTheSearchForChunksEnds(t *testing.T) {
	const start, size = 0x10000, 0x4000
	m := madeMemory{start: make([]byte, size)}
	m.chunks(start, append(used(100), chunk{size - 100*64, false}))
	f := &chunkFinder{memory: m, left: 99}
	if got := f.area(addressRange{start, start + size}); got != (addressRange{}) || f.left != 0 {
		t.Errorf("area = %x with %d left, want none with none", got, f.left)
	}
}
