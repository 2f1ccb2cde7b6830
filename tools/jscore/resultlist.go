package jscore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"ustack/symbolize/v8"
	"ustack/symbolize/v8/census"
	"ustack/symbolize/v8/heap"
)

// maxInstances bounds the objects that are listed.
const maxInstances = 1 << 24

// Instances lists the objects that a census with these options counts.
func (g *Graph) Instances(ctx context.Context, o CensusOptions) *Values {
	list := &Values{Values: []Indexed{}}
	for id := range g.Select(ctx, o) {
		if !g.list(list, id) {
			break
		}
	}
	return list
}

// AllAlike lists the objects that a census counts together with the object v.
func (g *Graph) AllAlike(ctx context.Context, v v8.Value, o CensusOptions) (*Values, error) {
	id, ok := g.Find(v.Address())
	if !ok {
		return nil, errors.New("no object begins there (whatis says what does)")
	}
	list := &Values{Address: Address(v), Values: []Indexed{}}
	for other := range census.Alike(ctx, g.Graph, id, o) {
		if !g.list(list, other) {
			break
		}
	}
	return list, nil
}

// list adds an object to a list. It returns false when the list is full.
func (g *Graph) list(to *Values, id heap.ID) bool {
	o := g.Object(id)
	to.Values = append(to.Values, Indexed{len(to.Values), Brief{Address: Address(o.Ref()), Kind: o.Map.KindName()}})
	return len(to.Values) < maxInstances
}

// RetainedBy reports what the object v keeps alive.
func (d *Dominated) RetainedBy(v v8.Value) (*Retainers, error) {
	id, err := d.graph.at(v)
	if err != nil {
		return nil, err
	}
	return &Retainers{Objects: []Retainer{d.retainer(id)}, Live: d.Total()}, nil
}

// Exported describes what a snapshot holds.
type Exported struct{ heap.Exported }

// Export writes the live objects as a heap snapshot that Chrome DevTools opens.
func (g *Graph) Export(ctx context.Context, w io.Writer) (*Exported, error) {
	e, err := g.Graph.Export(ctx, w)
	if err != nil {
		return nil, err
	}
	return &Exported{*e}, nil
}

// WriteText writes how large the snapshot is.
func (e *Exported) WriteText(w io.Writer) error {
	_, err := fmt.Fprintf(w, "%d objects, %d references, %d strings\n", e.Nodes, e.Edges, e.Strings)
	return err
}

// Spaces are those in which V8 has objects, largest first.
type Spaces []Space

// V8Spaces adds up V8's pages by space, and by isolate if there are several.
func (d *Dump) V8Spaces() (Spaces, error) {
	switch {
	case d.v8.Binary == nil:
		return nil, v8.ErrNotV8
	case !d.Several():
		return sumSpaces(d.pages()), nil
	}
	byHeap := map[int][]heap.Page{}
	number := d.isolateNumbers()
	for _, p := range d.pages() {
		at := -1
		if n := number(p.Heap); n != nil && !p.Shared() {
			at = *n
		}
		byHeap[at] = append(byHeap[at], p)
	}
	spaces := Spaces{}
	for _, at := range slices.Sorted(maps.Keys(byHeap)) {
		of := sumSpaces(byHeap[at])
		for i := range of {
			if of[i].Isolate = &at; at < 0 {
				of[i].Isolate = nil
			}
		}
		spaces = append(spaces, of...)
	}
	return spaces, nil
}

// String lists the spaces in one line.
func (l Spaces) String() string {
	total, spaces := uint64(0), make([]string, len(l))
	for i, s := range l {
		total += s.Bytes
		spaces[i] = s.Name + " " + megabytes(s.Bytes)
	}
	return megabytes(total) + ": " + strings.Join(spaces, ", ")
}

// WriteText writes a line for each space, below a line for its isolate if there are several.
func (l Spaces) WriteText(w io.Writer) error {
	if _, err := fmt.Fprintf(w, "%-20s %8s %14s\n", "SPACE", "PAGES", "BYTES"); err != nil {
		return err
	}
	several := slices.ContainsFunc(l, func(s Space) bool { return s.Isolate != nil })
	for i, s := range l {
		if several && (i == 0 || !sameIsolate(l[i-1].Isolate, s.Isolate)) {
			if err := l.writeIsolate(w, s.Isolate); err != nil {
				return err
			}
		}
		if _, err := fmt.Fprintf(w, "%-20s %8d %14d\n", s.Name, s.Pages, s.Bytes); err != nil {
			return err
		}
	}
	return nil
}

// writeIsolate writes the sum of an isolate's spaces.
func (l Spaces) writeIsolate(w io.Writer, isolate *int) error {
	var sum Space
	for _, s := range l {
		if sameIsolate(s.Isolate, isolate) {
			sum.Pages += s.Pages
			sum.Bytes += s.Bytes
		}
	}
	title := "shared"
	if isolate != nil {
		title = fmt.Sprintf("isolate %d", *isolate)
	}
	_, err := fmt.Fprintf(w, "%-20s %8d %14d\n", title, sum.Pages, sum.Bytes)
	return err
}

// Places are words of memory that refer to an address.
type Places struct {
	Of     Address `json:"of"`
	Places []Place `json:"places"`
}

// A Place is the location of such a word.
type Place struct {
	Address Address `json:"address"`
	Region  string  `json:"region"`
}

// maxPlaces bounds the places that are listed.
const maxPlaces = 1 << 20

// Ugrep finds the words that refer to v, tagged or not, in memory that the process could
// write to.
func (d *Dump) Ugrep(ctx context.Context, v v8.Value) (*Places, error) {
	found := &Places{Of: Address(v), Places: []Place{}}
	for at, word := range d.WritableWords(ctx) {
		if v8.Value(word).Address() != v.Address() {
			continue
		}
		r, _ := d.Region(at) // it was read from one
		found.Places = append(found.Places, Place{Address(at), d.regionName(r)})
		if len(found.Places) >= maxPlaces {
			break
		}
	}
	return found, ctx.Err()
}

// WriteText writes a line for each place.
func (p *Places) WriteText(w io.Writer) error {
	for _, place := range p.Places {
		if _, err := fmt.Fprintf(w, "%s %s\n", place.Address, place.Region); err != nil {
			return err
		}
	}
	return nil
}

// Addresses returns the addresses of the words.
func (p *Places) Addresses() []v8.Value {
	values := make([]v8.Value, len(p.Places))
	for i, place := range p.Places {
		values[i] = v8.Value(place.Address)
	}
	return values
}
