package jscore

import (
	"bufio"
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"ustack/symbolize/elfsym"
	"ustack/symbolize/malloc"
	"ustack/symbolize/space"
	"ustack/symbolize/v8"
)

// LostBlocks are blocks of malloc that the program has and to which nothing refers.
type LostBlocks struct {
	Groups []LostGroup `json:"groups"` // those with most bytes first
	Blocks int         `json:"blocks"`
	Bytes  uint64      `json:"bytes"`
	InUse  uint64      `json:"in_use"` // bytes of all blocks that the program has
}

// A LostGroup is blocks of one size that begin alike.
type LostGroup struct {
	Size    uint64    `json:"size"` // with malloc's own word
	Blocks  int       `json:"blocks"`
	Bytes   uint64    `json:"bytes"`
	Content string    `json:"content"` // what they begin with
	List    []Address `json:"addresses"`
}

// maxLostListed bounds the addresses of blocks that a group lists.
const maxLostListed = 1 << 10

// FindLeaks finds the blocks to which nothing refers, in data, on a stack, in a register, in
// V8's heaps or in a block that is referred to. A block of an allocator of the program's own,
// and one whose address is only stored in another form, seem lost.
func (d *Dump) FindLeaks(ctx context.Context) (*LostBlocks, error) {
	h, err := d.knownMalloc(ctx)
	if err != nil {
		return nil, err
	}
	return d.findLeaks(ctx, h)
}

func (d *Dump) findLeaks(ctx context.Context, h *malloc.Heap) (*LostBlocks, error) {
	lost, err := h.Unreferenced(ctx, d.nativeRoots())
	if err != nil {
		return nil, err
	}
	l := &LostBlocks{Groups: []LostGroup{}}
	type key struct {
		size    uint64
		content string
	}
	groups := make(map[key]*LostGroup)
	names := &contentNames{dump: d, vtables: make(map[*space.Module][]elfsym.Symbol), known: make(map[uint64]string)}
	for _, c := range lost {
		start, _ := c.Block()
		kind, example := names.of(start, c.Size)
		k := key{c.Size, kind}
		g := groups[k]
		if g == nil {
			g = &LostGroup{Size: c.Size, Content: kind + example}
			groups[k] = g
		}
		g.Blocks++
		g.Bytes += c.Size
		if len(g.List) < maxLostListed {
			g.List = append(g.List, Address(start))
		}
		l.Blocks++
		l.Bytes += c.Size
	}
	for _, g := range groups {
		l.Groups = append(l.Groups, *g)
	}
	slices.SortFunc(l.Groups, func(a, b LostGroup) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Size, b.Size), cmp.Compare(a.Content, b.Content))
	})
	err = h.Each(ctx, func(c malloc.Chunk) {
		if c.Taken() {
			l.InUse += c.Size
		}
	})
	return l, err
}

// Below a stack pointer are redZone bytes that a function may use, and then what earlier calls
// have left. Only part of that is sure to belong to the stack.
const (
	redZone   = 128
	leftBelow = 1 << 16 // bytes
)

// nativeRoots returns where references to malloc's blocks may be: in writable memory other than
// the unused parts of stacks, and in registers.
func (d *Dump) nativeRoots() malloc.Roots {
	var roots malloc.Roots
	var pointers []uint64
	for _, t := range d.Threads() {
		roots.Registers = append(roots.Registers, t.Registers.General[:]...)
		pointers = append(pointers, t.Registers.SP)
	}
	slices.Sort(pointers)
	for _, r := range d.Regions() {
		at := r.Start
		for _, sp := range pointers {
			if !r.Write || sp < r.Start+redZone || sp >= r.End {
				continue
			}
			if dead := max(sp-min(sp, leftBelow), r.Start); dead > at {
				roots.Ranges = append(roots.Ranges, space.Range{Start: at, End: dead})
			}
			at = (sp - redZone) &^ 7
		}
		if r.Write && at < r.End {
			roots.Ranges = append(roots.Ranges, space.Range{Start: at, End: r.End})
		}
	}
	return roots
}

// contentNames name what blocks begin with.
type contentNames struct {
	dump    *Dump
	vtables map[*space.Module][]elfsym.Symbol
	known   map[uint64]string // by word
}

// of returns what a block begins with: a C++ object's class, text, zeros or numbers; of text
// also the beginning.
func (n *contentNames) of(start, size uint64) (kind, example string) {
	const enough = 16
	head := make([]byte, min(enough, size-8))
	if _, err := n.dump.ReadAt(head, start); err != nil {
		return "not in the core", ""
	}
	word := binary.LittleEndian.Uint64(head)
	name, ok := n.known[word]
	if !ok {
		name = n.pointer(word)
		n.known[word] = name
	}
	switch {
	case name != "":
		return name, ""
	case isText(head):
		return "text", ": " + strconv.Quote(strings.TrimRight(string(head), "\x00"))
	case strings.Trim(string(head), "\x00") == "":
		return "zeros", ""
	}
	if _, mapped := n.dump.Region(word); mapped {
		return "a pointer", ""
	}
	return "data", ""
}

// isText reports whether bytes are printable text, zeros at its end apart.
func isText(head []byte) bool {
	text := strings.TrimRight(string(head), "\x00")
	printable := strings.IndexFunc(text, func(r rune) bool { return r < ' ' || r > '~' }) < 0
	return len(text) >= 4 && printable
}

// pointer names a word that is an address in a file: a virtual table or a function.
func (n *contentNames) pointer(word uint64) string {
	part, ok := n.dump.Part(word)
	if !ok || part.Module.ELF == nil {
		return ""
	}
	m := part.Module
	tables, ok := n.vtables[m]
	if !ok {
		tables = slices.Collect(m.ELF.Symbols("_ZTV"))
		slices.SortFunc(tables, func(a, b elfsym.Symbol) int { return cmp.Compare(a.Address, b.Address) })
		n.vtables[m] = tables
	}
	at := word - m.Bias
	i, found := slices.BinarySearchFunc(tables, at, func(s elfsym.Symbol, at uint64) int { return cmp.Compare(s.Address, at) })
	if !found {
		i--
	}
	if i >= 0 && at-tables[i].Address < max(tables[i].Size, 1) {
		return strings.TrimPrefix(tables[i].Demangled(), "vtable for ")
	}
	if s, ok := m.ELF.Lookup(at); ok {
		return s.Demangled() + "()"
	}
	return fmt.Sprintf("%s+%#x", filepath.Base(m.Path), at)
}

// WriteText writes a table.
func (l *LostBlocks) WriteText(w io.Writer) error {
	out := bufio.NewWriter(w)
	fmt.Fprintf(out, "%12s %9s %9s %16s %s\n", "BYTES", "#BLOCKS", "SIZE", "BLOCK", "CONTENT")
	for _, g := range l.Groups {
		fmt.Fprintf(out, "%12d %9d %9d %16s %s\n", g.Bytes, g.Blocks, g.Size, g.List[0], g.Content)
	}
	fmt.Fprintf(out, "nothing refers to %d bytes in %d blocks, of %d bytes in use\n", l.Bytes, l.Blocks, l.InUse)
	return out.Flush()
}

// Addresses returns the addresses of the blocks of all groups, as far as they are listed.
func (l *LostBlocks) Addresses() []v8.Value {
	var addresses []v8.Value
	for _, g := range l.Groups {
		for _, address := range g.List {
			addresses = append(addresses, v8.Value(address))
		}
	}
	return addresses
}
