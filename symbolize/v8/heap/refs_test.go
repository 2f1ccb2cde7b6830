package heap

import (
	"math/rand/v2"
	"slices"
	"testing"
)

func TestBackwardEdgesAreTheForwardOnes(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	const n = 500
	out, want := make([][]ID, n), make([][]ID, n)
	for range partSize + 1000 { // in two parts
		from, to := ID(random.IntN(n)), ID(random.IntN(n))
		out[from] = append(out[from], to)
	}
	for from := range ID(n) {
		for _, to := range out[from] {
			want[to] = append(want[to], from)
		}
	}
	pairs := []weakPair{{table: 0, key: 1, value: 2}}
	want[2] = append(want[2], 1)
	g := madeGraph(out, []ID{0}, pairs)
	in := g.backward()
	for id := range ID(n) {
		var got []ID
		in.each(id, func(from ID) { got = append(got, from) })
		slices.Sort(got)
		slices.Sort(want[id])
		if !slices.Equal(got, want[id]) {
			t.Fatalf("object %d is referred to by %v, want %v", id, got, want[id])
		}
	}
}

func TestPairsOfADeadTableReferToNothing(t *testing.T) {
	g := madeGraph([][]ID{{1}, nil, nil, nil}, []ID{0}, []weakPair{{table: 3, key: 1, value: 2}})
	g.backward().each(2, func(from ID) { t.Errorf("object 2 is referred to by %d, want nothing", from) })
	if g.IsLive(2) {
		t.Error("the value of a pair of a dead table is live")
	}
}

func TestLinksReadAsInAProgram(t *testing.T) {
	for link, want := range map[Link]string{
		{ByProperty, "name"}:   ".name",
		{ByElement, "3"}:       "[3]",
		{ByVariable, "count"}:  "variable count",
		{ByEntry, ""}:          "entry",
		{ByField, "prototype"}: "field prototype",
	} {
		if got := link.String(); got != want {
			t.Errorf("%+v = %q, want %q", link, got, want)
		}
	}
}
