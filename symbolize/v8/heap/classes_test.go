package heap

import (
	"slices"
	"testing"
)

func TestDominatorTreeIsVisitedInOrder(t *testing.T) {
	// 0 → 1 → 2 → 3.
	g := madeGraph([][]ID{{1}, {2}, {3}, nil}, []ID{0}, nil)
	d := dominated(t, g)
	var entered, left []uint32
	d.tree().visit(func(n uint32) { entered = append(entered, n) }, func(n uint32) { left = append(left, n) })
	if !slices.Equal(entered, []uint32{1, 2, 3, 4}) || !slices.Equal(left, []uint32{4, 3, 2, 1}) {
		t.Errorf("entered %v, left %v, want 1 to 4 and back", entered, left)
	}
}
