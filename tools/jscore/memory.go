package jscore

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"ustack/symbolize/malloc"
	"ustack/symbolize/space"
	"ustack/symbolize/v8/heap"
)

// A Memory says what a process's resident memory is used for.
type Memory struct {
	Resident uint64          `json:"resident"`          // bytes; the sum of the parts
	Swapped  uint64          `json:"swapped,omitempty"` // bytes that were swapped out, which no part has
	Exact    bool            `json:"exact"`             // false: the core does not say which pages were in memory, and Resident is what it has
	Parts    []MemoryPart    `json:"parts"`             // largest first, with the unknown last
	Isolates []IsolateMemory `json:"isolates"`          // largest first
	Arenas   []ArenaMemory   `json:"arenas"`            // of malloc, largest first
	Buffers  []OutsideMemory `json:"array_buffers"`     // by the class of what a program has of them, largest first
	Strings  OutsideMemory   `json:"external_strings"`  //
	Unread   string          `json:"unread,omitempty"`  // why malloc's part is not known
	Threads  int             `json:"threads"`           //
	Sizes    []SizeClass     `json:"malloc_sizes"`      // blocks in use by size, those with most bytes first
	Verdict  Verdict         `json:"verdict"`           //
	Doubts   *heap.Doubts    `json:"doubts,omitempty"`  // about V8's heap

	ledger *ledger
}

// A MemoryPart is what a part of the resident memory is used for.
type MemoryPart struct {
	Name  string       `json:"name"`
	Bytes uint64       `json:"bytes"`
	Note  string       `json:"note,omitempty"`
	Parts []MemoryPart `json:"parts,omitempty"` // of it; their sum is Bytes
}

// Names of the parts that verdicts are about.
const (
	partHeap      = "V8 heap"
	partBuffers   = "array buffers"
	partStrings   = "external strings"
	partCode      = "code"
	partSnapshots = "snapshots"
	partMalloc    = "malloc"
	partStacks    = "thread stacks"
	partLibraries = "libraries"
	partFiles     = "page cache"
	partUnknown   = "unknown"
)

// An IsolateMemory is the memory of V8's heap of one isolate.
type IsolateMemory struct {
	Heap    Address `json:"heap"`           // identifies it in the headers of its pages; 0: shared by all
	Main    bool    `json:"main,omitempty"` // the main thread's
	Bytes   uint64  `json:"bytes"`
	Live    uint64  `json:"live"`
	Garbage uint64  `json:"garbage"`
	Free    uint64  `json:"free"`
}

// An ArenaMemory is the memory of one of malloc's arenas.
type ArenaMemory struct {
	Address  Address `json:"address"`
	Main     bool    `json:"main,omitempty"`
	System   uint64  `json:"system"`   // bytes that it has from the kernel, by its own account
	InUse    uint64  `json:"in_use"`   // bytes in memory of blocks that the program has
	Free     uint64  `json:"free"`     // bytes in memory of free blocks
	Top      uint64  `json:"top"`      // of these, at its end
	Blocks   int     `json:"blocks"`   // in use
	Released uint64  `json:"released"` // bytes of free blocks that are not in memory
}

// An OutsideMemory is memory that objects of one class have outside V8's heap.
type OutsideMemory struct {
	Class   string  `json:"class,omitempty"`
	Count   int     `json:"count"`
	Bytes   uint64  `json:"bytes"`             // in memory
	Garbage uint64  `json:"garbage,omitempty"` // of these, bytes of dead objects
	Address Address `json:"address"`           // tagged, of the largest object
	largest uint64
}

// A SizeClass is the blocks of one size, with malloc's own word for each.
type SizeClass struct {
	Size   uint64 `json:"size"`
	Blocks int    `json:"blocks"`
	Bytes  uint64 `json:"bytes"`
}

// A ledger adds up what resident memory is used for.
type ledger struct {
	dump     *Dump
	graph    *Graph // nil if V8 is not understood
	resident *residency
	malloc   *malloc.Heap // nil if it cannot be read
	held     []holding
	outside  []outsideRange // by address, not overlapping
	memory   *Memory
	snapshot uint64 // bytes of libraries' files
}

// Memory says what the process's resident memory is used for. graph is nil if V8's heap is
// not understood.
func (d *Dump) Memory(ctx context.Context, graph *Graph) (*Memory, error) {
	m, err := d.measure(ctx, graph)
	if err != nil {
		return nil, err
	}
	m.judge(ctx)
	return m, ctx.Err()
}

// measure is Memory without a verdict.
func (d *Dump) measure(ctx context.Context, graph *Graph) (*Memory, error) {
	l := &ledger{dump: d, graph: graph, resident: residentOf(d.core), memory: &Memory{Parts: []MemoryPart{}}}
	l.memory.ledger = l
	l.memory.Resident, l.memory.Swapped, l.memory.Exact = l.resident.total, l.resident.swapped, l.resident.exact
	l.memory.Threads = len(d.Threads())
	l.held = d.pageHoldings()
	if err := l.findMalloc(ctx); err != nil {
		return nil, err
	}
	l.holdStacks()
	l.holdFiles()
	l.held = disjoint(l.held)
	if err := l.findOutside(ctx); err != nil {
		return nil, err
	}
	for _, add := range []func(context.Context) error{
		l.addPages, l.addMalloc, l.addHeld, l.addGaps,
	} {
		if err := add(ctx); err != nil {
			return nil, err
		}
	}
	l.addOutside()
	l.finish()
	return l.memory, ctx.Err()
}

// findMalloc finds what malloc manages.
func (l *ledger) findMalloc(ctx context.Context) (err error) {
	if l.malloc, l.memory.Unread, err = l.dump.mallocHeap(ctx); err != nil || l.malloc == nil {
		return err
	}
	for _, a := range l.malloc.Areas {
		l.held = append(l.held, holding{start: a.Start, end: a.End, by: byMalloc, rank: 2})
	}
	for _, c := range l.malloc.Mapped {
		l.held = append(l.held, holding{start: c.Start, end: c.Start + c.Size, by: byMalloc, rank: 2})
	}
	return nil
}

// otherMallocs are libraries that replace glibc's malloc, by a part of the names of their files
// or by a function of theirs.
var otherMallocs = []struct{ name, file, function string }{
	{"jemalloc", "libjemalloc", "malloc_stats_print"},
	{"mimalloc", "libmimalloc", "mi_malloc"},
	{"tcmalloc", "libtcmalloc", "tc_malloc"},
	{"musl's malloc", "ld-musl", ""},
}

// otherMalloc says which other malloc the process uses; "" if none is known.
func (d *Dump) otherMalloc() string {
	for _, m := range d.Modules() {
		for _, other := range otherMallocs {
			has := strings.Contains(m.Path, other.file)
			if m.ELF != nil && other.function != "" && !has {
				_, has = m.ELF.Symbol(other.function)
			}
			if has {
				return "the process uses " + other.name + ", which is not understood: its memory is in \"unknown\""
			}
		}
	}
	return ""
}

// holdStacks notes the threads' stacks.
func (l *ledger) holdStacks() {
	for _, t := range l.dump.Threads() {
		sp, tp := t.Registers.SP, t.Registers.ThreadPointer
		r, ok := l.dump.Region(sp)
		if !ok || sp == 0 || !r.Write || r.File != "" && r.File != "[stack]" {
			continue
		}
		end := l.dump.StackEnd(r)
		if tp > sp && tp < end { // the C library's data of the thread is at the stack's end
			const threadData = 0xa00 // bytes from there on
			end = min(end, (tp+threadData+pageMask)&^pageMask)
		}
		start := l.dump.stackStart(r)
		l.held = append(l.held, holding{start: start, end: end, by: byStack, rank: 3})
	}
}

const pageMask = 1<<12 - 1

// stackStart returns the start of the contiguous writable memory that ends with r: a stack may
// be in several regions if the core leaves out pages.
func (d *Dump) stackStart(r space.Region) uint64 {
	start := r.Start
	regions := d.Regions()
	for i := slices.Index(regions, r) - 1; i >= 0; i-- {
		before := regions[i]
		if before.End != start || before.File != "" || before.Write != r.Write {
			break
		}
		start = before.Start
	}
	return start
}

// holdFiles notes what maps files, and the data of libraries that follows their files.
func (l *ledger) holdFiles() {
	libraries := make(map[string]bool)
	for _, m := range l.dump.Modules() {
		libraries[m.Path] = true
	}
	regions := l.dump.Regions()
	for _, m := range l.dump.core.Mappings() {
		h := holding{start: m.Start, end: m.End, by: byFile, name: m.Path, rank: 4}
		if libraries[m.Path] {
			h.by = byLibrary
		}
		l.held = append(l.held, h)
		i, found := slices.BinarySearchFunc(regions, m.End, func(r space.Region, at uint64) int { return cmp.Compare(r.Start, at) })
		if found && h.by == byLibrary && regions[i].Write && regions[i].File == "" {
			const zeros = 1 << 22 // bytes of a library's data that are not in its file, at most
			l.held = append(l.held, holding{start: m.End, end: min(regions[i].End, m.End+zeros), by: byLibrary, name: m.Path, rank: 5})
		}
	}
	if r, ok := l.dump.vdso(); ok {
		l.held = append(l.held, holding{start: r.Start, end: r.End, by: byKernel, name: space.VDSO, rank: 4})
	}
}

// vdso returns the region of the code that the kernel gives each process.
func (d *Dump) vdso() (space.Region, bool) {
	const auxVDSO = 33
	for _, a := range d.core.Auxv() {
		if a.Type == auxVDSO {
			return d.Region(a.Value)
		}
	}
	return space.Region{}, false
}
