package malloc

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ustack/symbolize/space"
)

const (
	secondAt   = 0x7f2000000000 // pieces of another arena
	thirdAt    = secondAt + heapAlign
	secondMain = secondAt + 0x20
	secondSize = 0x4000
	thirdSize  = 0x1000
)

// add adds memory, of which only data is there.
func (m *made) add(start, end uint64, data []byte) {
	i := slices.IndexFunc(m.regions, func(r space.Region) bool { return r.Start > start })
	if i < 0 {
		i = len(m.regions)
	}
	m.regions = slices.Insert(m.regions, i, space.Region{Start: start, End: end, Write: true})
	m.data = slices.Insert(m.data, i, data)
}

// makeArenas is makeProcess with another arena in two pieces.
func makeArenas() *made {
	m := makeProcess()
	m.add(secondAt, secondAt+secondSize, make([]byte, secondSize))
	m.add(thirdAt, thirdAt+thirdSize, make([]byte, thirdSize))
	first := secondFirst()
	m.put(secondAt, secondMain, 0, secondSize)
	m.put(first+8, 0x101|ofOtherArena)
	m.put(first+0x108, (secondAt+secondSize-first-0x100)|previousInUse|ofOtherArena)
	m.put(thirdAt, secondMain, secondAt, thirdSize)
	m.put(thirdAt+0x20+8, 0x51|ofOtherArena)
	m.put(thirdAt+0x78, (thirdSize-0x70)|previousInUse|ofOtherArena)
	m.stateOf(secondMain, thirdAt+0x70, mainAt, secondSize+thirdSize)
	m.put(uint64(mainAt)+topOffsets[0]+nextAt, secondMain)
	return m
}

// secondFirst is where the first chunk of the other arena is.
func secondFirst() uint64 {
	return alignUp(secondMain+Arena{fast: 1}.stateSize(), chunkAlign)
}

// stateOf lays out an arena whose lists are empty.
func (m *made) stateOf(at, top, next, system uint64) {
	topAt := at + topOffsets[0]
	m.put(topAt, top, 0)
	for i := range uint64(lists) {
		list := topAt + 2*i*wordSize
		m.put(list+listsAt, list, list)
	}
	m.put(topAt+nextAt, next, 0, 1, system, system)
}

func TestPiecesOfAnotherArenaAreFound(t *testing.T) {
	h, err := Find(t.Context(), makeArenas(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var got []Chunk
	if err := h.Each(t.Context(), func(c Chunk) {
		if c.Arena == 1 {
			got = append(got, c)
		}
	}); err != nil {
		t.Fatal(err)
	}
	first := secondFirst()
	want := []Chunk{
		{first, 0x100, InUse, 1},
		{first + 0x100, secondAt + secondSize - first - 0x100, InUse, 1},
		{thirdAt + 0x20, 0x50, InUse, 1},
		{thirdAt + 0x70, thirdSize - 0x70, Top, 1},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("chunks (-want +got):\n%s", diff)
	}
	if a := h.Arenas[1]; a.Main || a.Found != a.System {
		t.Errorf("arena = %+v, want another than the main one, all found", a)
	}
}

// TestLargePiecesAreSearchedInLittleMemory has a piece of the main arena that is larger than
// memory: it has a chunk of 16 TB.
func TestLargePiecesAreSearchedInLittleMemory(t *testing.T) {
	const (
		huge = 1 << 44
		used = heapAt + 0x2d0
		last = heapAt + huge
		top  = last + 0x40
	)
	m := makeProcess()
	m.add(heapAt+heapSize, last, nil)
	m.add(last, last+pageSize, make([]byte, pageSize))
	m.put(used+8, (huge-0x2d0)|previousInUse)
	m.put(last+8, 0x41)
	m.put(top+8, (pageSize-0x40)|previousInUse)
	m.put(uint64(mainAt)+topOffsets[0], top)
	h, err := Find(t.Context(), m, nil)
	if err != nil || len(h.Areas) != 1 || h.Areas[0].End != last+pageSize {
		t.Fatalf("areas = %+v, %v, want one of 16 TB", h.Areas, err)
	}
	lost, err := h.Unreferenced(t.Context(), Roots{Registers: []uint64{last - 0x100, last + headSize}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range lost {
		if c.Start == used || c.Start == last {
			t.Errorf("%+v is lost, want it to be referred to", c)
		}
	}
}

// TestMemoryUpToTheLastAddress has ranges that end where addresses do.
func TestMemoryUpToTheLastAddress(t *testing.T) {
	const last = 1<<64 - 1
	m := makeProcess()
	m.add(last-0xfff, last, make([]byte, 0xfff))
	h, err := Find(t.Context(), m, []space.Range{{Start: last - 0xff, End: last}})
	if err != nil || len(h.Areas) != 1 {
		t.Errorf("areas = %+v, %v, want one", h.Areas, err)
	}
}

// TestFewStatesAreTried has a library whose data look like an arena everywhere, none of which
// has a top.
func TestFewStatesAreTried(t *testing.T) {
	const data = 1 << 18
	m := makeProcess()
	m.regions[1].End, m.data[1] = libraryAt+data, make([]byte, data)
	for at := uint64(libraryAt); at < libraryAt+data; at += 2 * wordSize {
		m.put(at, at-2*wordSize, at-2*wordSize)
	}
	c := &counted{made: m}
	if _, err := Find(t.Context(), c, nil); !errors.Is(err, ErrNoArena) {
		t.Errorf("error = %v, want that there is no arena", err)
	}
	if most := 2 * maxMain * maxArenas; c.reads > most {
		t.Errorf("reads = %d, want %d at most", c.reads, most)
	}
}

// A counted memory counts reads.
type counted struct {
	*made
	reads int
}

func (c *counted) ReadAt(p []byte, address uint64) (int, error) {
	c.reads++
	return c.made.ReadAt(p, address)
}

// maxReads bounds the reads of made-up memory of 60 pages: lists may lead from any to any
// other, for each chunk there is.
const maxReads = 200_000

// FuzzDamagedArenas reads what malloc manages from memory of which random words are wrong.
func FuzzDamagedArenas(f *testing.F) {
	for seed := range uint64(100) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		m := makeArenas()
		random := rand.New(rand.NewPCG(seed, 0))
		for range random.IntN(8) {
			m.put(m.somewhere(random), m.word(random))
		}
		c := &counted{made: m}
		h, err := Find(t.Context(), c, []space.Range{{Start: otherAt + aloneSize, End: otherAt + aloneSize + 0x1000}})
		if err != nil {
			return
		}
		total := uint64(0)
		if err := h.Each(t.Context(), func(c Chunk) { total += c.Size }); err != nil {
			t.Fatal(err)
		}
		size := uint64(0)
		for _, r := range m.regions {
			size += r.End - r.Start
		}
		if total > size {
			t.Errorf("chunks have %d bytes, of memory of %d", total, size)
		}
		if _, err := h.Unreferenced(t.Context(), Roots{Ranges: private(m.regions), Registers: []uint64{m.word(random)}}); err != nil {
			t.Fatal(err)
		}
		if c.reads > maxReads {
			t.Errorf("reads = %d, want %d at most", c.reads, maxReads)
		}
	})
}

// somewhere returns the address of a word that is not 0.
func (m *made) somewhere(random *rand.Rand) uint64 {
	for {
		i := random.IntN(len(m.regions))
		offset := random.IntN(len(m.data[i])/wordSize) * wordSize
		if wordOf(m.data[i], offset) != 0 {
			return m.regions[i].Start + uint64(offset)
		}
	}
}

// word returns a wrong word: an address, a chunk's size or anything.
func (m *made) word(random *rand.Rand) uint64 {
	switch random.IntN(4) {
	case 0:
		return m.somewhere(random)
	case 1:
		return m.somewhere(random) - headSize
	case 2:
		return uint64(random.IntN(heapSize))&^(chunkAlign-1) | uint64(random.IntN(8))
	}
	return random.Uint64()
}
