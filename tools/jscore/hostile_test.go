package jscore

import (
	"io"
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

// TestDamagedHeapIsNoEnd flips bytes in all pages, including headers, maps and
// dictionaries, and examines what is left in every way.
func TestDamagedHeapIsNoEnd(t *testing.T) {
	d, _ := censusDump(t, "24.21.0", 300, 300)
	pages := heap.FindPages(d, &d.Heap().Binary().Release.Pages)
	for seed, distance := range []uint64{1 << 14, 1 << 10, 1 << 8, 1 << 5} {
		m := damage(d, pages, distance, uint64(seed))
		h, err := v8.NewHeap(m, d.v8.Binary)
		if err != nil {
			t.Fatal(err)
		}
		o, err := heap.Walk(t.Context(), m, h, nil)
		if err != nil {
			t.Fatalf("a byte in %d: Walk: %v", distance, err)
		}
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
