package heap

import (
	"testing"

	"ustack/symbolize/v8"
)

// TestLostMapIsOfTheObject looks for the map of a large object that a scavenge has left
// in place, among other words found next to references to the object: in a frame, and
// in memory returned to malloc.
func TestLostMapIsOfTheObject(t *testing.T) {
	const page, head, outside, length = 1 << 30, 0x1100, 0x8000, 20_000
	const object, size = page + head, 16 + 8*length
	m := madeMemory{page: make([]byte, head+size), outside: make([]byte, 0x1000)}
	m.put(object, object, length<<32) // moved to its own address
	maps := map[uint64]*v8.Map{
		0x101: {Kind: "JSFunction", Size: 64},
		0x201: {Kind: "ByteArray"}, // much shorter with this length
		0x301: {Kind: "FixedArray"},
		0x401: {Kind: "OnHeapBasicBlockProfilerData"}, // its size is not known
	}
	for _, order := range [][]uint64{{0x101, 0x201, 0x301, 0x401}, {0x401, 0x301, 0x201, 0x101}} {
		heap := &v8.Heap{}
		o := &Objects{memory: m, heap: heap}
		o.pages = []pageObjects{{Page: Page{Address: page, Start: object, End: object + size, Size: pageAlign, Space: "new-large"}}}
		o.at.fill(o.pages)
		for i, word := range order {
			k := objectKind{}
			k.form, k.sized = heap.Form(maps[word])
			o.known.add(word, o.kinds.add(k))
			m.put(outside+uint64(i)*0x100, object|1, word)
		}
		if err := (&Graph{Objects: o}).findLostMaps(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got, want := o.lostMaps[object], uint64(0x301); got != want {
			t.Errorf("map of the large object, of %x, = %#x, want %#x", order, got, want)
		}
	}
}
