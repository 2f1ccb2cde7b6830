package trace

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestNumbersAreGivenOutAgain(t *testing.T) {
	var n Numbering
	got := []uint32{n.Take(), n.Take(), n.Take()}
	n.GiveBack(1)
	got = append(got, n.Take(), n.Take())
	if diff := cmp.Diff([]uint32{0, 1, 2, 1, 3}, got); diff != "" {
		t.Errorf("numbers (-want +got):\n%s", diff)
	}
}
