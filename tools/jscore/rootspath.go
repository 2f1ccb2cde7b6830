package jscore

import (
	"bufio"
	"context"
	"fmt"
	"io"

	"ustack/symbolize/v8"
)

// A Path is how a live object is reached from a root.
type Path struct {
	Root  string `json:"root"`  // what outside the heap refers to the first
	Steps []Step `json:"steps"` // from there to the object itself
}

// A Step is an object on a path, and how the previous one refers to it.
type Step struct {
	Link  Link  `json:"link"` // empty for the first
	Brief Brief `json:"object"`
}

// Path returns a shortest path from a root to the object v. The path has no steps if v
// cannot be reached: then the object is dead.
func (g *Graph) Path(ctx context.Context, v v8.Value) (*Path, error) {
	id, err := g.at(v)
	if err != nil {
		return nil, err
	}
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
		if _, ok := g.root(at); ok {
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
	return &Path{}, nil
}

// path returns the path from a root, until ctx is done. The stores in which V8 keeps an
// object's properties, elements or entries are not steps of their own.
func (g *Graph) path(ctx context.Context, from, to ID, toward []ID) *Path {
	p := &Path{Root: g.rootName(from), Steps: []Step{{Brief: BriefOf(g.heap, g.Object(from).Ref())}}}
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
		p.Steps = append(p.Steps, Step{link, BriefOf(g.heap, g.Object(next).Ref())})
		from = next
	}
	return p
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

// WriteText writes a line for each step.
func (p *Path) WriteText(w io.Writer) error {
	out := bufio.NewWriter(w)
	if len(p.Steps) == 0 {
		fmt.Fprintln(out, "no root refers to it: it is dead")
		return out.Flush()
	}
	fmt.Fprintln(out, p.Root)
	for i, s := range p.Steps {
		if i > 0 {
			fmt.Fprintf(out, "  %v\n", s.Link)
		}
		fmt.Fprintf(out, "%v\n", s.Brief)
	}
	return out.Flush()
}
