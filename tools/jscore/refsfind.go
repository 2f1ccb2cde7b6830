package jscore

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"

	"ustack/symbolize/v8"
)

// RefOptions say how far to search for what refers to an object. The zero value finds
// what refers to it directly.
type RefOptions struct {
	Depth int  // levels of indirect references to follow; at most maxRefDepth
	Limit int  // references reported for one object; 100 if 0
	Live  bool // only those from live objects
}

const (
	maxRefDepth  = 64
	maxRefs      = 10_000 // references reported in all
	maxOwners    = 16     // objects reported that share one of V8's stores
	defaultLimit = 100
)

// References are what refers to an object.
type References struct {
	Brief
	Root string       `json:"root,omitempty"` // what outside the heap refers to it, if anything does
	Refs []*Reference `json:"references"`
	More int          `json:"more,omitempty"` // further objects that refer to it and are not reported
	Seen bool         `json:"seen,omitempty"` // what refers to it is reported elsewhere
}

// A Reference is from one object to another. A store in which V8 keeps properties,
// elements or entries is skipped: the object that they belong to is named.
type Reference struct {
	Link
	Live bool `json:"live"`
	References
	object ID
}

// A NoObjectError reports that no object begins at an address.
type NoObjectError struct{ Address Address }

func (e *NoObjectError) Error() string {
	return fmt.Sprintf("no object begins at %v (whatis says what is there)", e.Address)
}

// at returns the object that v refers to.
func (g *Graph) at(v v8.Value) (ID, error) {
	id, ok := g.Find(v.Address())
	if !ok || !v.IsObject() {
		return 0, &NoObjectError{Address(v)}
	}
	return id, nil
}

// References finds what refers to the object v.
func (g *Graph) References(ctx context.Context, v v8.Value, o RefOptions) (*References, error) {
	id, err := g.at(v)
	if err != nil {
		return nil, err
	}
	if o.Limit <= 0 {
		o.Limit = defaultLimit
	}
	f := &refFinder{Graph: g, ctx: ctx, options: o, seen: map[ID]bool{}, left: maxRefs}
	r := f.references(id, min(max(o.Depth, 1), maxRefDepth))
	return &r, ctx.Err()
}

// A refFinder follows references backward from object to object, until ctx is done.
type refFinder struct {
	*Graph
	ctx     context.Context
	options RefOptions
	seen    map[ID]bool
	left    int
}

func (f *refFinder) references(id ID, depth int) References {
	r := References{Brief: BriefOf(f.heap, f.Object(id).Ref()), Root: f.rootName(id)}
	if depth == 0 {
		return r
	}
	if r.Seen = f.seen[id]; r.Seen {
		return r
	}
	f.seen[id] = true
	in := f.backward()
	told := map[ID]bool{}
	for i := in.first[id]; i < in.first[id+1] && f.ctx.Err() == nil; i++ {
		from := in.at(i)
		if told[from] || f.options.Live && !f.IsLive(from) {
			continue
		}
		told[from] = true
		if len(r.Refs) >= f.options.Limit || f.left <= 0 {
			r.More++
			continue
		}
		found := f.from(from, id)
		f.left -= len(found)
		r.Refs = append(r.Refs, found...)
	}
	for _, ref := range r.Refs {
		ref.References = f.references(ref.object, depth-1)
	}
	return r
}

// from describes how an object refers to another.
func (f *refFinder) from(from, to ID) []*Reference {
	o := f.Object(from)
	offsets := f.offsets(from, to)
	if len(offsets) == 0 { // a key does, through a table that has both
		return []*Reference{{Link: Link{ByEntry, "of a weak map"}, Live: f.IsLive(from), object: from}}
	}
	var found []*Reference
	for _, offset := range offsets[:min(len(offsets), maxOwners)] {
		owned := f.owned(from, offset)
		if len(owned) == 0 {
			owned = []*Reference{{Link: f.link(o, offset), Live: f.IsLive(from), object: from}}
		}
		found = append(found, owned...)
	}
	return found
}

// owned finds whose property, element or entry is at an offset in a store; nothing if
// the object is not a store.
func (f *refFinder) owned(store ID, offset int) []*Reference {
	var found []*Reference
	in, o := f.backward(), f.Object(store)
	for i := in.first[store]; i < in.first[store+1] && len(found) < maxOwners && f.ctx.Err() == nil; i++ {
		owner := f.Object(in.at(i))
		if !f.heap.IsReceiver(owner) {
			continue
		}
		if link, ok := f.through(owner, o, offset); ok {
			found = append(found, &Reference{Link: link, Live: f.IsLive(in.at(i)), object: in.at(i)})
		}
	}
	return found
}

// rootName returns what outside the heap refers to an object; "" if nothing does.
func (g *Graph) rootName(id ID) string {
	root, ok := g.root(id)
	if !ok {
		return ""
	}
	switch root.By {
	case ByRegister:
		return root.By.String()
	case ByStack, ByMemory:
		if g.dump != nil {
			return fmt.Sprintf("%s at %x", g.dump.rootRegion(root), root.From)
		}
	}
	return fmt.Sprintf("%v at %x", root.By, root.From)
}

// rootRegion returns what memory a root is in.
func (d *Dump) rootRegion(root Root) string {
	r, ok := d.region(root.From)
	switch {
	case ok && r.File != "":
		return r.File
	case root.By == ByStack:
		for _, t := range d.threads {
			if sp := t.Registers.SP; sp >= r.Start && sp < r.End {
				return fmt.Sprintf("stack of thread %d", t.TID)
			}
		}
	}
	return root.By.String()
}

// WriteText writes the references as a tree.
func (r *References) WriteText(w io.Writer) error {
	out := bufio.NewWriter(w)
	fmt.Fprintln(out, r.Brief)
	r.write(out, 1)
	return out.Flush()
}

func (r *References) write(out io.Writer, depth int) {
	margin := strings.Repeat("  ", depth)
	if r.Root != "" {
		fmt.Fprintf(out, "%sroot: %s\n", margin, r.Root)
	}
	for _, ref := range r.Refs {
		note := ""
		if !ref.Live {
			note = " (dead)"
		}
		if ref.Seen {
			note += " (see above)"
		}
		fmt.Fprintf(out, "%s%v of %v%s\n", margin, ref.Link, ref.Brief, note)
		ref.write(out, depth+1)
	}
	if r.More > 0 {
		fmt.Fprintf(out, "%sand %d more\n", margin, r.More)
	}
}

// Addresses returns the addresses of the objects that refer to it.
func (r *References) Addresses() []v8.Value {
	addresses := make([]v8.Value, len(r.Refs))
	for i, ref := range r.Refs {
		addresses[i] = v8.Value(ref.Address)
	}
	return addresses
}
