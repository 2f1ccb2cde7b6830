package heap

import (
	"slices"
	"testing"

	"ustack/symbolize/v8"
)

// Where the things that hold objects are in made memory.
const (
	madeHeap    = 1 << 20 // a V8 page, with madeObjects of two words each
	madeObjects = 64
	madeString  = 60        // this object is a string whose text is elsewhere
	madeTable   = 61        // and this one a table
	madeArea    = 0x1000000 // memory managed by malloc
	madeSize    = 0x20000
)

// made is a heap, and malloc memory whose chunks hold its objects.
type made struct {
	m  madeMemory
	o  *Objects
	at []uint64 // where each chunk's memory begins
}

// madeObject returns a reference to an object.
func madeObject(n int) uint64 { return madeHeap + 0x100 + 16*uint64(n) + 1 }

// makeHolders lays out chunks with room for so many bytes each: the first is an isolate,
// the second a block of global handles, then the others.
func makeHolders(sizes ...uint64) *made {
	h := &made{m: madeMemory{madeArea: make([]byte, madeSize)}}
	h.o = &Objects{memory: h.m, kind: make([]uint32, madeObjects), words: slices.Repeat([]uint32{2}, madeObjects)}
	page := Page{Address: madeHeap, Start: madeHeap + 0x100, End: madeHeap + 0x100 + 16*madeObjects, Size: pageAlign}
	for _, kind := range []string{"JSObject", "ExternalOneByteString", cacheKind} {
		h.o.kinds.add(objectKind{form: v8.Form{Map: &v8.Map{Kind: kind}}})
	}
	h.o.kind[madeString], h.o.kind[madeTable] = 1, 2
	const each = uint64(0x5555_5555_5555_5555) // two words of the page have an object
	h.o.pages = []pageObjects{{
		Page: page, count: madeObjects, starts: []uint64{each &^ (1<<32 - 1), each, each >> 32}, ranks: []uint32{0, 16, 48},
	}}
	h.o.at.fill(h.o.pages)
	chunks := used(manyChunks)
	at := uint64(madeArea + manyChunks*64)
	for _, size := range append([]uint64{4096, nodesInBlock*32 + 44}, sizes...) {
		length := (size + wordSize + chunkAlign - 1) &^ (chunkAlign - 1)
		chunks = append(chunks, chunk{size: length})
		h.at = append(h.at, at+chunkHead)
		at += length
	}
	h.m.chunks(madeArea, append(chunks, chunk{size: madeArea + madeSize - at}))
	page.Heap = h.at[0] + 0x100
	h.o.mapped = []Page{page}
	for i := range uint64(nodesInBlock) {
		h.node(i, 0x1baffed00baffedf, 0)
	}
	return h
}

// node sets what a global handle refers to, and its flags.
func (h *made) node(i, object uint64, flags byte) {
	h.m.put(h.at[1]+32*i, object, i<<16|uint64(flags)<<24)
}

// roots returns the objects that are held, and by what.
func (h *made) roots(t *testing.T) map[int]Holder {
	t.Helper()
	scan, err := h.o.roots(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	held := map[int]Holder{}
	for _, r := range scan.roots {
		held[int(r.Object)] = r.By
	}
	return held
}

func (h *made) check(t *testing.T, want map[int]Holder) {
	t.Helper()
	got := h.roots(t)
	for n := range madeObjects {
		g, held := got[n]
		w, wanted := want[n]
		if held != wanted || g != w {
			t.Errorf("object %d is held = %v by %v, want %v by %v", n, held, g, wanted, w)
		}
	}
}

func TestGlobalHandlesHoldUnlessWeakOrFree(t *testing.T) {
	h := makeHolders(4096)
	h.node(3, madeObject(1), 1)
	h.node(4, madeObject(2), 2) // weak
	h.node(5, madeObject(3), 0) // free, and not overwritten
	h.node(6, madeObject(4), 1|3<<3)
	h.m.put(h.at[2], madeObject(5)) // memory of unknown use
	h.check(t, map[int]Holder{1: ByGlobal, 4: ByGlobal})
}

func TestIsolateHolds(t *testing.T) {
	h := makeHolders(256, 80, 64, 128)
	h.m.put(h.at[0]+0x40, madeObject(1))
	h.m.put(h.at[0]+0x80, h.at[2], h.at[2]+24, h.at[2]+256) // a list of three
	h.m.put(h.at[2], madeObject(2), madeObject(3), madeObject(4), madeObject(5))
	h.m.put(h.at[3], h.at[0], madeObject(6))
	h.m.put(h.at[3]+16, h.at[0], 0, madeObject(madeTable)) // a part of V8 that the isolate keeps elsewhere
	h.m.put(h.at[4], madeObject(7))
	h.m.put(h.at[0]+0xc0, h.at[5], h.at[5]+16, h.at[5]+128) // a list of strings
	h.m.put(h.at[5], madeObject(madeString), madeObject(8))
	h.check(t, map[int]Holder{1: ByIsolate, 2: ByIsolate, 3: ByIsolate, 4: ByIsolate, madeTable: ByIsolate})
}

func TestHandlesHoldUpToTheNext(t *testing.T) {
	const next, limit = 3 * wordSize, handleBlock
	for name, own := range map[string]func(h *made, list, owner uint64){
		"an isolate's": func(h *made, list, owner uint64) {
			h.m.put(h.at[0]+0x200, h.at[3]+next, h.at[3]+limit)
			h.m.put(owner, h.at[0], list, 3, 2)
		},
		"an isolate's with the list": func(h *made, list, _ uint64) {
			h.m.put(h.at[0]+0x200, h.at[3]+next, h.at[3]+limit)
			h.m.put(h.at[0]+0x400, list, 3, 2)
		},
		"an isolate's that may make none": func(h *made, list, owner uint64) {
			h.m.put(h.at[0]+0x200, h.at[3]+next, h.at[3]+next)
			h.m.put(owner, h.at[0], list, 3, 2)
		},
		"a thread's": func(h *made, list, owner uint64) {
			h.m.put(owner, h.at[3]+next, h.at[3]+limit, 1, list, list+16, list+24)
		},
		"a thread's in old V8": func(h *made, list, owner uint64) {
			h.m.put(owner, h.at[3]+next, h.at[3]+limit, 1, 0, list, list+16, list+24)
		},
		"a compiler's": func(h *made, list, owner uint64) {
			h.m.put(owner, list, list+16, list+24, h.at[3]+next, h.at[3]+limit)
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := makeHolders(handleBlock, handleBlock, handleBlock, 24, 80, 80)
			h.m.put(h.at[0]+0x300, h.at[4], h.at[4]+limit) // one that always exists
			for i := range uint64(8) {
				h.m.put(h.at[2]+8*i, madeObject(int(i)))
				h.m.put(h.at[3]+8*i, madeObject(10+int(i)))
				h.m.put(h.at[4]+8*i, madeObject(20+int(i)))
			}
			h.m.put(h.at[5], h.at[2], h.at[3], h.at[4]) // the list of blocks, which no longer has the last
			h.m.put(h.at[7], h.at[4]+next, h.at[4]+limit)
			own(h, h.at[5], h.at[6])
			want := map[int]Holder{10: ByHandle, 11: ByHandle, 12: ByHandle}
			for i := range 8 {
				want[i] = ByHandle
			}
			h.check(t, want)
		})
	}
}

func TestAllHandlesHoldWhereNoOwnerIsKnown(t *testing.T) {
	h := makeHolders(handleBlock)
	h.m.put(h.at[2], madeObject(1), madeObject(2))
	h.check(t, map[int]Holder{1: ByHandle, 2: ByHandle})
}

func TestListsAreNoLongerThanMemoryInAll(t *testing.T) {
	const blocks, lists = 1000, 20
	h := makeHolders(handleBlock, blocks*wordSize, lists*4*wordSize)
	for i := range uint64(blocks) {
		h.m.put(h.at[3]+i*wordSize, h.at[2])
	}
	for i := range uint64(lists) {
		h.m.put(h.at[4]+i*4*wordSize, h.at[0], h.at[3], blocks, blocks)
	}
	found, ok, _ := findHolders(t.Context(), h.o, &outside{malloced: []addressRange{{madeArea, madeArea + madeSize}}})
	if !ok {
		t.Fatal("no holders")
	}
	if got, want := len(found.lists), madeSize/(blocks*wordSize); got != want {
		t.Errorf("lists of %d blocks = %d, want %d", blocks, got, want)
	}
}

func TestEternalHandlesHold(t *testing.T) {
	h := makeHolders(eternalBlock, eternalBlock)
	for i := range uint64(eternalBlock / wordSize) {
		h.m.put(h.at[2]+8*i, madeObject(int(i%3)))
		h.m.put(h.at[3]+8*i, madeObject(10))
	}
	h.m.put(h.at[3]+80, 12) // no such block
	h.check(t, map[int]Holder{0: ByEternal, 1: ByEternal, 2: ByEternal})
}

func TestMicrotasksHoldWhileTheyWait(t *testing.T) {
	const capacity = 8
	h := makeHolders(80, capacity*wordSize)
	queue, ring := h.at[2], h.at[3]
	for i := range uint64(capacity) {
		h.m.put(ring+8*i, madeObject(int(i)))
	}
	for _, test := range []struct {
		size, start uint64
		want        []int
	}{
		{0, 3, nil},
		{3, 2, []int{2, 3, 4}},
		{4, 6, []int{6, 7, 0, 1}},
		{capacity, 0, []int{0, 1, 2, 3, 4, 5, 6, 7}},
		{capacity + 1, 0, nil}, // not a queue
		{1, capacity, nil},
	} {
		h.m.put(queue+8, test.size, capacity, test.start, ring)
		want := map[int]Holder{}
		for _, n := range test.want {
			want[n] = ByMicrotask
		}
		h.check(t, want)
	}
}

func TestAllCountsWhereHoldersAreNotKnown(t *testing.T) {
	h := makeHolders(64)
	h.node(7, madeObject(0), 2)
	h.m.put(h.at[1]+32*200+8, 0) // not its number: not a block of handles
	h.m.put(h.at[2], madeObject(1))
	h.check(t, map[int]Holder{0: ByMemory, 1: ByMemory})
	if !h.o.Doubts.Loose {
		t.Error("that all memory counts is not said")
	}
}
