package heap

import (
	"context"
	"errors"
	"slices"
	"testing"

	"ustack/symbolize/space"
)

func TestStackCountsFromItsPointerOn(t *testing.T) {
	const stack, size, base = 0x7000_0000, 0x4000, 0x7000_2000
	h := makeHolders()
	h.m[stack] = make([]byte, size)
	h.m.put(stack+0x400, madeObject(0))
	h.m.put(stack+0x900, madeObject(1))
	h.m.put(stack+0x3000, madeObject(2)) // beyond the thread's own data at the top of its stack
	thread := Stack{SP: stack + 0x800, Whole: true, Registers: []uint64{madeObject(3)}}
	for _, test := range []struct {
		base uint64
		last Root
	}{
		{0, Root{2, stack + 0x3000, ByStack}},
		{base, Root{2, stack + 0x3000, ByMemory}},
	} {
		thread.ThreadPointer = test.base
		got, err := h.o.roots(t.Context(), []Stack{thread})
		if err != nil {
			t.Fatal(err)
		}
		want := []Root{{1, stack + 0x900, ByStack}, test.last, {3, 0, ByRegister}}
		if !slices.Equal(got.roots, want) {
			t.Errorf("roots with a thread's data at %x = %x, want %x", test.base, got.roots, want)
		}
	}
}

func TestOnlyFramesOfV8sCountIfTheyAreKnown(t *testing.T) {
	const stack, size = 0x7000_0000, 0x4000
	h := makeHolders()
	h.m[stack] = make([]byte, size)
	for i := range uint64(8) {
		h.m.put(stack+0x400*i, madeObject(int(i)))
	}
	got, err := h.o.roots(t.Context(), []Stack{{
		SP:        stack + 0x800,
		Registers: []uint64{madeObject(11)},
		Frames:    []space.Range{{Start: stack + 0xc00, End: stack + 0x1400}, {Start: stack + 0x1a00, End: 1 << 63}, {Start: 8, End: 1 << 63}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	want := []Root{
		{3, stack + 0xc00, ByStack}, {4, stack + 0x1000, ByStack}, {7, stack + 0x1c00, ByStack}, {11, 0, ByRegister},
	}
	if !slices.Equal(got.roots, want) {
		t.Errorf("roots = %x, want %x", got.roots, want)
	}
	if h.o.Doubts.Loose {
		t.Error("all memory counts, though the frames are known")
	}
}

func TestStackAmongChunksHidesNoHandles(t *testing.T) {
	h := makeHolders(4096)
	h.node(3, madeObject(1), 1)
	got, err := h.o.roots(t.Context(), []Stack{{SP: h.at[2] + 2048}})
	if err != nil {
		t.Fatal(err)
	}
	if len(got.roots) != 1 || got.roots[0].Object != 1 || got.roots[0].By != ByGlobal {
		t.Errorf("roots = %+v, want object 1 by a global handle", got.roots)
	}
}

func TestScanEndsWhereTheCoreDoes(t *testing.T) {
	const stack, size = 0x7000_0000, 0x4000
	h := makeHolders()
	h.m[stack] = make([]byte, size)
	h.m.put(stack+0x800, madeObject(2))
	s := &rootScan{objects: h.o, seen: newBits(h.o.Len()), buffer: make([]byte, pageAlign)}
	absurd := addressRange{stack, 1 << 63} // as a damaged header may claim
	if err := s.scan(t.Context(), absurd, ByStack); err != nil || len(s.roots) != 1 || s.roots[0].Object != 2 {
		t.Errorf("roots = %+v, %v, want object 2", s.roots, err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.scan(ended, absurd, ByStack); !errors.Is(err, context.Canceled) {
		t.Errorf("scan after its end = %v, want %v", err, context.Canceled)
	}
}
