package heap

import "testing"

// TestMapIndexFindsWhatWasAdded adds words that share a slot, that have none, and that refer to no map.
func TestMapIndexFindsWhatWasAdded(t *testing.T) {
	const page = 0x1234 * pageAlign
	indices := map[uint64]int32{
		page + 1:              0,
		page + wordSize + 1:   1, // in the slot of the one before
		page + slotSize + 1:   2,
		page + pageAlign - 7:  3, // the last word
		page + pageAlign + 1:  maxInSlot,
		page + 2*slotSize + 1: maxInSlot + 1,
		page + 3*slotSize + 5: 5, // of no word
	}
	var x mapIndex
	for word := range indices {
		if index, ok := x.find(word); ok {
			t.Errorf("find(%#x) = %d before it was added", word, index)
		}
	}
	for word, index := range indices {
		x.add(word, index)
	}
	const strange = page + 4*slotSize + 1
	x.addStrange(strange)
	indices[strange] = -1
	for word, want := range indices {
		if index, ok := x.find(word); !ok || index != want {
			t.Errorf("find(%#x) = %d, %v, want %d", word, index, ok, want)
		}
	}
	for _, word := range []uint64{page + 2*wordSize + 1, page + 5*slotSize + 1, 5*pageAlign + 1} {
		if index, ok := x.find(word); ok {
			t.Errorf("find(%#x) = %d, which was never added", word, index)
		}
	}
}
