package jscore

import (
	"bytes"
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"ustack/symbolize/v8"
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
	if err := g.mark(context.Background()); err != nil {
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

func retainedIsOfWholeStructures(t *testing.T, g *Graph, facts censusFacts) {
	d := dominated(t, g)
	total := uint64(0)
	for id := range ID(g.Len()) {
		if g.IsLive(id) {
			total += g.Bytes(id)
		}
	}
	if d.retained[0] != total {
		t.Errorf("all roots retain %d bytes, want %d", d.retained[0], total)
	}
	// Each of the holders but the last refers to the next, so the first keeps all of them
	// alive, with their lists, unless the array that also holds them exists.
	holders := d.Retainers(t.Context(), CensusOptions{Class: "Legacy"}, 10)
	if len(holders.Objects) != 10 {
		t.Fatalf("retainers = %d, want 10", len(holders.Objects))
	}
	for _, o := range holders.Objects[1:] {
		// A closure and its context belong to the object alone.
		if o.Retained < o.Size+64+32 {
			t.Errorf("%v retains %d bytes, want its closure, too", o.Brief, o.Retained)
		}
	}
	var text bytes.Buffer
	if err := holders.WriteText(&text); err != nil || strings.Count(text.String(), "Legacy") != 10 {
		t.Errorf("text = %v\n%s", err, text.String())
	}
}

func referencesAreFound(t *testing.T, g *Graph, facts censusFacts) {
	named := v8.Value(mostOf(t, g, CensusOptions{Class: "Named", Live: true}).Address)
	o, err := g.heap.Object(named)
	if err != nil {
		t.Fatal(err)
	}
	name, _, err := g.heap.Own(o, "name")
	if err != nil {
		t.Fatal(err)
	}
	refs, err := g.References(t.Context(), name, RefOptions{Depth: 3})
	if err != nil {
		t.Fatal(err)
	}
	if len(refs.Refs) != 1 || refs.Refs[0].Link != (Link{ByProperty, "name"}) || refs.Refs[0].Class != "Named" {
		t.Fatalf("the name is referred to by %+v, want property name of a Named", refs.Refs)
	}
	array := refs.Refs[0].Refs
	i := slices.IndexFunc(array, func(r *Reference) bool { return r.How == ByElement && r.Kind == "JSArray" })
	if i < 0 {
		t.Fatalf("the object is referred to by %+v, want an element of an array", array)
	}
	if next := array[i].Refs; !slices.ContainsFunc(next, func(r *Reference) bool { return r.Link == Link{ByProperty, "Named"} }) {
		t.Errorf("the array is referred to by %+v, want property Named", next)
	}
	var text bytes.Buffer
	if err := refs.WriteText(&text); err != nil || !strings.Contains(text.String(), ".name of ") {
		t.Errorf("text = %v\n%s", err, text.String())
	}
}

func pathLeadsFromARoot(t *testing.T, g *Graph, facts censusFacts) {
	most := mostOf(t, g, CensusOptions{Class: "Point3", Live: true})
	path, err := g.Path(t.Context(), v8.Value(most.Address))
	if err != nil {
		t.Fatal(err)
	}
	if len(path.Steps) == 0 || path.Root == "" || path.Steps[len(path.Steps)-1].Brief.Address != most.Address {
		t.Errorf("path = %+v, want one to %v", path, most.Address)
	}
	if last := len(path.Steps) - 1; last > 1 {
		if got := path.Steps[last].Link; got.How != ByElement {
			t.Errorf("last link = %v, want an element of an array", got)
		}
		if got, want := path.Steps[last-1].Link, (Link{ByProperty, "Point3"}); got != want {
			t.Errorf("link to the array = %v, want %v", got, want)
		}
	}
	if !slices.ContainsFunc(path.Steps, func(s Step) bool { return s.Link == Link{ByProperty, "kept"} }) {
		t.Errorf("path = %+v, want one by the global variable kept", path)
	}
	if _, err := g.Path(t.Context(), v8.Ref(8)); err == nil {
		t.Error("path to where no object is has no error")
	}
	for id := range g.Select(t.Context(), CensusOptions{Class: "Named"}) {
		if g.IsLive(id) {
			continue
		}
		path, err := g.Path(t.Context(), g.Object(id).Ref())
		if err != nil || len(path.Steps) > 0 {
			t.Errorf("path to a dead object = %+v, %v, want none", path, err)
		}
		break
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
