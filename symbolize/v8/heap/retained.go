package heap

import "context"

// A Dominated holds what each live object alone keeps alive: what would be dead without
// it.
type Dominated struct {
	graph    *Graph
	number   []uint32 // by ID: an object's number from 1 on, 0 if it is dead
	object   []ID     // by number
	by       []uint32 // by number: the object without which it would be dead; 0: none but all roots together
	retained []uint64 // by number: bytes
}

// Dominated computes what each live object keeps alive. It takes some 60 bytes for each,
// and a few seconds for ten million.
func (g *Graph) Dominated(ctx context.Context) (*Dominated, error) {
	s := newDominators(g)
	s.visit(ctx)
	if s.semidominate(ctx); ctx.Err() != nil {
		return nil, ctx.Err()
	}
	d := &Dominated{graph: g, number: s.number, object: s.object, by: s.dominate()}
	d.retained = make([]uint64, len(d.object))
	for n := len(d.object) - 1; n > 0; n-- {
		d.retained[n] += g.Bytes(d.object[n])
		d.retained[d.by[n]] += d.retained[n]
	}
	return d, nil
}

// Retained returns how many bytes would be freed without an object, including its own
// and those outside V8's heap; 0 for a dead object.
func (d *Dominated) Retained(id ID) uint64 {
	if n := d.number[id]; n != 0 {
		return d.retained[n]
	}
	return 0
}

// Total returns the bytes of all live objects.
func (d *Dominated) Total() uint64 { return d.retained[0] }

// By returns the object without which id would be dead. ok is false if there is no such
// object: id is dead, or is reached from several roots or objects.
func (d *Dominated) By(id ID) (by ID, ok bool) {
	n := d.by[d.number[id]]
	return d.object[n], n != 0
}

// dominators finds immediate dominators in a graph that starts at all roots, by
// semidominators (Georgiadis, Linear-Time Algorithms for Dominators and Related
// Problems, 2005: SEMI-NCA). Objects are numbered in the order of a depth-first
// search; 0 stands for the roots.
type dominators struct {
	*Graph
	number   []uint32 // by ID
	object   []ID     // by number, as are all the following
	parent   []uint32
	semi     []uint32
	label    []uint32
	ancestor []uint32
	path     []uint32
}

func newDominators(g *Graph) *dominators {
	live := g.Live + 1
	return &dominators{
		Graph: g, number: make([]uint32, g.Len()),
		object: make([]ID, 1, live), parent: make([]uint32, 1, live),
	}
}

// A visiting is an object whose references are being followed.
type visiting struct {
	number uint32
	next   uint32 // edge
	pair   int    // after the edges
}

// visit numbers all live objects, until ctx is done.
func (s *dominators) visit(ctx context.Context) {
	var stack []visiting
	enter := func(id ID, parent uint32) {
		if s.number[id] != 0 {
			return
		}
		n := uint32(len(s.object))
		s.number[id] = n
		s.object = append(s.object, id)
		s.parent = append(s.parent, parent)
		stack = append(stack, visiting{n, s.out.first[id], s.firstPair(id)})
	}
	for _, root := range s.Roots {
		enter(root.Object, 0)
		for step := 0; len(stack) > 0; step++ {
			if step%often == 0 && ctx.Err() != nil {
				return
			}
			top := &stack[len(stack)-1]
			id, n := s.object[top.number], top.number
			switch {
			case top.next < s.out.first[id+1]:
				top.next++
				enter(s.out.at(top.next-1), n)
			case top.pair < len(s.pairs) && s.pairs[top.pair].key == id:
				top.pair++
				if p := s.pairs[top.pair-1]; s.IsLive(p.table) {
					enter(p.value, n)
				}
			default:
				stack = stack[:len(stack)-1]
			}
		}
	}
}

// semidominate finds the semidominator of each number, until ctx is done.
func (s *dominators) semidominate(ctx context.Context) {
	count := len(s.object)
	s.semi, s.label, s.ancestor = make([]uint32, count), make([]uint32, count), make([]uint32, count)
	for n := range uint32(count) {
		s.semi[n], s.label[n] = n, n
	}
	rooted := newBits(s.Len())
	for _, root := range s.Roots {
		rooted.add(root.Object)
	}
	in := s.backward()
	for n := uint32(count) - 1; n > 0; n-- {
		if n%often == 0 && ctx.Err() != nil {
			return
		}
		id := s.object[n]
		if rooted.has(id) {
			s.semi[n] = 0
		}
		for i := in.first[id]; i < in.first[id+1] && s.semi[n] > 0; i++ {
			if from := s.number[in.at(i)]; from != 0 {
				s.semi[n] = min(s.semi[n], s.semi[s.eval(from, n)])
			}
		}
		s.ancestor[n] = s.parent[n]
	}
}

// eval returns the number with the least semidominator on the path from n up through
// what has been linked: all numbers above last.
func (s *dominators) eval(n, last uint32) uint32 {
	if n <= last {
		return n
	}
	s.path = s.path[:0]
	for at := n; s.ancestor[at] > last; at = s.ancestor[at] {
		s.path = append(s.path, at)
	}
	for i := len(s.path) - 1; i >= 0; i-- {
		at := s.path[i]
		above := s.ancestor[at]
		if s.semi[s.label[above]] < s.semi[s.label[at]] {
			s.label[at] = s.label[above]
		}
		s.ancestor[at] = s.ancestor[above]
	}
	return s.label[n]
}

// dominate returns the immediate dominator of each number.
func (s *dominators) dominate() []uint32 {
	by := s.parent
	for n := 1; n < len(by); n++ {
		for by[n] > s.semi[n] {
			by[n] = by[by[n]]
		}
	}
	return by
}
