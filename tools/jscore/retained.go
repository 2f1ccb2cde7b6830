package jscore

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"

	"ustack/symbolize/v8"
	"ustack/symbolize/v8/heap"
	"ustack/symbolize/v8/value"
)

// A Dominated holds what each live object alone keeps alive: what would be dead without
// it.
type Dominated struct {
	*heap.Dominated
	graph *Graph
}

// Dominated computes what each live object keeps alive. It takes some 60 bytes for each,
// and a few seconds for ten million.
func (g *Graph) Dominated(ctx context.Context) (*Dominated, error) {
	d, err := g.Graph.Dominated(ctx)
	if err != nil {
		return nil, err
	}
	return &Dominated{d, g}, nil
}

// A Retainer is an object with what it keeps alive.
type Retainer struct {
	Brief
	Size     uint64   `json:"size"`              // its own bytes, including those outside V8's heap
	Outside  uint64   `json:"outside,omitempty"` // of these, bytes outside V8's heap
	Shared   bool     `json:"shared,omitempty"`  // with other threads: its memory outside the heap does not belong to it alone
	Retained uint64   `json:"retained"`          // bytes, including its own
	By       *Address `json:"by,omitempty"`      // tagged: the object that alone keeps it alive, if there is one
}

// Retainers are the objects that keep most alive.
type Retainers struct {
	Objects []Retainer `json:"objects"` // most first
	Live    uint64     `json:"live"`    // bytes of all live objects

	Interrupted bool `json:"interrupted,omitempty"` // others may keep more alive
}

// Partial reports whether not all objects were compared: the search was interrupted.
func (r *Retainers) Partial() bool { return r.Interrupted }

// Retainers returns the objects that keep most alive among those that o selects, at most
// limit of them. Once ctx is done it returns at once, with some of them.
func (d *Dominated) Retainers(ctx context.Context, o CensusOptions, limit int) *Retainers {
	o.Live = true
	var best []heap.ID
	less := func(a, b heap.ID) int {
		return cmp.Or(cmp.Compare(d.Retained(b), d.Retained(a)), cmp.Compare(a, b))
	}
	for id := range d.graph.Select(ctx, o) {
		if best = append(best, id); len(best) >= 2*limit {
			slices.SortFunc(best, less)
			best = best[:limit]
		}
	}
	slices.SortFunc(best, less)
	r := &Retainers{Live: d.Total(), Interrupted: ctx.Err() != nil}
	for _, id := range best[:min(limit, len(best))] {
		r.Objects = append(r.Objects, d.retainer(id))
	}
	return r
}

func (d *Dominated) retainer(id heap.ID) Retainer {
	g := d.graph
	r := Retainer{Brief: value.BriefOf(g.heap, g.Object(id).Ref()), Size: g.Bytes(id), Outside: g.Outside(id), Retained: d.Retained(id)}
	if b, err := g.heap.Buffer(g.Object(id)); err == nil {
		r.Shared = b.Shared
	}
	if by, ok := d.By(id); ok {
		address := Address(g.Object(by).Ref())
		r.By = &address
	}
	return r
}

// WriteText writes a table.
func (r *Retainers) WriteText(w io.Writer) error {
	out := bufio.NewWriter(w)
	fmt.Fprintf(out, "%12s %6s %12s %s\n", "RETAINED", "%LIVE", "BYTES", "OBJECT")
	for _, o := range r.Objects {
		share := 100 * float64(o.Retained) / float64(max(r.Live, 1))
		fmt.Fprintf(out, "%12d %5.1f%% %12d %v", o.Retained, share, o.Size, o.Brief)
		if o.Shared {
			fmt.Fprint(out, " (shared with other threads)")
		}
		fmt.Fprintln(out)
	}
	if r.Interrupted {
		fmt.Fprintln(out, "interrupted: others may keep more alive")
	}
	return out.Flush()
}

// Addresses returns the addresses of the objects.
func (r *Retainers) Addresses() []v8.Value {
	addresses := make([]v8.Value, len(r.Objects))
	for i, o := range r.Objects {
		addresses[i] = v8.Value(o.Address)
	}
	return addresses
}
