package heap

import "context"

// A Step is an object on a path, and how the previous one refers to it.
type Step struct {
	Link   Link // empty for the first
	Object ID
}

// Path returns a shortest path from a root to an object: first the object to which the
// root refers. It is empty if the object cannot be reached, and so is dead. The stores in
// which V8 keeps an object's properties, elements or entries are not steps of their own.
func (g *Graph) Path(ctx context.Context, id ID) ([]Step, error) {
	in := g.backward()
	toward := make([]ID, g.Len()) // the next on the path to v's object
	seen := newBits(g.Len())
	seen.add(id)
	queue := []ID{id}
	for step := 0; len(queue) > 0; step++ {
		if step%often == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		at := queue[0]
		queue = queue[1:]
		if _, ok := g.Root(at); ok {
			return g.path(ctx, at, id, toward), ctx.Err()
		}
		for i := in.first[at]; i < in.first[at+1]; i++ {
			if from := in.at(i); !seen.has(from) && g.IsLive(from) {
				seen.add(from)
				toward[from] = at
				queue = append(queue, from)
			}
		}
	}
	return nil, nil
}

// path returns the path from an object, until ctx is done.
func (g *Graph) path(ctx context.Context, from, to ID, toward []ID) []Step {
	steps := []Step{{Object: from}}
	for from != to && ctx.Err() == nil {
		next := toward[from]
		link, ok := Link{}, false
		if next != to {
			link, ok = g.linkThrough(from, next, toward[next])
		}
		if ok {
			next = toward[next]
		} else {
			link = g.linkBetween(from, next)
		}
		steps = append(steps, Step{link, next})
		from = next
	}
	return steps
}

// linkBetween returns how an object refers to another.
func (g *Graph) linkBetween(from, to ID) Link {
	if offsets := g.offsets(from, to); len(offsets) > 0 {
		return g.link(g.Object(from), offsets[0])
	}
	return Link{ByEntry, "of a weak map"}
}

// linkThrough returns the link from an owner to an object in one of its stores.
func (g *Graph) linkThrough(owner, store, to ID) (Link, bool) {
	o, offsets := g.Object(owner), g.offsets(store, to)
	if !g.heap.IsReceiver(o) || len(offsets) == 0 {
		return Link{}, false
	}
	return g.through(o, g.Object(store), offsets[0])
}
