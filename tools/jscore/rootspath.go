package jscore

import (
	"bufio"
	"context"
	"fmt"
	"io"

	"ustack/symbolize/v8"
	"ustack/symbolize/v8/heap"
	"ustack/symbolize/v8/value"
)

// A Path is how a live object is reached from a root.
type Path struct {
	Root  string `json:"root"`  // what outside the heap refers to the first
	Steps []Step `json:"steps"` // from there to the object itself
}

// A Step is an object on a path, and how the previous one refers to it.
type Step struct {
	Link  heap.Link `json:"link"` // empty for the first
	Brief Brief     `json:"object"`
}

// Path returns a shortest path from a root to the object v. The path has no steps if v
// cannot be reached: then the object is dead.
func (g *Graph) Path(ctx context.Context, v v8.Value) (*Path, error) {
	id, err := g.at(v)
	if err != nil {
		return nil, err
	}
	steps, err := g.Graph.Path(ctx, id)
	if err != nil || len(steps) == 0 {
		return &Path{}, err
	}
	p := &Path{Root: g.rootName(steps[0].Object)}
	for _, s := range steps {
		p.Steps = append(p.Steps, Step{s.Link, value.BriefOf(g.heap, g.Object(s.Object).Ref())})
	}
	return p, nil
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
