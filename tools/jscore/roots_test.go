package jscore

import (
	"context"
	"errors"
	"slices"
	"testing"

	"ustack/symbolize/unwind"
	"ustack/testdata/nodetest"
)

func TestStackCountsFromItsPointerOn(t *testing.T) {
	const stack, size, base = 0x7000_0000, 0x4000, 0x7000_2000
	h := makeHolders()
	h.m[stack] = make([]byte, size)
	h.m.put(stack+0x400, madeObject(0))
	h.m.put(stack+0x900, madeObject(1))
	h.m.put(stack+0x3000, madeObject(2)) // beyond the thread's own data at the top of its stack
	thread := Thread{Registers: Registers{SP: stack + 0x800}}
	thread.Registers.General[unwind.CX] = madeObject(3)
	for _, test := range []struct {
		base uint64
		last Root
	}{
		{0, Root{2, stack + 0x3000, ByStack}},
		{base, Root{2, stack + 0x3000, ByMemory}},
	} {
		thread.Registers.FSBase = test.base
		got, _, err := h.o.roots(t.Context(), []LiveStack{{Thread: thread, whole: true, registers: thread.Registers.General[:]}})
		if err != nil {
			t.Fatal(err)
		}
		want := []Root{{1, stack + 0x900, ByStack}, test.last, {3, 0, ByRegister}}
		if !slices.Equal(got, want) {
			t.Errorf("roots with a thread's data at %x = %x, want %x", test.base, got, want)
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
	thread := Thread{Registers: Registers{SP: stack + 0x800}}
	thread.Registers.General[unwind.CX] = madeObject(10)
	got, _, err := h.o.roots(t.Context(), []LiveStack{{
		Thread:    thread,
		registers: []uint64{madeObject(11)},
		frames:    []addressRange{{stack + 0xc00, stack + 0x1400}, {stack + 0x1a00, 1 << 63}, {8, 1 << 63}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	want := []Root{
		{3, stack + 0xc00, ByStack}, {4, stack + 0x1000, ByStack}, {7, stack + 0x1c00, ByStack}, {11, 0, ByRegister},
	}
	if !slices.Equal(got, want) {
		t.Errorf("roots = %x, want %x", got, want)
	}
	if h.o.Doubts.Loose {
		t.Error("all memory counts, though the frames are known")
	}
}

func TestStackAmongChunksHidesNoHandles(t *testing.T) {
	h := makeHolders(4096)
	h.node(3, madeObject(1), 1)
	got, _, err := h.o.roots(t.Context(), []LiveStack{{Thread: Thread{Registers: Registers{SP: h.at[2] + 2048}}}})
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 1 || got[0].Object != 1 || got[0].By != ByGlobal {
		t.Errorf("roots = %+v, want object 1 by a global handle", got)
	}
}

// TestWhatIsHeldFromOutsideIsLive tests objects to which only handles, microtasks and
// stacks refer, and some to which nothing refers.
func TestWhatIsHeldFromOutsideIsLive(t *testing.T) {
	versions := []string{"22.23.3"}
	if matrix() {
		versions = nodetest.Versions
	}
	for _, version := range versions {
		for _, mode := range []string{"alone", "worker"} {
			t.Run(version+"/"+mode, func(t *testing.T) { checkHeld(t, version, mode) })
		}
	}
}

func checkHeld(t *testing.T, version, mode string) {
	target := nodetest.Start(t, nodetest.Node(t, version), nodetest.Options{Script: "held.js", Args: []string{mode}})
	var facts struct {
		Held map[string]int `json:"held"` // objects by class
	}
	target.Facts(&facts)
	g := graphOf(t, target.PID)
	if g.Doubts.Loose {
		t.Error("not all that keeps objects alive was found")
	}
	for _, r := range g.Roots {
		if r.By == ByMemory {
			t.Errorf("object %d is held by %v at %x, which is not understood", r.Object, r.By, r.From)
		}
	}
	live, dead := countByClass(t, g)
	for class, want := range facts.Held {
		if got := live[class]; got != want {
			t.Errorf("live objects of %s = %d, want %d", class, got, want)
		}
	}
	for class, want := range map[string]int{"ByNothing": 211, "ByWeakMap": 113} {
		if got := dead[class]; got != want {
			t.Errorf("dead objects of %s = %d, want %d", class, got, want)
		}
	}
	const hashes, prototypes = 223, 2 // of crypto: weak global handles refer to some of their objects
	if dead["Hash"] < hashes || live["Hash"] > prototypes {
		t.Errorf("dead and live objects of Hash = %d and %d, want %d at least, and %d at most", dead["Hash"], live["Hash"], hashes, prototypes)
	}
	// V8 has just kept everything that exists, apart from a little created since.
	if share := float64(g.Live) / float64(g.Len()); share < 0.95 {
		t.Errorf("live objects = %.4f of all, want 0.95 at least", share)
	}
}

// graphOf returns the objects of a process, from a core.
func graphOf(t testing.TB, pid int) *Graph {
	t.Helper()
	g, err := dumped(t, pid, Options{}).Graph(t.Context())
	if err != nil {
		t.Fatalf("Graph: %v", err)
	}
	return g
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
