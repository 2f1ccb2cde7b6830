package jscore

import (
	"testing"

	"ustack/tools/core"
)

// maxLost is how many bytes of a page may belong to no object: memory that V8 reserved
// for its next objects still holds the previous ones.
const maxLost = 1 << 18

func everyObjectIsFoundByItsAddress(t *testing.T, g *Graph, facts censusFacts) {
	if least := facts.Keep * 2 * len(facts.Classes); g.Len() < least {
		t.Errorf("objects = %d, want %d at least", g.Len(), least)
	}
	last := uint64(0)
	for id := range ID(g.Len()) {
		address := g.Address(id)
		if got, ok := g.Find(address); !ok || got != id {
			t.Fatalf("Find(%#x) = %d, %v, want %d", address, got, ok, id)
		}
		if got, ok := g.Around(address + g.Size(id) - 1); !ok || got != id {
			t.Fatalf("Around(%#x) = %d, %v, want %d", address+g.Size(id)-1, got, ok, id)
		}
		if address < last {
			t.Fatalf("object %d is at %#x, in the one before, which ends at %#x", id, address, last)
		}
		last = address + g.Size(id)
	}
	if g.Doubts.Unreadable != 0 || g.Doubts.Lost > maxLost {
		t.Errorf("doubts = %+v", g.Doubts)
	}
}

func objectsAgreeWithV8Reader(t *testing.T, g *Graph, _ censusFacts) {
	const step = 7 // a prime, so that all kinds occur
	for id := ID(0); int(id) < g.Len(); id += step {
		o, err := g.heap.Object(g.Object(id).Ref())
		if err != nil || o.Map != g.Map(id) {
			t.Fatalf("object at %#x = %v, %v, want map %#x", g.Address(id), o, err, g.Map(id).Address)
		}
		if size, err := g.heap.SizeOf(o); err == nil && uint64(size) != g.Size(id) {
			t.Errorf("size of %s at %#x = %d, want %d", o.Map.Kind, o.Address, g.Size(id), size)
		}
	}
}

func pagesAreInSpaces(t *testing.T, g *Graph, _ censusFacts) {
	spaces, heaps := map[string]int{}, map[uint64]bool{}
	for _, p := range g.Pages() {
		spaces[p.Space]++
		heaps[p.Heap] = true
	}
	for _, want := range []string{"readonly", "new", "old", "large", "code"} {
		if spaces[want] == 0 {
			t.Errorf("pages by space = %v, want some of %s", spaces, want)
		}
	}
	delete(heaps, 0) // shared by all isolates
	if len(heaps) != 1 {
		t.Errorf("pages are of %d heaps, want one", len(heaps))
	}
}

func TestNoPagesInAbsurdMemory(t *testing.T) {
	const size = 24 << 30
	m := emptyMemory{Region{Start: 1 << 32, End: 1<<32 + size, Write: true}}
	if got := FindPages(m, pagesOf(t, 12, 4)); got != nil {
		t.Errorf("pages = %v, want none", got)
	}
}

// emptyMemory is a region of zeros.
type emptyMemory struct{ region Region }

func (m emptyMemory) Regions() []Region { return []Region{m.region} }

func (m emptyMemory) NextData(address uint64) (uint64, bool) { return address, true }

func (m emptyMemory) ReadAt(p []byte, address uint64) (int, error) {
	if address < m.region.Start || address+uint64(len(p)) > m.region.End {
		return 0, core.ErrUnmapped
	}
	clear(p)
	return len(p), nil
}
