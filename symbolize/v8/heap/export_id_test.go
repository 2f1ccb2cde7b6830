package heap

import (
	"testing"
)

// TestExportNumbersObjectsIn32Bits has pages whose addresses look the same to Chrome,
// which keeps 32 bits of a number.
func TestExportNumbersObjectsIn32Bits(t *testing.T) {
	const head = 0x118
	var o Objects
	for i, address := range []uint64{0x6e140b80000, 0x6e140b80000 + 1<<35, 0x6e140b80000 + 1<<35 + pageAlign, 0x6e140b80000 + 1<<36} {
		o.pages = append(o.pages, pageObjects{Page: Page{Address: address}, first: ID(2 * i), count: 2})
	}
	number := func() []uint64 {
		e := &exporter{Graph: &Graph{Objects: &o}, slots: map[uint32]bool{}}
		var ids []uint64
		for id := range ID(2 * len(o.pages)) {
			ids = append(ids, e.nodeID(id, o.Page(id).Address+head+uint64(id%2)*wordSize))
		}
		return ids
	}
	got, again := number(), number()
	seen := map[uint64]bool{1: true, 3: true} // the nodes that are not objects
	for i, id := range got {
		if id >= 1<<32 || seen[id] || id != again[i] {
			t.Errorf("number of object %d = %d, then %d, want one of 32 bits that no other has", i, id, again[i])
		}
		seen[id] = true
	}
	if want := uint64(0x6e140b80000+head) / wordSize % (1 << 32); got[0] != want {
		t.Errorf("number of the first object = %#x, want %#x: the address, in words", got[0], want)
	}
}
