package heap

import (
	"cmp"
	"context"
	"maps"
	"slices"
)

// What V8 uses to keep objects alive is in its isolates, each one piece of memory from
// malloc, and in blocks of handles. All are recognized by their shape.
//
// A block of local handles holds words that are references, one after the other; its
// owner says how many of them count.
//
// A block of global handles holds nodes that begin with a reference and their number in
// the block; flags say whether they are in use, and weak (global-handles.cc).
//
// A queue of microtasks is a ring whose size is a power of two (microtask-queue.h).
const (
	handleBlock  = 1022 * wordSize // bytes
	eternalBlock = 256 * wordSize
	nodesInBlock = 256
	maxNodeTail  = 128 // bytes in a block after its nodes
	minRing      = 8   // microtasks
	maxRing      = 1 << 24
	maxList      = 1 << 24 // bytes
	maxIsolate   = 1 << 18 // bytes; 50 to 70 thousand in Node.js 16 to 26, 132 thousand on arm64
	roundedUp    = 2 * chunkAlign
	cacheKind    = "HashTable" // kind of the tables in V8's caches of compiled code
)

// A nodeForm is the layout of the nodes in a block of handles.
type nodeForm struct {
	head, stride int  // bytes
	index        int  // offset of a node's number
	wide         bool // the number takes two bytes
	flags        int  // offset of a byte
	mask, held   byte // bits of that byte that say whether and how the node holds its object
}

// nodeForms are those of V8 9.4 to 14.6: of global handles, which are in state 1 when
// they are neither free nor weak; and of the handles of C++ objects, whose holders are
// assumed to be alive, in V8 before 11.3 and since.
var nodeForms = []nodeForm{
	{0, 32, 10, false, 11, 3, 1},
	{0, 24, 10, false, 11, 3, 1},
	{48, 16, 10, true, 12, 1, 1},
}

// holders are the things that keep V8's objects alive.
type holders struct {
	objects  *Objects
	heaps    []uint64       // addresses stored in isolates
	areas    []addressRange // managed by malloc, by address
	isolates []addressRange
	owned    []addressRange // references that isolates keep elsewhere
	nodes    []nodeBlock
	eternals []addressRange
	handles  []handleBlockState    // by address
	lists    [][]*handleBlockState // of the isolates, none empty
	current  []uint64              // where isolates put their next handles
	rings    []addressRange        // of pending microtasks
	left     uint64                // bytes that lists, owned and rings may still add
}

type nodeBlock struct {
	start uint64
	form  nodeForm
}

// findHolders looks for all of them in malloc's chunks. It returns false if V8's
// isolates are not there or have no handles of a known form.
func findHolders(ctx context.Context, o *Objects, memory *outside) (h *holders, ok bool, err error) {
	areas := memory.malloced
	h = &holders{objects: o, heaps: o.heaps(), areas: areas}
	for _, c := range memory.mapped {
		h.isolate(c)
	}
	for _, r := range areas {
		if err := ctx.Err(); err != nil {
			return nil, false, err
		}
		eachChunk(o.memory, r, h.chunk)
	}
	if len(h.heaps) == 0 || len(h.isolates) != len(h.heaps) || len(h.nodes) == 0 {
		return nil, false, nil
	}
	for _, r := range areas {
		h.left += r.end - r.start
	}
	for _, r := range areas {
		if err := h.lookForUses(ctx, r); err != nil {
			return nil, false, err
		}
	}
	h.fillIsolates()
	return h, true, nil
}

// heaps returns the addresses that identify the isolates' heaps.
func (o *Objects) heaps() []uint64 {
	heaps := map[uint64]bool{}
	for _, p := range slices.Concat(o.mapped, o.others) {
		if p.Heap != 0 && !p.freed {
			heaps[p.Heap] = true
		}
	}
	return slices.Sorted(maps.Keys(heaps))
}

// isolate notes a chunk if an isolate is in it: it may be large enough for malloc to map it
// separately.
func (h *holders) isolate(c addressRange) {
	if c.end-c.start <= maxIsolate && slices.ContainsFunc(h.heaps, c.has) {
		h.isolates = append(h.isolates, c)
	}
}

// chunk inspects a chunk of malloc's memory.
func (h *holders) chunk(c addressRange) {
	size := c.end - c.start
	h.isolate(c)
	switch {
	case fits(size, handleBlock):
		h.handles = append(h.handles, handleBlockState{start: c.start})
	case fits(size, eternalBlock) && h.refersThroughout(c.start, eternalBlock):
		h.eternals = append(h.eternals, addressRange{c.start, c.start + eternalBlock})
	}
	for _, f := range nodeForms {
		length := uint64(f.head + nodesInBlock*f.stride)
		if size >= length && size <= length+maxNodeTail && h.hasNodes(c.start, f) {
			h.nodes = append(h.nodes, nodeBlock{c.start, f})
		}
	}
}

// fits reports whether malloc returns size bytes for a request of want.
func fits(size, want uint64) bool { return size >= want && size < want+roundedUp }

// refersThroughout reports whether memory holds nothing but references.
func (h *holders) refersThroughout(at uint64, size int) bool {
	words := make([]byte, size)
	if _, err := h.objects.memory.ReadAt(words, at); err != nil {
		return false
	}
	for i := 0; i < size; i += wordSize {
		if w := wordOf(words, i); w&3 != 1 || h.objects.at.page(w) == nil {
			return false
		}
	}
	return true
}

// hasNodes reports whether nodes of a form are where a block of them would begin: each
// holds its own number.
func (h *holders) hasNodes(start uint64, f nodeForm) bool {
	nodes, ok := h.readNodes(nodeBlock{start, f})
	for i := 0; ok && i < nodesInBlock; i++ {
		node := nodes[i*f.stride:]
		number := int(node[f.index])
		if f.wide {
			number |= int(node[f.index+1]) << 8
		}
		ok = number == i
	}
	return ok
}

func (h *holders) readNodes(b nodeBlock) (nodes []byte, ok bool) {
	nodes = make([]byte, nodesInBlock*b.form.stride)
	_, err := h.objects.memory.ReadAt(nodes, b.start+uint64(b.form.head))
	return nodes, err == nil
}

// scan finds what the holders refer to.
func (h *holders) scan(ctx context.Context, s *rootScan) error {
	var err error
	scan := func(r addressRange, by Holder) { err = cmp.Or(err, s.scan(ctx, r, by)) }
	for _, b := range h.nodes {
		nodes, _ := h.readNodes(b)
		for i := 0; i < len(nodes); i += b.form.stride {
			if nodes[i+b.form.flags]&b.form.mask == b.form.held {
				s.word(wordOf(nodes, i), b.start+uint64(b.form.head+i), ByGlobal)
			}
		}
	}
	for _, b := range h.handles {
		if b.used > b.start {
			scan(addressRange{b.start, b.used}, ByHandle)
		}
	}
	for _, r := range h.rings {
		scan(r, ByMicrotask)
	}
	for _, r := range h.eternals {
		scan(r, ByEternal)
	}
	for _, r := range h.isolates {
		h.listsOf(r)
	}
	for _, r := range slices.Concat(h.isolates, h.owned) {
		scan(r, ByIsolate)
	}
	return err
}
