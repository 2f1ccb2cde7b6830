package heap

import (
	"cmp"
	"slices"
)

// A ClassShare is what the objects of a class keep alive.
type ClassShare struct {
	Class    string
	Count    int    // live objects
	Retained uint64 // bytes; what one keeps for another of the class counts only once
	Most     ID     // the one that keeps most
}

// Classes returns what the objects of each class keep alive, most first.
func (d *Dominated) Classes() []ClassShare {
	t := d.tree()
	shares := map[string]*ClassShare{}
	best := map[string]uint64{}
	above := map[string]int{} // objects of a class on the path from the roots
	names := d.classNames()
	t.visit(func(n uint32) {
		id := d.object[n]
		class := names[d.graph.kind[id]]
		if class == "" {
			return
		}
		s, ok := shares[class]
		if !ok {
			s = &ClassShare{Class: class}
			shares[class] = s
		}
		s.Count++
		if above[class] == 0 {
			s.Retained += d.retained[n]
		}
		if d.retained[n] > best[class] {
			best[class] = d.retained[n]
			s.Most = id
		}
		above[class]++
	}, func(n uint32) {
		if class := names[d.graph.kind[d.object[n]]]; class != "" {
			above[class]--
		}
	})
	list := make([]ClassShare, 0, len(shares))
	for _, s := range shares {
		list = append(list, *s)
	}
	slices.SortFunc(list, func(a, b ClassShare) int {
		return cmp.Or(cmp.Compare(b.Retained, a.Retained), cmp.Compare(a.Class, b.Class))
	})
	return list
}

// classNames returns the classes of the live objects by their maps' indices; "" for
// what a program does not see as an object.
func (d *Dominated) classNames() []string {
	g := d.graph
	names, known := make([]string, g.kinds.count), make([]bool, g.kinds.count)
	for _, id := range d.object[1:] {
		kind := g.kind[id]
		if known[kind] {
			continue
		}
		known[kind] = true
		o := g.Object(id)
		if !g.heap.IsReceiver(o) {
			continue
		}
		class, err := g.heap.Class(o)
		if err != nil {
			class = "<bad>"
		}
		names[kind] = class
	}
	return names
}

// A dominatorTree holds for each object what it keeps alive.
type dominatorTree struct {
	first []uint32 // by number: where its own begin in below; one extra at the end
	below []uint32 // numbers
}

func (d *Dominated) tree() *dominatorTree {
	count := len(d.object)
	t := &dominatorTree{first: make([]uint32, count+1), below: make([]uint32, max(count-1, 0))}
	for n := 1; n < count; n++ {
		t.first[d.by[n]+1]++
	}
	for n := range count {
		t.first[n+1] += t.first[n]
	}
	next := slices.Clone(t.first)
	for n := 1; n < count; n++ {
		t.below[next[d.by[n]]] = uint32(n)
		next[d.by[n]]++
	}
	return t
}

// visit traverses the tree below the roots: it enters each object before, and leaves it
// after, the objects that it keeps alive.
func (t *dominatorTree) visit(enter, leave func(n uint32)) {
	type place struct{ number, next uint32 }
	stack := []place{{0, t.first[0]}}
	for len(stack) > 0 {
		top := &stack[len(stack)-1]
		if top.next < t.first[top.number+1] {
			n := t.below[top.next]
			top.next++
			enter(n)
			stack = append(stack, place{n, t.first[n]})
			continue
		}
		if top.number != 0 {
			leave(top.number)
		}
		stack = stack[:len(stack)-1]
	}
}
