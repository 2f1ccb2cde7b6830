package heap

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"
)

// madeGraph returns a graph of one-word objects with these references and roots.
func madeGraph(out [][]ID, roots []ID, pairs []weakPair) *Graph {
	n := len(out)
	g := &Graph{Objects: &Objects{kind: make([]uint32, n), words: slices.Repeat([]uint32{1}, n)}, pairs: pairs}
	g.out.first = []uint32{0}
	for _, to := range out {
		for _, id := range to {
			g.out.append(id)
		}
		g.out.end()
	}
	for _, id := range roots {
		g.Roots = append(g.Roots, Root{Object: id})
	}
	if err := g.mark(context.Background(), newBits(n)); err != nil {
		panic(err) // the context cannot be the cause
	}
	return g
}

// reachable returns how many objects can be reached from roots without one of them.
func reachable(g *Graph, without ID) int {
	seen := newBits(g.Len())
	var stack []ID
	count := 0
	add := func(id ID) {
		if id != without && !seen.has(id) {
			seen.add(id)
			stack = append(stack, id)
			count++
		}
	}
	for _, r := range g.Roots {
		add(r.Object)
	}
	for len(stack) > 0 {
		id := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		g.out.each(id, add)
		for _, p := range g.pairs {
			if p.key == id {
				add(p.value)
			}
		}
	}
	return count
}

func TestRetainedIsWhatOnlyTheObjectReaches(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for round := range 300 {
		n := 2 + random.IntN(40)
		out := make([][]ID, n)
		for range random.IntN(3 * n) {
			from := random.IntN(n)
			out[from] = append(out[from], ID(random.IntN(n)))
		}
		var roots []ID
		for id := range ID(n) {
			if random.IntN(8) == 0 || id == 0 {
				roots = append(roots, id)
			}
		}
		pairs := []weakPair{{0, ID(random.IntN(n)), ID(random.IntN(n))}, {0, ID(random.IntN(n)), ID(random.IntN(n))}}
		g := madeGraph(out, roots, pairs)
		d := dominated(t, g)
		for id := range ID(n) {
			want := uint64(0)
			if g.IsLive(id) {
				want = uint64(g.Live-reachable(g, id)) * wordSize
			}
			if got := d.Retained(id); got != want {
				t.Fatalf("round %d: object %d of %v, roots %v, pairs %v retains %d bytes, want %d", round, id, out, roots, pairs, got, want)
			}
		}
	}
}

func TestDominatorsOfALongChain(t *testing.T) {
	const n = 1 << 17
	out := make([][]ID, n)
	for i := range n - 1 {
		out[i] = []ID{ID(i + 1)}
	}
	d := dominated(t, madeGraph(out, []ID{0}, nil))
	if got := d.Retained(0); got != n*wordSize {
		t.Errorf("the first of %d objects retains %d bytes, want %d", n, got, n*wordSize)
	}
	if by, ok := d.By(n - 1); !ok || by != n-2 {
		t.Errorf("the last object is kept by %d, %v, want %d", by, ok, n-2)
	}
	if _, ok := d.By(0); ok {
		t.Error("a root is kept by an object")
	}
}

// dominated returns what each object of a graph keeps alive.
func dominated(t testing.TB, g *Graph) *Dominated {
	t.Helper()
	d, err := g.Dominated(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return d
}
