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
	s := newSweep(len(spans))
	for i := range byStart(spans) {
		s.add(spans[i], i)
	}
	return s.end()
}

// Sorted is New for spans in the order of their starts, about count of them.
func Sorted(spans iter.Seq[Span], count int) Map {
	s := newSweep(count)
	number := uint32(0)
	for span := range spans {
		s.add(span, number)
		number++
	}
	return s.end()
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
	active latest // began before pos; those that ended are dropped when they surface
	pos    uint64
	out    Map
}

// newSweep returns a sweep over about count spans. Most have a gap after them.
func newSweep(count int) *sweep {
	return &sweep{out: Map{make([]uint64, 0, 2*count), make([]uint32, 0, 2*count)}}
}

// add adds a span that starts no earlier than those before it, with its place among them.
func (s *sweep) add(span Span, number uint32) {
	s.advance(span.Start)
	s.active.push(numbered{span, number})
}

// end returns the Map of the spans that were added. It takes at most twice the memory that it needs.
func (s *sweep) end() Map {
	s.advance(math.MaxUint64)
	s.emit(gap) // no span holds the very last address
	if used := len(s.out.refs); used < cap(s.out.refs)/2 {
		return Map{starts: slices.Clone(s.out.starts), refs: slices.Clone(s.out.refs)}
	}
	return s.out
}

// advance gives the addresses up to limit to the spans that are active.
func (s *sweep) advance(limit uint64) {
	for len(s.active) > 0 && s.pos < limit {
		top := s.active[0]
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

// A numbered span has its place among all.
type numbered struct {
	Span
	number uint32
}

// latest is a heap of spans, the one with the greatest number first.
type latest []numbered

func (l *latest) push(x numbered) {
	*l = append(*l, x)
	heap := *l
	for at := len(heap) - 1; at > 0; {
		parent := (at - 1) / 2
		if heap[parent].number >= heap[at].number {
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
		if child+1 < last && heap[child+1].number > heap[child].number {
			child++
		}
		if heap[at].number >= heap[child].number {
			return
		}
		heap[at], heap[child] = heap[child], heap[at]
	}
}
