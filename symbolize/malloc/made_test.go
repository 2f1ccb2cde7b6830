package malloc

import (
	"encoding/binary"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ustack/symbolize/space"
)

// made is memory of a process that was made up: a library's data, a heap and a mapping.
type made struct {
	regions []space.Region
	data    [][]byte // by region, of which it may be the beginning only
}

func (m *made) Regions() []space.Region { return m.regions }

func (m *made) NextData(address uint64) (uint64, bool) {
	for i, r := range m.regions {
		if address < r.Start+uint64(len(m.data[i])) {
			return max(address, r.Start), true
		}
	}
	return 0, false
}

func (m *made) ReadAt(p []byte, address uint64) (int, error) {
	for i, r := range m.regions {
		if address >= r.Start && address < r.End {
			if n := copy(p, m.data[i][min(address-r.Start, uint64(len(m.data[i]))):]); n == len(p) {
				return n, nil
			} else {
				return n, errors.New("beyond the end")
			}
		}
	}
	return 0, errors.New("no memory")
}

func (m *made) put(at uint64, words ...uint64) {
	for i, r := range m.regions {
		if at >= r.Start && at < r.End {
			for _, w := range words {
				binary.LittleEndian.PutUint64(m.data[i][at-r.Start:], w)
				at += wordSize
			}
			return
		}
	}
}

const (
	libraryAt = 0x7f0000000000
	heapAt    = 0x555555000000
	otherAt   = 0x7f1000000000
	mainAt    = libraryAt + 0x40
	heapSize  = 0x3000
	aloneSize = 0x21000
)

// makeProcess makes up a process: the main arena with a thread's cache of one chunk, a chunk in
// use, a free one and one in a list of small chunks, and a mapping that begins with a chunk.
func makeProcess() *made {
	m := &made{}
	for _, r := range []space.Region{
		{Start: heapAt, End: heapAt + heapSize, Write: true},
		{Start: libraryAt, End: libraryAt + 0x2000, Write: true, File: "/lib/libc.so.6"},
		{Start: otherAt, End: otherAt + aloneSize + 0x1000, Write: true},
	} {
		m.regions = append(m.regions, r)
		m.data = append(m.data, make([]byte, r.End-r.Start))
	}
	const (
		cache  = heapAt
		cached = cache + 0x290
		used   = cached + 0x40
		free   = used + 0x100
		small  = free + 0x500
		after  = small + 0x30
		top    = after + 0x20
	)
	m.put(cache+8, 0x291)
	m.put(cached+8, 0x41)
	m.put(used+8, 0x101)
	m.put(free+8, 0x501)
	m.put(small, 0x500, 0x30) // the one before is free
	m.put(after+8, 0x21)
	m.put(top+8, (heapAt+heapSize-top)|previousInUse)
	const bin = (0x40 - minChunk) / chunkAlign
	m.put(cache+headSize+bin/4*wordSize, 1<<(16*(bin%4)))
	m.put(cache+headSize+128+bin*wordSize, cached+headSize)
	m.put(cached+headSize, (cached+headSize)>>12) // the end of the list
	m.put(small+headSize, (small+headSize)>>12)
	m.state(top, small)
	m.put(otherAt, 0, aloneSize|mappedAlone)
	return m
}

// state lays out the main arena.
func (m *made) state(top, small uint64) {
	m.put(mainAt+16+wordSize, small) // the list of chunks of 48 bytes
	m.stateOf(mainAt, top, mainAt, heapSize)
}

func TestChunksOfMadeUpMemory(t *testing.T) {
	h, err := Find(t.Context(), makeProcess(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var got []Chunk
	if err := h.Each(t.Context(), func(c Chunk) { got = append(got, c) }); err != nil {
		t.Fatal(err)
	}
	want := []Chunk{
		{heapAt, 0x290, InUse, 0},
		{heapAt + 0x290, 0x40, Cached, 0},
		{heapAt + 0x2d0, 0x100, InUse, 0},
		{heapAt + 0x3d0, 0x500, Free, 0},
		{heapAt + 0x8d0, 0x30, Fast, 0},
		{heapAt + 0x900, 0x20, InUse, 0},
		{heapAt + 0x920, heapSize - 0x920, Top, 0},
		{otherAt, aloneSize, Mapped, -1},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("chunks (-want +got):\n%s", diff)
	}
	if a := h.Arenas[0]; !a.Main || a.System != heapSize || a.Found != heapSize {
		t.Errorf("arena = %+v, want the main one with %d bytes, all found", a, heapSize)
	}
}

// TestPointersInListsMayBePlain has lists as before glibc 2.32.
func TestPointersInListsMayBePlain(t *testing.T) {
	m := makeProcess()
	m.put(heapAt+0x290+headSize, 0)
	m.put(heapAt+0x8d0+headSize, 0)
	h, err := Find(t.Context(), m, nil)
	if err != nil || h.cached[heapAt+0x290] != Cached || h.cached[heapAt+0x8d0] != Fast {
		t.Errorf("cached = %v, %v, want a chunk of a thread and a small one", h.cached, err)
	}
}

func TestDamagedMemoryIsNotMallocs(t *testing.T) {
	for name, damage := range map[string]func(m *made){
		"size of zero":       func(m *made) { m.put(heapAt+0x298, 0) },
		"size beyond":        func(m *made) { m.put(heapAt+0x298, 1<<40|1) },
		"wrong size after":   func(m *made) { m.put(heapAt+0x8d0, 0x400) },
		"flag of another":    func(m *made) { m.put(heapAt+0x298, 0x41|ofOtherArena) },
		"top is elsewhere":   func(m *made) { m.put(mainAt+topOffsets[0], heapAt+0x900+8) },
		"nothing before top": func(m *made) { m.put(heapAt+0x928, 0x20|previousInUse) },
	} {
		m := makeProcess()
		damage(m)
		h, err := Find(t.Context(), m, nil)
		if err != nil || len(h.Areas) > 0 || h.Arenas[0].Found != 0 {
			t.Errorf("%s: areas = %+v, %v, want none", name, h.Areas, err)
		}
	}
}

func TestAnArenaOutsideOfTheRingIsNone(t *testing.T) {
	m := makeProcess()
	m.put(uint64(mainAt)+topOffsets[0]+nextAt, heapAt)
	if _, err := Find(t.Context(), m, nil); !errors.Is(err, ErrNoArena) {
		t.Errorf("error = %v, want that there is no arena", err)
	}
}

// TestListsThatLoopEnd has a list lead back to its own chunk.
func TestListsThatLoopEnd(t *testing.T) {
	m := makeProcess()
	at := uint64(heapAt + 0x290 + headSize)
	m.put(at, at^(at>>12))
	h, err := Find(t.Context(), m, nil)
	if err != nil || h.cached[heapAt+0x290] == Cached {
		t.Errorf("cached = %v, %v, want no chunk of a thread", h.cached, err)
	}
}

func TestOthersMemoryIsLeftOut(t *testing.T) {
	others := []space.Range{{Start: otherAt, End: otherAt + aloneSize}}
	h, err := Find(t.Context(), makeProcess(), others)
	if err != nil || len(h.Mapped) != 0 || len(h.Areas) != 1 {
		t.Errorf("heap = %+v, %v, want one area and no chunk alone", h, err)
	}
}

func TestBlocksThatAreNotReferredToAreLost(t *testing.T) {
	const used, after = heapAt + 0x2d0, heapAt + 0x900
	library := []space.Range{{Start: libraryAt, End: libraryAt + 0x2000}, {Start: heapAt, End: heapAt + heapSize}}
	for _, tt := range []struct {
		name  string
		refer func(m *made)
		regs  []uint64
		want  []uint64 // of heapAt, used, after and otherAt
	}{
		{"nothing", func(*made) {}, nil, []uint64{heapAt, used, after, otherAt}},
		{"a register", func(*made) {}, []uint64{used + headSize}, []uint64{heapAt, after, otherAt}},
		{"data", func(m *made) { m.put(libraryAt+0x1800, otherAt+headSize) }, nil, []uint64{heapAt, used, after}},
		{"inside", func(m *made) { m.put(libraryAt+0x1800, used+0x100) }, nil, []uint64{heapAt, after, otherAt}},
		{"a block in a block", func(m *made) {
			m.put(libraryAt+0x1800, otherAt+0x20000)
			m.put(otherAt+0x20008, after+headSize)
		}, nil, []uint64{heapAt, used}},
		{"a head", func(m *made) { m.put(libraryAt+0x1800, used, used+8) }, nil, []uint64{heapAt, used, after, otherAt}},
		{"a lost block", func(m *made) { m.put(used+headSize, after+headSize) }, nil, []uint64{heapAt, used, after, otherAt}},
		{"a free block", func(m *made) { m.put(heapAt+0x3d0+headSize, after+headSize) }, nil, []uint64{heapAt, used, after, otherAt}},
	} {
		m := makeProcess()
		tt.refer(m)
		h, err := Find(t.Context(), m, nil)
		if err != nil {
			t.Fatal(err)
		}
		lost, err := h.Unreferenced(t.Context(), Roots{Ranges: library, Registers: tt.regs})
		if err != nil {
			t.Fatal(err)
		}
		var got []uint64
		for _, c := range lost {
			got = append(got, c.Start)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: lost (-want +got):\n%s", tt.name, diff)
		}
	}
}

func FuzzFind(f *testing.F) {
	m := makeProcess()
	f.Add(slices.Concat(m.data[0], m.data[1][:0x1000]), uint64(0), uint64(0))
	f.Fuzz(func(t *testing.T, data []byte, at, word uint64) {
		m := makeProcess()
		copy(m.data[0], data)
		if len(data) > heapSize {
			copy(m.data[1], data[heapSize:])
		}
		for _, r := range m.regions {
			if at >= r.Start && at+wordSize <= r.End {
				m.put(at, word)
			}
		}
		h, err := Find(t.Context(), m, nil)
		if err != nil {
			return
		}
		end, areas := uint64(0), len(h.Areas)
		for _, a := range h.Areas {
			if a.End <= a.Start || a.Start < end || a.First < a.Start {
				t.Fatalf("%d areas: %+v after %#x", areas, a, end)
			}
			end = a.End
		}
		end = 0
		if err := h.Each(t.Context(), func(c Chunk) {
			if c.Size < minChunk || c.Use != Mapped && c.Start < end {
				t.Fatalf("chunk %+v after %#x", c, end)
			}
			end = c.Start + c.Size
		}); err != nil {
			t.Fatal(err)
		}
		if _, err := h.Unreferenced(t.Context(), Roots{Ranges: private(m.regions), Registers: []uint64{word}}); err != nil {
			t.Fatal(err)
		}
	})
}
