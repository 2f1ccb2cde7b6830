package heap

import (
	"context"
	"math/bits"
	"sort"

	"ustack/symbolize/v8"
)

const (
	wordSize   = 8
	maxObjects = 1 << 31 // in a core: an ID is 32 bits
	maxStrange = 1 << 16 // words cached as not being maps
	recentMaps = 1 << 10 // words whose kind is found fastest
	usualSize  = 64      // bytes of an object, for an estimate of their number
	maxUsual   = 1 << 24 // that estimate: pages may claim any amount
)

// An ID is an object's number in Objects: objects are numbered by address, from 0.
type ID uint32

// Objects are all objects in a process's heaps, live or not. It is not safe for
// concurrent use.
type Objects struct {
	memory Memory
	heap   *v8.Heap
	mapped []Page // all of V8's, including those whose objects have moved away
	others []Page // of isolates whose objects are not asked for
	pages  []pageObjects
	at     pageTable
	maps   pageTable // if not empty, the pages in which maps may be; otherwise those of at
	kinds  kindList
	known  mapIndex // of kinds
	recent [recentMaps]struct {
		word  uint64
		index int32
	}
	kind  []uint32 // by ID: index of kinds
	words []uint32 // by ID: size

	moving   bool                // a collection was moving objects: see collection.go
	anchors  map[uint64][]uint64 // sorted addresses where objects are known to begin, by their page's address
	lostMaps map[uint64]uint64   // words that referred to maps, by the address of the object without its map

	// Doubts say what could not be interpreted in the heaps.
	Doubts Doubts
}

// Heap reads the objects.
func (o *Objects) Heap() *v8.Heap { return o.heap }

// Doubts count by cause what a walk of the heaps could not interpret.
type Doubts struct {
	Unreadable  uint64 `json:"unreadable"`  // bytes of pages that the core does not have
	Lost        uint64 `json:"lost"`        // bytes of pages in which no object begins where one should
	LeftOver    uint64 `json:"left_over"`   // bytes of young pages that hold only remains of what the last collection moved away
	Overlong    int    `json:"overlong"`    // objects that would extend beyond the end of their page
	Overlapping int    `json:"overlapping"` // apparent objects that extend into one to which a live object refers
	Dangling    int    `json:"dangling"`    // addresses to which live objects refer and where no object was found
	Guessed     int    `json:"guessed"`     // objects that end where the next begins: their size is not known
	Collecting  bool   `json:"collecting"`  // a collection was moving objects
	Loose       bool   `json:"loose"`       // not all roots were identified, so memory around them counts too

	Interrupted bool `json:"interrupted,omitempty"` // not all objects were counted
	Unmarked    bool `json:"unmarked,omitempty"`    // which objects are live is not known: none counts as live
}

// An objectKind is what objects of the same map have in common.
type objectKind struct {
	form  v8.Form
	sized bool // the form gives their size
	free  bool // not objects, but free space
	weak  *weakness
}

// A kindList has the kinds of objects by index. It grows without moving them: there may be a million.
type kindList struct {
	blocks [][]objectKind
	count  int
}

const kindsInBlock = 1 << 12

func (l *kindList) at(index uint32) *objectKind {
	return &l.blocks[index/kindsInBlock][index%kindsInBlock]
}

func (l *kindList) add(k objectKind) (index int32) {
	if l.count%kindsInBlock == 0 {
		l.blocks = append(l.blocks, make([]objectKind, kindsInBlock))
	}
	l.count++
	*l.at(uint32(l.count - 1)) = k
	return int32(l.count - 1)
}

// A pageObjects is a page and where in it objects begin.
type pageObjects struct {
	Page
	first  ID       // of the page's first object
	count  uint32   // of its objects
	starts []uint64 // a bit for each word of the page, including its header's
	ranks  []uint32 // number of objects before each element of starts
}

// Walk finds all objects in the pages that some selects: those of an isolate, and those that
// it shares; nil selects all. Once ctx is done it returns its error, with the objects found
// until then.
func Walk(ctx context.Context, m Memory, h *v8.Heap, some func(Page) bool) (*Objects, error) {
	o := &Objects{memory: m, heap: h}
	h.ShareMaps(o.mapAt)
	for _, p := range findPages(m, &h.Binary().Release.Pages) {
		if some == nil || some(p) {
			o.mapped = append(o.mapped, p)
		} else {
			o.others = append(o.others, p)
		}
	}
	return o, o.walk(ctx)
}

// HeapsOf returns a function that returns the Heap that objects are in, 0 if isolates share
// it. The function is fastest for objects in order.
func (o *Objects) HeapsOf() func(ID) uint64 {
	var last *pageObjects
	return func(id ID) uint64 {
		if last == nil || id < last.first || id >= last.first+ID(last.count) {
			last = o.pageOf(id)
		}
		if last.Shared() {
			return 0
		}
		return last.Heap
	}
}

// walk finds all objects from scratch. If a collection was moving objects, those that it
// had not moved yet count.
func (o *Objects) walk(ctx context.Context) error {
	o.pages = nil
	o.Doubts = Doubts{Collecting: o.moving}
	size := uint64(0)
	for _, p := range o.mapped {
		if p.freed {
			continue
		}
		o.pages = append(o.pages, pageObjects{Page: p})
		if !p.Large() {
			size += p.End - p.Start
		}
	}
	estimate := min(size/usualSize, maxUsual)
	o.kind, o.words = make([]uint32, 0, estimate), make([]uint32, 0, estimate)
	o.at.fill(o.pages)
	w := &pageWalker{Objects: o}
	for i := range o.pages {
		if err := ctx.Err(); err != nil {
			o.pages = o.pages[:i]
			o.at.fill(o.pages)
			o.Doubts.Interrupted = true
			return err
		}
		if err := w.page(&o.pages[i]); err != nil {
			return err
		}
	}
	return nil
}

// Len returns the number of objects.
func (o *Objects) Len() int { return len(o.kind) }

// Pages returns the pages that hold objects, by address.
func (o *Objects) Pages() []Page {
	var pages []Page
	for _, p := range o.pages {
		if !p.from || o.moving {
			pages = append(pages, p.Page)
		}
	}
	return pages
}

// Find returns the object that begins at an address, or that a collection has moved from
// there.
func (o *Objects) Find(address uint64) (ID, bool) {
	p := o.at.page(address)
	if p == nil {
		return 0, false
	}
	id, ok := p.find(address)
	if !ok && o.moving {
		return o.findMoved(address)
	}
	return id, ok
}

// Around returns the object that contains an address.
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

// Object returns the object with an ID below Len.
func (o *Objects) Object(id ID) v8.Object {
	return v8.Object{Address: o.Address(id), Map: o.Map(id)}
}

// Map returns the object's map.
func (o *Objects) Map(id ID) *v8.Map { return o.kinds.at(o.kind[id]).form.Map }

// Maps returns the number of maps that objects have, and those of free space.
func (o *Objects) Maps() int { return o.kinds.count }

// MapIndex returns the number of the object's map, below Maps.
func (o *Objects) MapIndex(id ID) int { return int(o.kind[id]) }

// Size returns the object's size in the heap, in bytes.
func (o *Objects) Size(id ID) uint64 { return uint64(o.words[id]) * wordSize }

// Address returns the object's address.
func (o *Objects) Address(id ID) uint64 {
	p := o.pageOf(id)
	return p.address(uint32(id - p.first))
}

// Page returns the page that contains the object.
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

// address returns the address of the page's nth object.
func (p *pageObjects) address(n uint32) uint64 {
	i := sort.Search(len(p.ranks), func(i int) bool { return p.ranks[i] > n }) - 1
	block := p.starts[i]
	for range n - p.ranks[i] {
		block &= block - 1
	}
	return p.Address + uint64(i*64+bits.TrailingZeros64(block))*wordSize
}

// each yields the page's objects and their addresses, in order.
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
	*t = pageTable{pages: make(map[uint64]*pageObjects, len(pages))}
	for i := range pages {
		t.pages[pages[i].Address/pageAlign] = &pages[i]
	}
}

// page returns the page in which an object at an address would begin; nil if there is none.
func (t *pageTable) page(address uint64) *pageObjects {
	number := address / pageAlign
	c := &t.cache[number%uint64(len(t.cache))]
	if c.number != number {
		c.number, c.page = number, t.pages[number]
	}
	return c.page
}
