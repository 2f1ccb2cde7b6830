// Package heap finds all objects in V8's heaps in the memory of a process that does not
// run, the references between them, which of them are live, and what keeps them alive.
//
// Walk goes from page to page and from object to object; NewGraph follows the references
// from the roots: the isolates, handles, microtasks and V8's frames on the stacks. Memory
// may be damaged, or copied in the middle of a garbage collection: what could not be
// interpreted is counted in Doubts.
package heap

import (
	"cmp"
	"encoding/binary"
	"iter"
	"slices"
	"strings"

	"ustack/symbolize/space"
	"ustack/symbolize/v8"
	"ustack/symbolize/v8/release"
)

// Memory is the memory of a stopped process.
type Memory interface {
	v8.Memory
	// Regions returns the process's mappings, by address.
	Regions() []space.Region
	// NextData returns the first address, from address on, at which the memory may hold
	// something other than zeros; ok is false if only zeros follow.
	NextData(address uint64) (next uint64, ok bool)
}

// A Page is a piece of memory in which V8 keeps objects: many, or one large one.
type Page struct {
	Address uint64 `json:"address"` // of its header
	Start   uint64 `json:"start"`   // of the objects
	End     uint64 `json:"end"`     // up to, not including
	Size    uint64 `json:"size"`    // in bytes, with the header
	Heap    uint64 `json:"heap"`    // of an isolate; 0: shared by all isolates
	Space   string `json:"space"`   // "new", "old", "code", "large" …
	freed   bool   // V8 has released it, and only its memory is still there
	from    bool   // in the half of the new space from which collections move objects: empty between collections
}

const (
	pageAlign   = 1 << 18 // where pages start
	maxPageHead = 1 << 15 // bytes before the first object; for code, they follow a guard page
	maxPage     = 1 << 31 // bytes; an array of 2^27 words, V8's longest, takes half of it
	minPage     = 1 << 12 // bytes; sizes are multiples of it
	maxPages    = 1 << 20 // 256 GiB of pages
	fromPage    = 1 << 3  // flag of a page of the new space that objects were moved from
)

// ownerSpace is the offset of a space's number in the object that represents the space.
const ownerSpace = 16

// A pageFinder reads page headers.
type pageFinder struct {
	memory     v8.Memory
	header     *release.Pages
	head, data []byte // as read
}

func newPageFinder(m v8.Memory, header *release.Pages) *pageFinder {
	return &pageFinder{m, header, make([]byte, header.Length()), make([]byte, header.Length())}
}

// FindPages returns the pages that hold V8's objects, by address, for a V8 whose pages
// have such headers.
func FindPages(m Memory, header *release.Pages) []Page {
	return slices.DeleteFunc(findPages(m, header), func(p Page) bool { return p.freed })
}

// findPages returns all pages, including those that V8 has released.
func findPages(m Memory, header *release.Pages) []Page {
	if p, ok := m.(space.Prefetcher); ok { // all at the same time: one after another, those of a large core take seconds
		for at := range candidates(m) {
			p.Prefetch(at)
		}
	}
	f := newPageFinder(m, header)
	var pages []Page
	end := uint64(0)
	for at := range candidates(m) {
		if at < end {
			continue
		}
		if len(pages) >= maxPages {
			break
		}
		if p, ok := f.read(at); ok {
			pages = append(pages, p)
			end = at + p.Size
		}
	}
	slices.SortFunc(pages, func(a, b Page) int { return cmp.Compare(a.Address, b.Address) })
	return pages
}

// candidates yields the addresses at which pages may begin.
func candidates(m Memory) iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		for _, r := range m.Regions() {
			if r.File != "" {
				continue
			}
			for at := alignUp(r.Start, pageAlign); at < r.End && at >= r.Start; at += pageAlign {
				next, ok := m.NextData(at)
				if !ok {
					break
				}
				if at = max(at, next&^(pageAlign-1)); at >= r.End {
					break
				}
				if !yield(at) {
					return
				}
			}
		}
	}
}

func alignUp(address, to uint64) uint64 { return (address + to - 1) &^ (to - 1) }

// read reads the header at an address, and reports whether it can be one.
func (f *pageFinder) read(at uint64) (Page, bool) {
	head := f.head
	if _, err := f.memory.ReadAt(head, at); err != nil {
		return Page{}, false
	}
	flags, data := wordOf(head, f.header.Flags), head
	if f.header.MetadataApart {
		metadata := wordOf(head, wordSize)
		if metadata == 0 || metadata%8 != 0 {
			return Page{}, false
		}
		data = f.data
		if _, err := f.memory.ReadAt(data, metadata); err != nil {
			return Page{}, false
		}
	}
	p := Page{
		Address: at, Size: wordOf(data, f.header.Size), Heap: wordOf(data, f.header.Heap),
		Start: wordOf(data, f.header.Start), End: wordOf(data, f.header.End),
	}
	owner := wordOf(data, f.header.Owner)
	switch {
	case p.Size < minPage, p.Size > maxPage, p.Size%minPage != 0:
		return Page{}, false
	case p.Start <= at, p.Start > at+maxPageHead, p.Start%8 != 0:
		return Page{}, false
	case p.End <= p.Start, p.End > at+p.Size, p.End%8 != 0, p.Heap%8 != 0, owner%8 != 0:
		return Page{}, false
	}
	p.Space = f.space(owner)
	p.from = p.Space == "new" && flags&fromPage != 0
	// From V8 10.2 on, pages that isolates share have neither an owner nor a heap.
	p.freed = owner == 0 && (p.Heap != 0 || p.Size > pageAlign)
	return p, p.Space != "" && (p.freed || p.Large() || p.Size <= pageAlign)
}

// space returns the name of the space that the object at an address represents. Pages
// that all isolates share have no such object. It is "" if there is no such space.
func (f *pageFinder) space(owner uint64) string {
	if owner == 0 {
		return f.header.Spaces[0]
	}
	var number [4]byte
	if _, err := f.memory.ReadAt(number[:], owner+ownerSpace); err != nil {
		return ""
	}
	n := binary.LittleEndian.Uint32(number[:])
	if n >= uint32(len(f.header.Spaces)) {
		return ""
	}
	return f.header.Spaces[n]
}

// Shared reports whether all isolates share the page.
func (p Page) Shared() bool { return p.Heap == 0 || p.Space == "readonly" }

// wordOf returns the word at an offset in b.
func wordOf(b []byte, offset int) uint64 { return binary.LittleEndian.Uint64(b[offset:]) }

// Large reports whether the page holds only one object.
func (p Page) Large() bool { return strings.HasSuffix(p.Space, "large") }
