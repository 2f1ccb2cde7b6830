package heap

import (
	"context"
	"iter"
)

// A Referrer is an object that refers to another. A store in which V8 keeps properties,
// elements or entries is none: the object that it belongs to is.
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
