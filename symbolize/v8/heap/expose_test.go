package heap

import "ustack/symbolize/v8"

// Reader returns what reads a graph's objects.
func Reader(g *Graph) *v8.Heap { return g.heap }

// LinkAt returns what an object has at an offset.
func LinkAt(g *Graph, o v8.Object, offset int) Link { return g.link(o, offset) }
