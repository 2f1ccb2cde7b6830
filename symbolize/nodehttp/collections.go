package nodehttp

import (
	"debug/elf"
	"errors"
	"slices"
	"strings"

	"golang.org/x/arch/x86/x86asm"

	"ustack/symbolize/elfsym"
)

// Collections are where V8's garbage collections are observed: where it calls back before
// and after each, or, in a V8 that has that inlined, around the collection itself.
type Collections struct {
	Prologue, Epilogue []Point // a Heap, a v8::GCType
	Collect            []Point // is entered and returns
	Collector          []Point // within it: a Heap, what it collects
	Kinds              map[uint32]string
}

// Parts of V8's names.
const (
	heap          = "_ZN2v88internal4Heap"
	heapPrologue  = heap + "23CallGCPrologueCallbacksENS_6GCType"
	heapEpilogue  = heap + "23CallGCEpilogueCallbacksENS_6GCType"
	heapCollect   = heap + "14CollectGarbageENS0_15AllocationSpaceE"
	heapCollector = heap + "24PerformGarbageCollectionENS0_16GarbageCollectorE"
)

var (
	errNoCollections = errors.New("where this V8 collects garbage cannot be found, or it is stripped of symbols")
	errSomeInlined   = errors.New("this V8 calls back before garbage collections, but not after them")
)

// kinds are those of v8::GCType (include/v8-callbacks.h).
var (
	kinds    = map[uint32]string{1: "scavenge", 2: "minor-mark-sweep", 4: "mark-compact", 8: "incremental-marking", 16: "weak-callbacks"}
	kindsOld = map[uint32]string{1: "scavenge", 2: "mark-compact", 4: "incremental-marking", 8: "weak-callbacks"}
)

// FindCollections returns where b's V8 collects garbage.
func FindCollections(b Binary) (*Collections, error) {
	if b.Machine() != elf.EM_X86_64 {
		return nil, errMachine
	}
	c := &Collections{Kinds: kinds}
	of := map[string][]elfsym.Symbol{}
	for s := range b.Symbols(heapPrologue, heapEpilogue, heapCollect, heapCollector) {
		for _, part := range []string{heapPrologue, heapEpilogue, heapCollect, heapCollector} {
			if strings.HasPrefix(s.Name, part) && !strings.Contains(s.Name, ".cold") {
				of[part] = append(of[part], s)
			}
		}
	}
	if len(of[heapPrologue]) == 0 || len(of[heapCollector]) == 0 {
		return nil, errNoCollections
	}
	// Without a reason, the function is V8's before 9.9, and so are the kinds' numbers.
	if !strings.Contains(of[heapCollector][0].Name, "23GarbageCollectionReason") {
		c.Kinds = kindsOld
	}
	if !isCalled(b, of[heapPrologue][0], slices.Concat(of[heapCollect], of[heapCollector])) {
		c.Collect, c.Collector = pointsOf(b, of[heapCollect]), pointsOf(b, of[heapCollector])
		if len(c.Collect) == 0 {
			return nil, errNoCollections
		}
		return c, nil
	}
	c.Prologue, c.Epilogue = pointsOf(b, of[heapPrologue]), pointsOf(b, of[heapEpilogue])
	if len(c.Epilogue) == 0 {
		return nil, errSomeInlined
	}
	return c, nil
}

// isCalled reports whether the callbacks are called, not inlined. Where they have a scope
// as their argument, V8 calls them from a function of its own.
func isCalled(b Binary, callback elfsym.Symbol, from []elfsym.Symbol) bool {
	if strings.Contains(callback.Name, "ScopeId") {
		return true
	}
	return slices.ContainsFunc(from, func(s elfsym.Symbol) bool {
		code, _ := b.Code(s.Name)
		for at, inst := range instructions(code) {
			if inst.Op == x86asm.CALL && target(inst, s.Address+uint64(at)) == callback.Address {
				return true
			}
		}
		return false
	})
}

// pointsOf returns where functions begin.
func pointsOf(b Binary, symbols []elfsym.Symbol) (points []Point) {
	for _, s := range symbols {
		if code, offset := b.Code(s.Name); code != nil {
			points = append(points, Point{Name: s.Name, Offset: offset})
		}
	}
	return points
}
