package interval

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestLookup(t *testing.T) {
	spans := []Span{
		{Start: 10, End: 50, Ref: 1},
		{Start: 20, End: 30, Ref: 2},                // inside 1
		{Start: 45, End: 60, Ref: 3},                // over the end of 1
		{Start: 60, End: 60, Ref: 4},                // empty
		{Start: 90, End: 80, Ref: 5},                // backwards
		{Start: 100, End: 101, Ref: 6},              // one address
		{Start: 200, End: math.MaxUint64, Ref: 7},   // up to the end of the address space
		{Start: 5, End: 12, Ref: 8},                 // begins first, yet wins
		{Start: 300, End: math.MaxUint64, Ref: 0},   // Ref 0 is a name like any other
		{Start: 310, End: 320, Ref: 9},              // and continues after this one
		{Start: math.MaxUint64, End: 1000, Ref: 10}, // backwards, at the very end
	}
	const none = math.MaxUint32
	tests := []struct {
		address uint64
		want    uint32
	}{
		{0, none},
		{4, none},
		{5, 8},
		{11, 8},
		{12, 1},
		{19, 1},
		{20, 2},
		{29, 2},
		{30, 1},
		{44, 1},
		{45, 3},
		{59, 3},
		{60, none},
		{85, none},
		{99, none},
		{100, 6},
		{101, none},
		{199, none},
		{200, 7},
		{299, 7},
		{300, 0},
		{310, 9},
		{320, 0},
		{math.MaxUint64 - 1, 0},
		{math.MaxUint64, none},
	}
	m := New(spans)
	for _, tt := range tests {
		got, ok := m.Lookup(tt.address)
		if !ok {
			got = none
		}
		if got != tt.want {
			t.Errorf("Lookup(%d) = %d, want %d", tt.address, got, tt.want)
		}
	}
}

func TestZeroMapHoldsNothing(t *testing.T) {
	for _, m := range []Map{{}, New(nil), New([]Span{{Start: 3, End: 3}})} {
		if ref, ok := m.Lookup(3); ok {
			t.Errorf("Lookup = %d, want nothing", ref)
		}
	}
}

// TestLookupAgreesWithPaint paints random spans over an array, one after another.
func TestLookupAgreesWithPaint(t *testing.T) {
	const size = 300
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var want [size]uint32
		spans := make([]Span, random.IntN(40))
		for i := range spans {
			start := random.Uint64N(size)
			spans[i] = Span{Start: start, End: min(size, start+random.Uint64N(60)), Ref: uint32(i + 1)}
			for a := start; a < spans[i].End; a++ {
				want[a] = spans[i].Ref
			}
		}
		sameAsPaint(t, New(spans), spans, want[:])
	}
}

// TestSortedAgreesWithPaint is TestLookupAgreesWithPaint for spans in the order of their starts, with
// any estimate of how many there are.
func TestSortedAgreesWithPaint(t *testing.T) {
	const size = 300
	random := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		var want [size]uint32
		spans := make([]Span, random.IntN(40))
		start := uint64(0)
		for i := range spans {
			start = min(size, start+random.Uint64N(12))
			spans[i] = Span{Start: start, End: min(size, start+random.Uint64N(60)), Ref: uint32(i + 1)}
			for a := start; a < spans[i].End; a++ {
				want[a] = spans[i].Ref
			}
		}
		sameAsPaint(t, Sorted(slices.Values(spans), random.IntN(100)), spans, want[:])
	}
}

// sameAsPaint compares what a Map of spans says of each address with want.
func sameAsPaint(t *testing.T, m Map, spans []Span, want []uint32) {
	t.Helper()
	if len(m.refs) > 2*len(spans) {
		t.Errorf("%d pieces of %d spans, want at most twice as many", len(m.refs), len(spans))
	}
	for a := range want {
		if got, _ := m.Lookup(uint64(a)); got != want[a] {
			t.Fatalf("Lookup(%d) in %v = %d, want %d", a, spans, got, want[a])
		}
	}
}
