package heap

import (
	"context"

	"ustack/symbolize/v8"
)

// A Walker finds the objects in chosen pages of a process.
type Walker struct {
	memory Memory
	heap   *v8.Heap
	all    []pageObjects // in which maps may be
	last   *Objects      // whose kinds are known; nil before the first walk
}

// NewWalker returns a Walker of a process's pages, which FindPages has found.
func NewWalker(m Memory, h *v8.Heap, pages []Page) *Walker {
	w := &Walker{memory: m, heap: h, all: make([]pageObjects, len(pages))}
	for i, p := range pages {
		w.all[i].Page = p
	}
	return w
}

// Walk finds the objects in some of the pages.
func (w *Walker) Walk(ctx context.Context, pages []Page) (*Objects, error) {
	o := &Objects{memory: w.memory, heap: w.heap, mapped: pages}
	if w.last != nil {
		o.known, o.kinds = w.last.known, w.last.kinds
	}
	w.last = o
	o.maps.fill(w.all)
	return o, o.walk(ctx)
}
