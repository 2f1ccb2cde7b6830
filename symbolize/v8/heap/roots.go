package heap

import (
	"cmp"
	"context"
	"errors"
	"slices"
)

// A Root is an object to which something outside the heaps refers.
type Root struct {
	Object ID
	From   uint64 // address of a word that refers to it; 0 for a register
	By     Holder // what that word is part of
}

// A Holder is what keeps objects alive from outside the heaps.
type Holder uint8

// Holders, as far as they can be distinguished.
const (
	ByMemory    Holder = iota // of unknown meaning
	ByRegister                // of a thread
	ByStack                   // of a thread
	ByIsolate                 // V8's own data
	ByHandle                  // a local handle of running C++ code
	ByGlobal                  // a handle that an add-on or Node.js itself keeps
	ByEternal                 // a handle that is never released
	ByMicrotask               // a pending callback
)

// holderNames describe the holders.
var holderNames = [...]string{
	ByMemory: "memory outside of the heap", ByRegister: "a register", ByStack: "a stack", ByIsolate: "V8's isolate",
	ByHandle: "a handle", ByGlobal: "a global handle", ByEternal: "an eternal handle", ByMicrotask: "a waiting microtask",
}

// certain reports whether what such a holder refers to is alive for certain: other words that
// look like references may be left over from before.
func (h Holder) certain() bool {
	return h == ByHandle || h == ByGlobal || h == ByEternal || h == ByMicrotask
}

func (h Holder) String() string { return holderNames[h] }

// A rootScan looks for references in memory outside V8's heap. In memory from malloc,
// only what V8 says keeps objects alive counts: handles that are in use and not weak. In
// other memory, except stacks, any word that looks like a reference is treated as one.
type rootScan struct {
	objects *Objects
	seen    bitSet       // by ID
	roots   []Root       // by object
	certain bitSet       // of the roots: those that certain holders refer to
	lost    []lostObject // to which handles and frames refer
	buffer  []byte
}

// roots finds the objects to which something outside the heaps refers. An isolate has caches
// besides its roots, whose references V8 never updates.
func (o *Objects) roots(ctx context.Context, stacks []Stack) (*rootScan, error) {
	s := &rootScan{objects: o, seen: newBits(o.Len()), certain: newBits(o.Len()), buffer: make([]byte, pageAlign)}
	memory, err := outsideOf(ctx, o, stacks)
	if err != nil {
		return nil, err
	}
	for i, t := range stacks {
		for _, w := range t.Registers {
			s.word(w, 0, ByRegister)
		}
		o.Doubts.Loose = o.Doubts.Loose || t.Whole || t.Loose
		if t.Whole {
			err = errors.Join(err, s.scan(ctx, addressRange{t.start(), memory.stacks[i].end}, ByStack))
		}
		for _, r := range t.Frames {
			err = errors.Join(err, s.scan(ctx, memory.within(addressRange{r.Start, r.End}), ByStack))
		}
	}
	h, ok, failed := findHolders(ctx, o, &memory)
	err = errors.Join(err, failed)
	if ok {
		err = errors.Join(err, h.scan(ctx, s))
	} else {
		o.Doubts.Loose = true
		memory.others = append(memory.others, memory.malloced...)
	}
	for _, r := range memory.others {
		err = errors.Join(err, s.scan(ctx, r, ByMemory))
	}
	if err != nil {
		return nil, cmp.Or(ctx.Err(), err)
	}
	slices.SortFunc(s.roots, func(a, b Root) int { return cmp.Compare(a.Object, b.Object) })
	return s, nil
}

// scan searches memory as far as the core has it: a process, or the maker of the core,
// may claim any amount.
func (s *rootScan) scan(ctx context.Context, r addressRange, by Holder) error {
	return eachData(ctx, s.objects.memory, r, s.buffer, func(data []byte, at uint64) {
		for i := 0; i+wordSize <= len(data); i += wordSize {
			s.word(wordOf(data, i), at+uint64(i), by)
		}
	})
}

// eachData visits the memory of a range that the core has, skipping the zeros that it
// leaves out, in pieces that fit into buffer. It fails only when ctx is done.
func eachData(ctx context.Context, m Memory, r addressRange, buffer []byte, visit func(data []byte, at uint64)) error {
	for at := r.start; at < r.end; {
		if err := ctx.Err(); err != nil {
			return err
		}
		next, ok := m.NextData(at)
		if !ok || next >= r.end {
			return nil
		}
		if next > at {
			at = next &^ (wordSize - 1)
		}
		n, _ := m.ReadAt(buffer[:min(uint64(len(buffer)), r.end-at)], at) // what is missing refers to nothing
		visit(buffer[:n], at)
		at += uint64(len(buffer))
	}
	return nil
}

func (s *rootScan) word(w, from uint64, by Holder) {
	if w&3 != 1 {
		return
	}
	id, ok := s.objects.Find(w - 1)
	if ok && by.certain() {
		s.certain.add(id)
	}
	switch {
	case ok && !s.seen.has(id):
		s.seen.add(id)
		s.roots = append(s.roots, Root{id, from, by})
	case !ok && by != ByMemory && by != ByIsolate && s.objects.at.page(w-1) != nil && len(s.lost) < maxDangling:
		s.lost = append(s.lost, lostObject{w - 1, by.certain()})
	}
}

// Root returns the root that refers to an object.
func (g *Graph) Root(id ID) (Root, bool) {
	i, found := slices.BinarySearchFunc(g.Roots, id, func(r Root, id ID) int { return cmp.Compare(r.Object, id) })
	if !found {
		return Root{}, false
	}
	return g.Roots[i], true
}
