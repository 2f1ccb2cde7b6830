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

// madeMallocArea is mallocArea with a limit that just suffices.
func madeMallocArea(m Memory, r addressRange) addressRange {
	left := (r.end-r.start)/minChunk + maxArenaHead
	return mallocArea(m, r, &left)
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
	left := uint64(99)
	if got := mallocArea(m, addressRange{start, start + size}, &left); got != (addressRange{}) || left != 0 {
		t.Errorf("area = %x with %d left, want none with none", got, left)
	}
}
