package heap

import (
	"context"
	"iter"
)

// A Referrer is an object that refers to another. Where V8 keeps properties, elements or
// entries in a separate store, it is the object that the store belongs to.
type Referrer struct {
	Link   Link
	Object ID
}

// maxOwners bounds the referrers that share one of V8's stores.
const maxOwners = 16

// ReferredBy yields the objects that refer to an object, V8's stores among them. A key
// refers to what a weak map keeps alive for it.
func (g *Graph) ReferredBy(id ID) iter.Seq[ID] {
	return func(yield func(ID) bool) {
		in := g.backward()
		seen := map[ID]bool{}
		for i := in.first[id]; i < in.first[id+1]; i++ {
			if from := in.at(i); !seen[from] {
				seen[from] = true
				if !yield(from) {
					return
				}
			}
		}
	}
}

// Referrers describes how an object refers to another: at each place, the object itself,
// or those that have it as a store. It returns what it has found once ctx is done.
func (g *Graph) Referrers(ctx context.Context, from, to ID) []Referrer {
	o := g.Object(from)
	offsets := g.offsets(from, to)
	if len(offsets) == 0 { // a key does, through a table that has both
		return []Referrer{{Link{ByEntry, "of a weak map"}, from}}
	}
	var found []Referrer
	for _, offset := range offsets[:min(len(offsets), maxOwners)] {
		owned := g.owned(ctx, from, offset)
		if len(owned) == 0 {
			owned = []Referrer{{g.link(o, offset), from}}
		}
		found = append(found, owned...)
	}
	return found
}

// owned finds whose property, element or entry is at an offset in a store; nothing if
// the object is not a store.
func (g *Graph) owned(ctx context.Context, store ID, offset int) []Referrer {
	var found []Referrer
	in, o := g.backward(), g.Object(store)
	for i := in.first[store]; i < in.first[store+1] && len(found) < maxOwners && ctx.Err() == nil; i++ {
		owner := g.Object(in.at(i))
		if !g.heap.IsReceiver(owner) {
			continue
		}
		if link, ok := g.through(owner, o, offset); ok {
			found = append(found, Referrer{link, in.at(i)})
		}
	}
	return found
}

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
	defaultLimit = 100
)

// References are what refers to an object, and what refers to that.
type References struct {
	Object ID
	By     []Reference
	More   int  // further objects that refer to it and are not reported
	Seen   bool // what refers to it is reported elsewhere
}

// A Reference is from one object to another.
type Reference struct {
	Link Link
	References
}

// References finds what refers to an object. Once ctx is done it returns at once, with
// what was found so far.
func (g *Graph) References(ctx context.Context, id ID, o RefOptions) *References {
	if o.Limit <= 0 {
		o.Limit = defaultLimit
	}
	f := &refFinder{Graph: g, ctx: ctx, options: o, seen: map[ID]bool{}, left: maxRefs}
	r := &References{Object: id}
	f.find(r, min(max(o.Depth, 1), maxRefDepth))
	return r
}

// A refFinder follows references backward from object to object, until ctx is done.
type refFinder struct {
	*Graph
	ctx     context.Context
	options RefOptions
	seen    map[ID]bool
	left    int
}

func (f *refFinder) find(r *References, depth int) {
	if depth == 0 {
		return
	}
	if r.Seen = f.seen[r.Object]; r.Seen {
		return
	}
	f.seen[r.Object] = true
	for from := range f.ReferredBy(r.Object) {
		if f.ctx.Err() != nil {
			break
		}
		if f.options.Live && !f.IsLive(from) {
			continue
		}
		if len(r.By) >= f.options.Limit || f.left <= 0 {
			r.More++
			continue
		}
		found := f.Referrers(f.ctx, from, r.Object)
		f.left -= len(found)
		for _, by := range found {
			r.By = append(r.By, Reference{by.Link, References{Object: by.Object}})
		}
	}
	for i := range r.By {
		f.find(&r.By[i].References, depth-1)
	}
}
