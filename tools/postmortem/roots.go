package postmortem

import (
	"cmp"
	"context"
	"slices"
)

// A Root is an object that something outside of the heaps refers to.
type Root struct {
	Object ID
	From   uint64 // address of a word that refers to it; 0 for a register
	By     Holder // what that word is part of
}

// A Holder is what keeps objects alive from outside of the heaps.
type Holder uint8

// Holders, as far as they are told apart.
const (
	ByMemory    Holder = iota // that is not understood
	ByRegister                // of a thread
	ByStack                   // of a thread
	ByIsolate                 // V8's own data
	ByHandle                  // a local handle of C++ code that is being run
	ByGlobal                  // a handle that an add-on or Node.js itself keeps
	ByEternal                 // a handle that is kept for ever
	ByMicrotask               // a callback that waits to be run
)

// holderNames say what a holder is.
var holderNames = [...]string{
	ByMemory: "memory outside of the heap", ByRegister: "a register", ByStack: "a stack", ByIsolate: "V8's isolate",
	ByHandle: "a handle", ByGlobal: "a global handle", ByEternal: "an eternal handle", ByMicrotask: "a waiting microtask",
}

func (h Holder) String() string { return holderNames[h] }

// A rootScan looks for references in memory that is not V8's heap. Of what malloc
// gave the program only that counts of which V8 says that it keeps objects alive: of
// its handles those in use, and not those that are weak. In other memory a word that
// looks like a reference is taken for one, but in the stacks.
type rootScan struct {
	objects *Objects
	seen    bitSet // by ID
	roots   []Root
	buffer  []byte
}

// roots returns the objects that something outside of the heaps refers to.
func (o *Objects) roots(ctx context.Context, stacks []LiveStack) ([]Root, error) {
	s := &rootScan{objects: o, seen: newBits(o.Len()), buffer: make([]byte, pageAlign)}
	memory := outsideOf(o, stacks)
	for i, t := range stacks {
		for _, w := range t.registers {
			s.word(w, 0, ByRegister)
		}
		if t.whole {
			o.Doubts.Loose = true
			s.scan(addressRange{t.start(), memory.stacks[i].end}, ByStack)
		}
		for _, r := range t.frames {
			s.scan(memory.within(r), ByStack)
		}
	}
	if h, ok := findHolders(o, memory.malloced); ok {
		h.scan(s)
	} else {
		o.Doubts.Loose = true
		memory.others = append(memory.others, memory.malloced...)
	}
	for _, r := range memory.others {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		s.scan(r, ByMemory)
	}
	slices.SortFunc(s.roots, func(a, b Root) int { return cmp.Compare(a.Object, b.Object) })
	return s.roots, nil
}

// scan looks through memory as far as the core has it.
func (s *rootScan) scan(r addressRange, by Holder) {
	for at := r.start; at < r.end; at += uint64(len(s.buffer)) {
		n, _ := s.objects.memory.ReadAt(s.buffer[:min(uint64(len(s.buffer)), r.end-at)], at) // what is not there refers to nothing
		for i := 0; i+wordSize <= n; i += wordSize {
			s.word(wordOf(s.buffer, i), at+uint64(i), by)
		}
	}
}

func (s *rootScan) word(w, from uint64, by Holder) {
	if w&3 != 1 {
		return
	}
	if id, ok := s.objects.Find(w - 1); ok && !s.seen.has(id) {
		s.seen.add(id)
		s.roots = append(s.roots, Root{id, from, by})
	}
}

// root returns the root that refers to an object.
func (g *Graph) root(id ID) (Root, bool) {
	i, found := slices.BinarySearchFunc(g.Roots, id, func(r Root, id ID) int { return cmp.Compare(r.Object, id) })
	if !found {
		return Root{}, false
	}
	return g.Roots[i], true
}
