package jscore

import (
	"context"
	"errors"

	"ustack/symbolize/v8"
	"ustack/symbolize/v8/heap"
)

// A Graph is the objects of a process, the references between them, and which of them
// are live: reachable from a root.
type Graph struct {
	*heap.Graph
	dump *Dump
	heap *v8.Heap

	closures map[v8.Value][]heap.ID // by their functions' SharedFunctionInfos; nil until needed
}

// Graph finds all objects of the process, live and dead, and the references between
// them. It takes about a second per 4 million objects, and some 60 bytes for each. Once ctx
// is done it returns its error, with a graph for a census of the objects found until then.
func (d *Dump) Graph(ctx context.Context) (*Graph, error) {
	if d.v8.Heap == nil {
		return nil, errors.New("find objects: no V8 is understood in this process")
	}
	some := func(p heap.Page) bool { return d.selected == nil || p.Shared() || d.selected.Has(p.Heap) }
	o, err := heap.Walk(ctx, d, d.v8.Heap, some)
	if err == nil {
		var g *heap.Graph
		if g, err = heap.NewGraph(ctx, o, d.LiveStacks()); err == nil {
			return &Graph{Graph: g, dump: d, heap: d.v8.Heap}, nil
		}
	}
	if ctx.Err() == nil {
		return nil, err
	}
	return &Graph{Graph: o.Unmarked(), dump: d, heap: d.v8.Heap}, err
}
