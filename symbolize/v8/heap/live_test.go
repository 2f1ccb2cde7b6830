package heap

import (
	"testing"
)

func TestMarkFollowsPairsToTheEnd(t *testing.T) {
	// Table 0 has the pairs 2→3, 1→2 and 5→6; 1 is a root, 5 is not.
	g := &Graph{Objects: &Objects{kind: make([]uint32, 7)}, Roots: []Root{{Object: 0}, {Object: 1}}}
	g.out.first = make([]uint32, 8)
	g.pairs = []weakPair{{0, 2, 3}, {0, 1, 2}, {0, 5, 6}}
	if err := g.mark(t.Context(), newBits(7)); err != nil {
		t.Fatal(err)
	}
	for id, want := range []bool{true, true, true, true, false, false, false} {
		if got := g.IsLive(ID(id)); got != want {
			t.Errorf("object %d is live = %v, want %v", id, got, want)
		}
	}
	if g.Live != 4 {
		t.Errorf("live objects = %d, want 4", g.Live)
	}
}
