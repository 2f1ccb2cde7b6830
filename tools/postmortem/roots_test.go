package postmortem

import (
	"encoding/binary"
	"slices"
	"testing"

	"ustack/symbolize/v8"
	"ustack/tools/core"
)

// madeMemory has regions that a process may write to, with what is in them.
type madeMemory map[uint64][]byte

func (m madeMemory) Regions() []Region {
	var regions []Region
	for start, data := range m {
		regions = append(regions, Region{Start: start, End: start + uint64(len(data)), Write: true})
	}
	slices.SortFunc(regions, func(a, b Region) int { return int(int64(a.Start) - int64(b.Start)) })
	return regions
}

func (m madeMemory) ReadAt(p []byte, address uint64) (int, error) {
	for start, data := range m {
		if address >= start && address < start+uint64(len(data)) {
			n := copy(p, data[address-start:])
			if n < len(p) {
				return n, core.ErrUnmapped
			}
			return n, nil
		}
	}
	return 0, core.ErrUnmapped
}

func (m madeMemory) put(address uint64, words ...uint64) {
	for start, data := range m {
		if address >= start && address < start+uint64(len(data)) {
			for i, w := range words {
				binary.LittleEndian.PutUint64(data[address-start+uint64(i)*wordSize:], w)
			}
		}
	}
}

// A chunk is one of malloc's.
type chunk struct {
	size uint64
	free bool
}

// chunks lays chunks out from an address on, as malloc does.
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

// used are chunks in use, as many as no accident makes.
func used(n int) []chunk { return slices.Repeat([]chunk{{size: 64}}, n) }

func TestWhatMallocHasFreeIsFound(t *testing.T) {
	const start, size = 0x10000, 0x4000
	chunks := append(used(20), chunk{96, true}, chunk{64, false}, chunk{128, true}, chunk{64, false})
	top := uint64(20*64 + 96 + 64 + 128 + 64)
	chunks = append(chunks, chunk{size - top, false})
	m := madeMemory{start: make([]byte, size)}
	m.chunks(start, chunks)
	got := freeMemory(m, addressRange{start, start + size})
	want := []addressRange{
		{start + 20*64, start + 20*64 + 96},
		{start + 20*64 + 96 + 64, start + 20*64 + 96 + 64 + 128},
		{start + top, start + size},
	}
	if !slices.Equal(got, want) {
		t.Errorf("free memory = %x, want %x", got, want)
	}
}

func TestWhatAThreadHasPutAsideIsFree(t *testing.T) {
	const start, size, key = 0x10000, 0x4000, 0x8845e65b67a21f9c
	m := madeMemory{start: make([]byte, size)}
	m.chunks(start, append(used(24), chunk{size - 24*64, false}))
	put := func(n, next, key uint64) {
		user := start + n*64 + chunkAlign
		m.put(user, next^user>>12, key)
	}
	put(3, start+7*64+chunkAlign, key)
	put(7, 0, key)
	put(9, 0, key+1)       // another number: in use
	put(11, start+8, key)  // leads to no chunk
	put(13, 0, start+1024) // an address: in use
	got := freeMemory(m, addressRange{start, start + size})
	want := []addressRange{{start + 3*64, start + 4*64}, {start + 7*64, start + 8*64}, {start + 24*64, start + size}}
	if !slices.Equal(got, want) {
		t.Errorf("free memory = %x, want %x", got, want)
	}
}

func TestChunksOfAThreadsArenaBeginAfterItsHead(t *testing.T) {
	const start, size, head = arenaAlign, 0x21000, 0x8b0
	m := madeMemory{start: make([]byte, size)}
	m.put(start, start+0x30, 0, size, size)
	chunks := append(used(30), chunk{160, true}, chunk{size - head - 30*64 - 160, false})
	m.chunks(start+head, chunks)
	got := freeMemory(m, addressRange{start, start + size})
	want := []addressRange{{start + head + 30*64, start + head + 30*64 + 160}, {start + head + 30*64 + 160, start + size}}
	if !slices.Equal(got, want) {
		t.Errorf("free memory = %x, want %x", got, want)
	}
}

func TestOtherMemoryHasNothingFree(t *testing.T) {
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
		if got := freeMemory(m, addressRange{start, start + size}); got != nil {
			t.Errorf("%s: free memory = %x, want none known", name, got)
		}
	}
}

func TestWritableMemoryIsTakenWhole(t *testing.T) {
	got := writable([]Region{
		{Start: 0x1000, End: 0x2000, Write: true},
		{Start: 0x2000, End: 0x3000, Write: true},
		{Start: 0x3000, End: 0x4000},
		{Start: 0x5000, End: arenaAlign, Write: true},
		{Start: arenaAlign, End: arenaAlign + 0x1000, Write: true},
	})
	want := []addressRange{{0x1000, 0x3000}, {0x5000, arenaAlign}, {arenaAlign, arenaAlign + 0x1000}}
	if !slices.Equal(got, want) {
		t.Errorf("writable = %x, want %x", got, want)
	}
}

func TestRootsAreWhereTheProcessLooks(t *testing.T) {
	// A page of four objects of two words each, and a stack and memory of malloc's
	// that refer to one of them each, from where it counts or does not.
	const page, stack, heap = 1 << 20, 0x7000_0000, 0x10000
	o := &Objects{kind: make([]uint32, 4), words: slices.Repeat([]uint32{2}, 4)}
	o.mapped = []Page{{Address: page, Start: page + 0x100, End: page + 0x140, Size: pageAlign}}
	o.pages = []pageObjects{{Page: o.mapped[0], count: 4, starts: []uint64{0x55 << 32}, ranks: []uint32{0}}}
	o.at.fill(o.pages)
	object := func(n uint64) uint64 { return uint64(v8.Ref(page + 0x100 + 16*n)) }

	m := madeMemory{stack: make([]byte, 0x1000), heap: make([]byte, 0x1000)}
	m.put(stack+0x400, object(0)) // below the stack pointer
	m.put(stack+0x900, object(1))
	m.chunks(heap, append(used(20), chunk{96, true}, chunk{64, false}, chunk{0x1000 - 20*64 - 160, false}))
	m.put(heap+20*64+32, object(2)) // free
	m.put(heap+19*64+32, object(3), object(3)+1, 5)
	o.memory = m

	thread := Thread{Registers: Registers{SP: stack + 0x800}}
	got, err := o.roots(t.Context(), []Thread{thread})
	if err != nil {
		t.Fatal(err)
	}
	want := []Root{{1, stack + 0x900}, {3, heap + 19*64 + 32}}
	if !slices.Equal(got, want) {
		t.Errorf("roots = %x, want %x", got, want)
	}

	thread.Registers.General[regCX] = object(2)
	if got, _ = o.roots(t.Context(), []Thread{thread}); len(got) != 3 || got[1] != (Root{2, 0}) {
		t.Errorf("roots = %x, want object 2 for a register, too", got)
	}
}

// NextData finds data anywhere: zeros in made memory are as good as others.
func (m madeMemory) NextData(address uint64) (uint64, bool) {
	for _, r := range m.Regions() {
		if address < r.End {
			return max(address, r.Start), true
		}
	}
	return 0, false
}
