package jscore

import (
	"bufio"
	"context"
	"fmt"
	"io"

	"ustack/symbolize/v8"
	"ustack/symbolize/v8/heap"
)

// A Suspect is the class of objects that most likely leak.
type Suspect struct {
	Class       string       `json:"class"`
	Before      int          `json:"before"` // live objects
	After       int          `json:"after"`
	Grew        int          `json:"grew"`     // intervals in which there came to be more
	Retained    uint64       `json:"retained"` // bytes that the new ones keep alive, estimated
	Constructor *Constructor `json:"constructor,omitempty"`
	DefinedAt   string       `json:"defined_at,omitempty"` // where the constructor is
	Example     Brief        `json:"example"`
	Path        *Path        `json:"path"` // from a root to the example
}

// A classGrowth is the live objects of a class.
type classGrowth struct {
	count         int
	retained      uint64 // bytes, added up
	most          uint64 // bytes that one of them retains
	newest        heap.ID
	before, grown int
}

// suspect returns the class that most likely leaks: of those of which there came to be more in
// most intervals, the one whose new objects keep most alive. It is nil if there is none.
func (w *watcher) suspect(ctx context.Context) *Suspect {
	g := w.last.memory.ledger.graph
	if g == nil {
		return nil
	}
	d, err := g.Dominated(ctx)
	if err != nil {
		return nil
	}
	var best string
	var most uint64
	classes := w.growing(ctx, d)
	for class, c := range classes {
		if bytes := c.newBytes(); bytes > most || bytes == most && class < best {
			best, most = class, bytes
		}
	}
	if best == "" {
		return nil
	}
	c := classes[best]
	s := &Suspect{Class: best, Before: c.before, After: c.count, Grew: c.grown, Retained: most}
	object := g.Object(c.newest).Ref()
	s.Example = d.retainer(c.newest).Brief
	if s.Path, err = g.Path(ctx, object); err != nil {
		return nil
	}
	s.Constructor, _ = JSConstructor(g.heap, object, true)
	if s.Constructor != nil && s.Constructor.Function != nil {
		if o, err := g.heap.Object(v8.Value(s.Constructor.Function.Address)); err == nil && g.heap.IsFunction(o) {
			if f, err := g.heap.Function(o); err == nil {
				s.DefinedAt = w.last.dump.DefinedAt(f)
			}
		}
	}
	return s
}

// growing returns the classes of which there came to be more in most intervals.
func (w *watcher) growing(ctx context.Context, d *Dominated) map[string]*classGrowth {
	g, classes := d.graph, make(map[string]*classGrowth)
	byMap := make(map[int]*classGrowth)
	intervals := w.taken - 1
	for id := range g.All(ctx) {
		if !g.IsLive(id) {
			continue
		}
		c, known := byMap[g.MapIndex(id)]
		if !known {
			o := g.Object(id)
			if class, err := g.heap.Class(o); err == nil && g.heap.IsReceiver(o) && 2*w.grows[class] > intervals {
				if classes[class] == nil {
					classes[class] = &classGrowth{before: w.first.classes[class], grown: w.grows[class]}
				}
				c = classes[class]
			}
			byMap[g.MapIndex(id)] = c
		}
		if c != nil {
			bytes := d.Retained(id)
			c.count++
			c.retained += bytes
			if bytes > c.most {
				c.most = bytes
			} else {
				c.newest = id
			}
		}
	}
	return classes
}

// newBytes estimates what the new objects keep alive. The object that keeps most does not count:
// it may hold the others.
func (c *classGrowth) newBytes() uint64 {
	if c.count <= c.before || c.count < 2 {
		return 0
	}
	return uint64(float64(c.retained-c.most) / float64(c.count-1) * float64(c.count-c.before))
}

// WriteText writes what grew, its constructor and the path to one of its objects.
func (s *Suspect) WriteText(w io.Writer) error {
	out := bufio.NewWriter(w)
	fmt.Fprintf(out, "likely leak: %s, from %d to %d live objects, which keep about %s more alive\n", s.Class, s.Before, s.After, megabytes(s.Retained))
	if s.DefinedAt != "" {
		fmt.Fprintf(out, "constructor: %s, %s\n", s.Constructor.Name, s.DefinedAt)
	}
	fmt.Fprintf(out, "what keeps %s (%v) alive:\n", s.Example.Address, s.Example)
	if err := s.Path.WriteText(out); err != nil {
		return err
	}
	return out.Flush()
}
