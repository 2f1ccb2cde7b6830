package postmortem

import (
	"context"
	"fmt"
	"math/bits"
	"sort"

	"ustack/symbolize/v8"
)

const (
	wordSize   = 8
	maxObjects = 1 << 31 // in a core: an ID is 32 bits
	maxStrange = 1 << 16 // words remembered not to be maps
)

// An ID is an object's number in Objects: they are counted by address, from 0.
type ID uint32

// Objects are all objects that a process's heaps hold, live or not. It is not for
// concurrent use.
type Objects struct {
	memory Memory
	heap   *v8.Heap
	mapped []Page // all that V8 has, those included whose objects have moved away
	pages  []pageObjects
	at     pageTable
	kinds  []objectKind
	kind   []uint32 // by ID: index of kinds
	words  []uint32 // by ID: size

	// Doubts say what of the heaps is not understood.
	Doubts Doubts
}

// Doubts are what of the heaps is not understood.
type Doubts struct {
	Unreadable uint64 `json:"unreadable"` // bytes of pages that the core does not have
	Lost       uint64 `json:"lost"`       // bytes of pages in which no object begins where one should
	Guessed    int    `json:"guessed"`    // objects that end where the next begins: their size is not known
	Loose      bool   `json:"loose"`      // not all that V8 keeps objects alive by was told, so what is around it counts, too
}

// An objectKind is what objects of the same map have in common.
type objectKind struct {
	form  v8.Form
	sized bool // the form says how long they are
	free  bool // no objects, but room for some
	weak  weakness
}

// A pageObjects is a page and where in it objects begin.
type pageObjects struct {
	Page
	first  ID       // of the page's first object
	count  uint32   // of its objects
	starts []uint64 // a bit for each word of the page, its header's included
	ranks  []uint32 // objects before each of starts
}

// Walk finds all objects in a process's memory.
func Walk(ctx context.Context, m Memory, h *v8.Heap) (*Objects, error) {
	o := &Objects{memory: m, heap: h}
	o.mapped = FindPages(m, h.Version())
	for _, p := range o.mapped {
		if !p.stale {
			o.pages = append(o.pages, pageObjects{Page: p})
		}
	}
	o.at.fill(o.pages)
	w := &pageWalker{Objects: o, known: make(map[uint64]int32)}
	for i := range o.pages {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := w.page(&o.pages[i]); err != nil {
			return nil, err
		}
	}
	return o, nil
}

// Len is how many objects there are.
func (o *Objects) Len() int { return len(o.kind) }

// Pages are those that objects are in, by address.
func (o *Objects) Pages() []Page {
	pages := make([]Page, len(o.pages))
	for i, p := range o.pages {
		pages[i] = p.Page
	}
	return pages
}

// Find returns the object that begins at an address.
func (o *Objects) Find(address uint64) (ID, bool) {
	p := o.at.page(address)
	if p == nil {
		return 0, false
	}
	return p.find(address)
}

// Around returns the object that an address lies in.
func (o *Objects) Around(address uint64) (ID, bool) {
	i := sort.Search(len(o.pages), func(i int) bool { return o.pages[i].Address > address }) - 1
	if i < 0 || o.pages[i].count == 0 || address >= o.pages[i].End {
		return 0, false
	}
	p := &o.pages[i]
	n := sort.Search(int(p.count), func(n int) bool { return p.address(uint32(n)) > address }) - 1
	if n < 0 {
		return 0, false
	}
	id := p.first + ID(n)
	return id, address < o.Address(id)+o.Size(id)
}

// Object returns an object of an ID below Len.
func (o *Objects) Object(id ID) v8.Object {
	return v8.Object{Address: o.Address(id), Map: o.Map(id)}
}

// Map returns the object's map.
func (o *Objects) Map(id ID) *v8.Map { return o.kinds[o.kind[id]].form.Map }

// Size returns how many bytes the object takes in the heap.
func (o *Objects) Size(id ID) uint64 { return uint64(o.words[id]) * wordSize }

// Address returns where the object begins.
func (o *Objects) Address(id ID) uint64 {
	p := o.pageOf(id)
	return p.address(uint32(id - p.first))
}

// Page returns the page that the object is in.
func (o *Objects) Page(id ID) Page { return o.pageOf(id).Page }

func (o *Objects) pageOf(id ID) *pageObjects {
	return &o.pages[sort.Search(len(o.pages), func(i int) bool { return o.pages[i].first > id })-1]
}

// find returns the object that begins at an address in the page.
func (p *pageObjects) find(address uint64) (ID, bool) {
	word := (address - p.Address) / wordSize
	if word/64 >= uint64(len(p.starts)) || address%wordSize != 0 {
		return 0, false
	}
	block := p.starts[word/64]
	bit := uint64(1) << (word % 64)
	if block&bit == 0 {
		return 0, false
	}
	return p.first + ID(p.ranks[word/64]) + ID(bits.OnesCount64(block&(bit-1))), true
}

// address returns where the page's nth object begins.
func (p *pageObjects) address(n uint32) uint64 {
	i := sort.Search(len(p.ranks), func(i int) bool { return p.ranks[i] > n }) - 1
	block := p.starts[i]
	for range n - p.ranks[i] {
		block &= block - 1
	}
	return p.Address + uint64(i*64+bits.TrailingZeros64(block))*wordSize
}

// each yields the page's objects and where they begin, in order.
func (p *pageObjects) each(visit func(id ID, address uint64)) {
	id := p.first
	for i, block := range p.starts {
		for ; block != 0; block &= block - 1 {
			visit(id, p.Address+uint64(i*64+bits.TrailingZeros64(block))*wordSize)
			id++
		}
	}
}

// A pageTable finds pages by address.
type pageTable struct {
	pages map[uint64]*pageObjects // by number: address / pageAlign
	cache [1 << 9]struct {
		number uint64
		page   *pageObjects
	}
}

func (t *pageTable) fill(pages []pageObjects) {
	t.pages = make(map[uint64]*pageObjects, len(pages))
	for i := range pages {
		t.pages[pages[i].Address/pageAlign] = &pages[i]
	}
}

// page returns the page that an object begins in at an address; nil if none can.
func (t *pageTable) page(address uint64) *pageObjects {
	number := address / pageAlign
	c := &t.cache[number%uint64(len(t.cache))]
	if c.number != number {
		c.number, c.page = number, t.pages[number]
	}
	return c.page
}

// A pageWalker goes through pages from object to object.
type pageWalker struct {
	*Objects
	known  map[uint64]int32 // index of kinds by the word that refers to a map; below zero: it refers to none
	buffer []byte
}

// page finds the page's objects.
func (w *pageWalker) page(p *pageObjects) error {
	p.first = ID(len(w.kind))
	data := w.read(p)
	blocks := (p.Start-p.Address+uint64(len(data)))/wordSize/64 + 1
	p.starts, p.ranks = make([]uint64, blocks), make([]uint32, blocks)
	for at := 0; at+wordSize <= len(data); {
		first := wordOf(data, at)
		index, ok := w.kindOf(first)
		size := 0
		if ok {
			size = w.sizeOf(p, data[at:], index)
		}
		if size == 0 && p.Space == "new" && forwards(first) {
			break
		}
		if size == 0 {
			if first != 0 {
				w.Doubts.Lost += wordSize
			}
			at += wordSize
			continue
		}
		if !w.kinds[index].free {
			word := (p.Start - p.Address + uint64(at)) / wordSize
			p.starts[word/64] |= 1 << (word % 64)
			w.kind = append(w.kind, uint32(index))
			w.words = append(w.words, uint32(size/wordSize))
			p.count++
		}
		at += size
	}
	rank := uint32(0)
	for i, block := range p.starts {
		p.ranks[i] = rank
		rank += uint32(bits.OnesCount64(block))
	}
	if len(w.kind) > maxObjects {
		return fmt.Errorf("walk the heap: more than %d objects", maxObjects)
	}
	return nil
}

// forwards reports whether an object's first word says where it has moved to. In
// the new space that is what the last collection left where no object has been
// put since, nor further on in the page.
func forwards(word uint64) bool {
	return word%wordSize == 0 && word != 0
}

// read returns the page's objects as far as they can be read; of a large one, its head.
func (w *pageWalker) read(p *pageObjects) []byte {
	size := p.End - p.Start
	if p.Large() || size > pageAlign {
		size = min(size, v8.FormHead)
	}
	if w.buffer == nil {
		w.buffer = make([]byte, pageAlign)
	}
	n, err := w.memory.ReadAt(w.buffer[:size], p.Start)
	if err != nil {
		w.Doubts.Unreadable += size - uint64(n)
	}
	return w.buffer[:n]
}

// kindOf returns the kind of the objects whose first word is word; ok is false if
// that refers to no map.
func (w *pageWalker) kindOf(word uint64) (index int32, ok bool) {
	if word&3 != 1 {
		return 0, false
	}
	if index, ok = w.known[word]; ok {
		return index, index >= 0
	}
	if w.at.page(word) == nil {
		return 0, false
	}
	m, err := w.heap.MapAt(word - 1)
	if err != nil {
		if len(w.known)-len(w.kinds) < maxStrange {
			w.known[word] = -1
		}
		return 0, false
	}
	k := objectKind{weak: weaknessOf(w.heap, m)}
	k.form, k.sized = w.heap.Form(m)
	k.free = m.Kind == "FreeSpace" || m.Kind == "Filler"
	index = int32(len(w.kinds))
	w.known[word] = index
	w.kinds = append(w.kinds, k)
	return index, true
}

// sizeOf returns the size in bytes of the object that begins with data; 0 if there
// is no such object.
func (w *pageWalker) sizeOf(p *pageObjects, data []byte, index int32) int {
	k := &w.kinds[index]
	size := 0
	if k.sized {
		size = k.form.Size(data)
	} else {
		w.Doubts.Guessed++
		size = wordSize
		for size+wordSize <= len(data) {
			if _, ok := w.kindOf(wordOf(data, size)); ok {
				break
			}
			size += wordSize
		}
	}
	room := uint64(len(data))
	if p.Large() {
		room = p.End - p.Start
	}
	if size%wordSize != 0 || uint64(size) > room {
		return 0
	}
	return size
}
