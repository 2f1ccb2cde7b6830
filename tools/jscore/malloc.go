package jscore

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"ustack/symbolize/malloc"
	"ustack/symbolize/space"
	"ustack/symbolize/v8"
	"ustack/symbolize/v8/heap"
)

// MallocOptions say which blocks to report.
type MallocOptions struct {
	Size  uint64 // list the blocks of this size only, in use; all sizes if 0
	Limit int    // sizes or blocks that are reported; 20 sizes, or all blocks, if 0
}

const defaultSizes = 20

// A Malloc is what malloc manages.
type Malloc struct {
	Arenas []ArenaMemory `json:"arenas"` // in malloc's order, the main one first
	Mapped SizeTally     `json:"mapped"` // blocks in mappings of their own
	Uses   []UseTally    `json:"uses"`
	Sizes  []SizeTally   `json:"sizes"`          // by the bytes in use, most first
	More   int           `json:"more,omitempty"` // sizes that are not reported
}

// A UseTally counts the chunks of one use.
type UseTally struct {
	Use    string `json:"use"`
	Blocks int    `json:"blocks"`
	Bytes  uint64 `json:"bytes"`
}

// A SizeTally counts the blocks of one size, with malloc's own word for each.
type SizeTally struct {
	Size      uint64  `json:"size,omitempty"`
	InUse     int     `json:"in_use"`
	Bytes     uint64  `json:"bytes"`
	Free      int     `json:"free,omitempty"`
	FreeBytes uint64  `json:"free_bytes,omitempty"`
	Address   Address `json:"address,omitempty"` // of the program's part of one in use; 0 if there is none
}

// errOtherMalloc is why there is nothing to report.
var errOtherMalloc = errors.New("read malloc's memory")

// mallocHeap finds what malloc manages in memory that is not V8's. unread says why it is not all,
// or "".
func (d *Dump) mallocHeap(ctx context.Context) (h *malloc.Heap, unread string, err error) {
	var others []space.Range
	for _, held := range d.pageHoldings() {
		others = append(others, space.Range{Start: held.start, End: held.end})
	}
	other := d.otherMalloc()
	h, err = malloc.Find(ctx, d, others)
	if errors.Is(err, malloc.ErrNoArena) {
		return nil, cmp.Or(other, err.Error()), nil
	}
	return h, other, err
}

// pageHoldings returns V8's pages, those that it has released included.
func (d *Dump) pageHoldings() []holding {
	if d.v8.Binary == nil {
		return nil
	}
	header := &d.v8.Binary.Release.Pages
	var held []holding
	for _, p := range heap.FindPages(d, header) {
		held = append(held, holding{start: p.Address, end: p.Address + p.Size, by: byV8})
	}
	for _, p := range heap.ReleasedPages(d, header) {
		held = append(held, holding{start: p.Address, end: p.Address + p.Size, by: byReleased, rank: 1})
	}
	return disjoint(held)
}

// knownMalloc is mallocHeap for commands that need it.
func (d *Dump) knownMalloc(ctx context.Context) (*malloc.Heap, error) {
	h, unread, err := d.mallocHeap(ctx)
	if err == nil && unread != "" {
		err = fmt.Errorf("%w: %s", errOtherMalloc, unread)
	}
	return h, err
}

// Malloc reports malloc's arenas, and its blocks by size.
func (d *Dump) Malloc(ctx context.Context, o MallocOptions) (*Malloc, error) {
	h, err := d.knownMalloc(ctx)
	if err != nil {
		return nil, err
	}
	resident := residentOf(d.core)
	m := &Malloc{}
	for _, a := range h.Arenas {
		m.Arenas = append(m.Arenas, ArenaMemory{Address: Address(a.Address), Main: a.Main, System: a.System})
	}
	sizes := make(map[uint64]*SizeTally)
	uses := make([]UseTally, malloc.Top+1)
	err = h.Each(ctx, func(c malloc.Chunk) {
		uses[c.Use].Blocks++
		uses[c.Use].Bytes += c.Size
		if c.Arena >= 0 {
			m.Arenas[c.Arena].add(c, resident.count(c.Start, c.Start+c.Size))
		}
		if c.Use == malloc.Mapped {
			m.Mapped.add(c)
		}
		if sizes[c.Size] == nil {
			sizes[c.Size] = &SizeTally{Size: c.Size}
		}
		sizes[c.Size].add(c)
	})
	if err != nil {
		return nil, err
	}
	for use, tally := range uses {
		if tally.Use = malloc.Use(use).String(); tally.Blocks > 0 {
			m.Uses = append(m.Uses, tally)
		}
	}
	m.Sizes = []SizeTally{}
	for _, s := range sizes {
		m.Sizes = append(m.Sizes, *s)
	}
	slices.SortFunc(m.Sizes, func(a, b SizeTally) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(b.FreeBytes, a.FreeBytes), cmp.Compare(a.Size, b.Size))
	})
	limit := min(cmp.Or(o.Limit, defaultSizes), len(m.Sizes))
	m.More = len(m.Sizes) - limit
	m.Sizes = m.Sizes[:limit]
	return m, nil
}

// add adds a chunk, of which resident bytes are in memory.
func (a *ArenaMemory) add(c malloc.Chunk, resident uint64) {
	if c.Taken() {
		a.Blocks++
		a.InUse += resident
		return
	}
	a.Free += resident
	a.Released += c.Size - resident
	if c.Use == malloc.Top {
		a.Top += resident
	}
}

// add adds a chunk of the size.
func (s *SizeTally) add(c malloc.Chunk) {
	if !c.Taken() {
		s.Free++
		s.FreeBytes += c.Size
		return
	}
	s.InUse++
	s.Bytes += c.Size
	if s.Address == 0 {
		start, _ := c.Block()
		s.Address = Address(start)
	}
}

// WriteText writes a table of the arenas, and one of the sizes.
func (m *Malloc) WriteText(w io.Writer) error {
	out := bufio.NewWriter(w)
	fmt.Fprintf(out, "%16s %12s %12s %12s %12s %9s\n", "ARENA", "SYSTEM", "IN USE", "FREE", "RELEASED", "#BLOCKS")
	for _, a := range m.Arenas {
		note := ""
		if a.Main {
			note = " main"
		}
		fmt.Fprintf(out, "%16s %12d %12d %12d %12d %9d%s\n", a.Address, a.System, a.InUse, a.Free, a.Released, a.Blocks, note)
	}
	if m.Mapped.InUse > 0 {
		fmt.Fprintf(out, "%16s %12d %12s %12s %12s %9d\n", "mapped alone", m.Mapped.Bytes, "", "", "", m.Mapped.InUse)
	}
	fmt.Fprintf(out, "\n%12s %9s %s\n", "BYTES", "#BLOCKS", "USE")
	for _, u := range m.Uses {
		fmt.Fprintf(out, "%12d %9d %s\n", u.Bytes, u.Blocks, u.Use)
	}
	fmt.Fprintf(out, "\n%12s %12s %9s %12s %9s %16s\n", "SIZE", "IN USE", "#BLOCKS", "FREE", "#FREE", "BLOCK")
	for _, s := range m.Sizes {
		fmt.Fprintf(out, "%12d %12d %9d %12d %9d %16s\n", s.Size, s.Bytes, s.InUse, s.FreeBytes, s.Free, s.Address)
	}
	if m.More > 0 {
		fmt.Fprintf(out, "and %d more sizes\n", m.More)
	}
	return out.Flush()
}

// Addresses returns the address of one block of each size.
func (m *Malloc) Addresses() []v8.Value {
	var addresses []v8.Value
	for _, s := range m.Sizes {
		if s.Address != 0 {
			addresses = append(addresses, v8.Value(s.Address))
		}
	}
	return addresses
}

// Blocks are addresses of blocks.
type Blocks struct {
	Size   uint64    `json:"size"`
	Blocks []Address `json:"blocks"`
}

// Blocks lists the blocks in use of a size, which includes malloc's own word for each.
func (d *Dump) Blocks(ctx context.Context, o MallocOptions) (*Blocks, error) {
	h, err := d.knownMalloc(ctx)
	if err != nil {
		return nil, err
	}
	b := &Blocks{Size: o.Size, Blocks: []Address{}}
	err = h.Each(ctx, func(c malloc.Chunk) {
		if c.Taken() && c.Size == o.Size && (o.Limit == 0 || len(b.Blocks) < o.Limit) {
			start, _ := c.Block()
			b.Blocks = append(b.Blocks, Address(start))
		}
	})
	return b, err
}

// WriteText writes an address per line.
func (b *Blocks) WriteText(w io.Writer) error {
	out := bufio.NewWriter(w)
	for _, address := range b.Blocks {
		fmt.Fprintln(out, address)
	}
	return out.Flush()
}

// Addresses returns the blocks' addresses.
func (b *Blocks) Addresses() []v8.Value {
	addresses := make([]v8.Value, len(b.Blocks))
	for i, address := range b.Blocks {
		addresses[i] = v8.Value(address)
	}
	return addresses
}
