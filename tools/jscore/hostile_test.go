package jscore

import (
	"encoding/binary"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"ustack/symbolize/v8"
	"ustack/symbolize/v8/heap"
)

// damaged is memory with some bytes flipped.
type damaged struct {
	heap.Memory
	at    []uint64 // addresses, in order
	flips []byte   // by the same index
}

func (m *damaged) ReadAt(p []byte, address uint64) (int, error) {
	n, err := m.Memory.ReadAt(p, address)
	i, _ := slices.BinarySearch(m.at, address)
	for ; i < len(m.at) && m.at[i] < address+uint64(n); i++ {
		p[m.at[i]-address] ^= m.flips[i]
	}
	return n, err
}

// damage flips bytes in pages, at most that distance apart.
func damage(d *Dump, pages []heap.Page, distance uint64, seed uint64) *damaged {
	random := rand.New(rand.NewPCG(seed, distance))
	m := &damaged{Memory: d}
	for _, p := range pages {
		for at := p.Address + random.Uint64N(distance); at < p.End; at += 1 + random.Uint64N(distance) {
			m.at = append(m.at, at)
			m.flips = append(m.flips, byte(1+random.IntN(255)))
		}
	}
	return m
}

// walk finds the objects in damaged memory of a dump.
func walk(t *testing.T, d *Dump, m *damaged) (*v8.Heap, *heap.Objects) {
	t.Helper()
	h, err := v8.NewHeap(m, d.v8.Binary)
	if err != nil {
		t.Fatal(err)
	}
	o, err := heap.Walk(t.Context(), m, h, nil)
	if err != nil {
		t.Fatalf("Walk: %v", err)
	}
	return h, o
}

// TestDamagedHeapIsNoEnd flips bytes in all pages, including headers, maps and
// dictionaries, and examines what is left in every way.
func TestDamagedHeapIsNoEnd(t *testing.T) {
	d, _ := censusDump(t, "24.21.0", 300, 300)
	pages := heap.FindPages(d, &d.Heap().Binary().Release.Pages)
	for seed, distance := range []uint64{1 << 14, 1 << 10, 1 << 8, 1 << 5} {
		m := damage(d, pages, distance, uint64(seed))
		h, o := walk(t, d, m)
		found, err := heap.NewGraph(t.Context(), o, d.LiveStacks())
		if err != nil {
			t.Fatalf("a byte in %d: NewGraph: %v", distance, err)
		}
		g := &Graph{Graph: found, dump: d, heap: h}
		census := g.Census(t.Context(), CensusOptions{Internal: true})
		if distance >= 1<<12 && (census.Count == 0 || g.Live == 0) {
			t.Errorf("a byte in %d: %d objects, %d of them live, want most of them", distance, census.Count, g.Live)
		}
		if err := census.WriteText(io.Discard); err != nil {
			t.Error(err)
		}
		g.Functions(t.Context(), FunctionOptions{})
		dominated(t, g).Retainers(t.Context(), CensusOptions{}, 10)
		for i, group := range census.Groups {
			if i%16 != 0 {
				continue
			}
			if _, err := g.References(t.Context(), v8.Value(group.Address), RefOptions{Depth: 3}); err != nil {
				t.Errorf("a byte in %d: References: %v", distance, err)
			}
			if _, err := g.Path(t.Context(), v8.Value(group.Address)); err != nil {
				t.Errorf("a byte in %d: Path: %v", distance, err)
			}
		}
		if _, err := g.Export(t.Context(), io.Discard); err != nil {
			t.Errorf("a byte in %d: Export: %v", distance, err)
		}
	}
}

// TestLeftoversHideNoLiveObjects puts what looks like an array in front of live objects, so long that
// they would be its elements. A word left over in a register refers to it.
func TestLeftoversHideNoLiveObjects(t *testing.T) {
	for _, version := range []string{"18.20.8", "26.10.0"} {
		d, facts := censusDump(t, version, 300, 300)
		before, err := d.Graph(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		want := liveByClass(before, facts)
		at, length := placeForArray(t, before, facts)
		m := &damaged{Memory: d}
		m.put(t, at, arrayMap(t, before), length<<32)

		h, o := walk(t, d, m)
		if id, ok := o.Find(at); !ok || o.Size(id) != 16+8*length {
			t.Fatalf("Node.js %s: no array of %d elements was found at first", version, length)
		}
		found, err := heap.NewGraph(t.Context(), o, append(d.LiveStacks(), heap.Stack{Registers: []uint64{at | 1}}))
		if err != nil {
			t.Fatalf("Node.js %s: NewGraph: %v", version, err)
		}
		g := &Graph{Graph: found, dump: d, heap: h}
		if got := liveByClass(g, facts); !maps.Equal(got, want) {
			t.Errorf("Node.js %s: live objects = %v, want %v; doubts: %+v", version, got, want, g.Doubts)
		}
	}
}

// put sets words, of which the memory has other values.
func (m *damaged) put(t *testing.T, address uint64, words ...uint64) {
	t.Helper()
	b := make([]byte, 8*len(words))
	if _, err := m.Memory.ReadAt(b, address); err != nil {
		t.Fatal(err)
	}
	for i, w := range words {
		for j := range 8 {
			m.at = append(m.at, address+uint64(8*i+j))
			m.flips = append(m.flips, b[8*i+j]^byte(w>>(8*j)))
		}
	}
}

// kept returns the class of the objects that census.js keeps.
func kept(g *Graph, facts censusFacts, id heap.ID) (class string, ok bool) {
	class, err := g.heap.Class(g.Object(id))
	return class, err == nil && slices.Contains(facts.Classes, class)
}

func liveByClass(g *Graph, facts censusFacts) map[string]int {
	live := make(map[string]int)
	for id := range heap.ID(g.Len()) {
		if class, ok := kept(g, facts, id); ok && g.IsLive(id) {
			live[class]++
		}
	}
	return live
}

// placeForArray returns the address of a dead object, and how many elements an array there would
// have to have to contain ten live objects that census.js keeps.
func placeForArray(t *testing.T, g *Graph, facts censusFacts) (address, length uint64) {
	t.Helper()
	dead, inside := heap.ID(0), 0
	for id := range heap.ID(g.Len()) {
		_, ok := kept(g, facts, id)
		switch {
		case g.Page(id).Large() || g.Page(id) != g.Page(dead) || g.Address(id)-g.Address(dead) > 1<<16:
			dead, inside = id, 0
		case inside == 0 && !g.IsLive(id):
			dead = id
		case ok && g.IsLive(id):
			inside++
		}
		if end := g.Address(id) + g.Size(id); inside == 10 && !g.IsLive(dead) {
			return g.Address(dead), (end - g.Address(dead) - 16) / 8
		}
	}
	t.Fatal("no dead object is followed by ten live ones")
	return 0, 0
}

// arrayMap returns a reference to the map of arrays of any values.
func arrayMap(t *testing.T, g *Graph) uint64 {
	t.Helper()
	for id := range heap.ID(g.Len()) {
		if g.Map(id).Kind != "FixedArray" {
			continue
		}
		var word [8]byte
		if _, err := g.dump.ReadAt(word[:], g.Address(id)); err != nil {
			t.Fatal(err)
		}
		return binary.LittleEndian.Uint64(word[:])
	}
	t.Fatal("no FixedArray")
	return 0
}
