// Package interval finds which of many overlapping address ranges holds an
// address, using little memory.
package interval

import (
	"cmp"
	"iter"
	"math"
	"slices"
)

// A Span is the addresses from Start up to, not including, End. Ref is the
// caller's name for it; math.MaxUint32 is not allowed.
type Span struct {
	Start, End uint64
	Ref        uint32
}

const gap = math.MaxUint32 // stands in refs for addresses that no span holds

// A Map is a set of spans cut into pieces that do not overlap: 12 bytes each,
// and at most two for each span. The zero Map holds nothing.
type Map struct {
	starts []uint64 // ascending
	refs   []uint32 // refs[i] holds from starts[i] up to starts[i+1]
}

// New makes a Map of spans. Where spans overlap, the later in the slice wins.
// A span that ends before it starts holds nothing.
func New(spans []Span) Map {
	s := sweep{spans: spans, out: Map{make([]uint64, 0, 2*len(spans)), make([]uint32, 0, 2*len(spans))}}
	for i := range byStart(spans) {
		s.advance(spans[i].Start)
		s.active.push(i)
	}
	s.advance(math.MaxUint64)
	s.emit(gap) // no span holds the very last address
	return Map{starts: slices.Clone(s.out.starts), refs: slices.Clone(s.out.refs)}
}

// byStart yields the indexes of spans by their starts.
func byStart(spans []Span) iter.Seq[uint32] {
	return func(yield func(uint32) bool) {
		var order []uint32 // nil: as they are
		if !slices.IsSortedFunc(spans, compareStarts) {
			order = make([]uint32, len(spans))
			for i := range order {
				order[i] = uint32(i)
			}
			slices.SortStableFunc(order, func(a, b uint32) int { return compareStarts(spans[a], spans[b]) })
		}
		for i := range spans {
			at := uint32(i)
			if order != nil {
				at = order[i]
			}
			if !yield(at) {
				return
			}
		}
	}
}

func compareStarts(a, b Span) int { return cmp.Compare(a.Start, b.Start) }

// Lookup returns the Ref of the span that holds address.
func (m Map) Lookup(address uint64) (ref uint32, ok bool) {
	i, found := slices.BinarySearch(m.starts, address)
	if !found {
		i--
	}
	if i < 0 || m.refs[i] == gap {
		return 0, false
	}
	return m.refs[i], true
}

// A sweep goes over the addresses upwards. All before pos is in out.
type sweep struct {
	spans  []Span
	active latest // began before pos; those that ended are dropped when they surface
	pos    uint64
	out    Map
}

// advance gives the addresses up to limit to the spans that are active.
func (s *sweep) advance(limit uint64) {
	for len(s.active) > 0 && s.pos < limit {
		top := s.spans[s.active[0]]
		if top.End <= s.pos {
			s.active.pop()
			continue
		}
		s.emit(top.Ref)
		s.pos = min(top.End, limit)
	}
	if s.pos < limit {
		s.emit(gap)
		s.pos = limit
	}
}

// emit begins a piece at pos, unless it only continues the piece before.
func (s *sweep) emit(ref uint32) {
	n := len(s.out.refs)
	if n == 0 && ref == gap || n > 0 && s.out.refs[n-1] == ref {
		return
	}
	s.out.starts = append(s.out.starts, s.pos)
	s.out.refs = append(s.out.refs, ref)
}

// latest is a heap of indexes of spans, the greatest first.
type latest []uint32

func (l *latest) push(x uint32) {
	*l = append(*l, x)
	heap := *l
	for at := len(heap) - 1; at > 0; {
		parent := (at - 1) / 2
		if heap[parent] >= heap[at] {
			return
		}
		heap[parent], heap[at] = heap[at], heap[parent]
		at = parent
	}
}

// pop removes the greatest.
func (l *latest) pop() {
	last := len(*l) - 1
	(*l)[0] = (*l)[last]
	*l = (*l)[:last]
	heap := *l
	for at, child := 0, 1; child < last; at, child = child, 2*child+1 {
		if child+1 < last && heap[child+1] > heap[child] {
			child++
		}
		if heap[at] >= heap[child] {
			return
		}
		heap[at], heap[child] = heap[child], heap[at]
	}
}
