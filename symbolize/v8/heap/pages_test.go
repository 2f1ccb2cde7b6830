package heap

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"ustack/symbolize/space"
	"ustack/symbolize/v8"
	"ustack/symbolize/v8/release"
)

// madePages returns memory with an old page, a large one and half of an emptied new
// space, with headers as in V8 12, and what owns them.
func madePages() madeMemory {
	const first, heap, owners = 1 << 30, 0x9000, 0x8000
	m := madeMemory{first: make([]byte, 6*pageAlign), owners: make([]byte, 0x1000)}
	header := func(at, flags, size, space uint64) {
		owner := owners + space*0x40
		m.put(owner, 0, heap, space)
		m.put(at, flags, at, size, heap, at+0x1140, at+size)
		m.put(at+72, owner)
	}
	header(first, 4, pageAlign, 2)
	header(first+pageAlign, 0x84, 3*pageAlign, 7)
	header(first+2*pageAlign, 4, pageAlign, 2) // inside the large object
	header(first+4*pageAlign, 1|fromPage, pageAlign, 1)
	header(first+5*pageAlign, 4, pageAlign, 99) // not of any space
	return m
}

// pagesOf returns the headers of a V8's pages.
func pagesOf(t *testing.T, major, minor int) *release.Pages {
	t.Helper()
	r, err := release.For(release.Version{Major: major, Minor: minor})
	if err != nil {
		t.Fatal(err)
	}
	return &r.Pages
}

func TestPagesAreFoundByTheirHeaders(t *testing.T) {
	const first, heap = 1 << 30, 0x9000
	got := FindPages(madePages(), pagesOf(t, 12, 4))
	want := []Page{
		{Address: first, Start: first + 0x1140, End: first + pageAlign, Size: pageAlign, Heap: heap, Space: "old"},
		{Address: first + pageAlign, Start: first + pageAlign + 0x1140, End: first + 4*pageAlign, Size: 3 * pageAlign, Heap: heap, Space: "large"},
		{Address: first + 4*pageAlign, Start: first + 4*pageAlign + 0x1140, End: first + 5*pageAlign, Size: pageAlign, Heap: heap, Space: "new"},
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(Page{})); diff != "" {
		t.Errorf("pages (-want +got):\n%s", diff)
	}
	if !got[1].Large() || got[0].Large() || !got[2].from || got[0].from {
		t.Errorf("pages = %+v, want the second large and the third one that objects are moved from", got)
	}
}

func TestWhatIsNoPageIsNotTakenForOne(t *testing.T) {
	const first = 1 << 30
	for name, spoil := range map[string]func(m madeMemory){
		"size not of whole pages": func(m madeMemory) { m.put(first+16, pageAlign+8) },
		"size absurd":             func(m madeMemory) { m.put(first+16, 1<<60) },
		"objects before it":       func(m madeMemory) { m.put(first+32, first-8) },
		"objects far behind":      func(m madeMemory) { m.put(first+32, first+maxPageHead+8) },
		"objects end before them": func(m madeMemory) { m.put(first+40, first+8) },
		"objects end behind it":   func(m madeMemory) { m.put(first+40, first+pageAlign+8) },
		"objects not aligned":     func(m madeMemory) { m.put(first+32, first+0x1141) },
		"owner not there":         func(m madeMemory) { m.put(first+72, 1<<50) },
		"owner not aligned":       func(m madeMemory) { m.put(first+72, 0x8001) },
		"heap not aligned":        func(m madeMemory) { m.put(first+24, 0x9001) },
	} {
		m := madePages()
		spoil(m)
		pages := FindPages(m, pagesOf(t, 12, 4))
		if slices.ContainsFunc(pages, func(p Page) bool { return p.Address == first }) {
			t.Errorf("%s: a page is found there, want none", name)
		}
	}
}

func TestSpacesHaveTheNamesOfTheVersion(t *testing.T) {
	for _, test := range []struct {
		major, minor int
		number       uint32
		want         string
	}{
		{9, 4, 7, "new"},
		{10, 2, 1, "old"},
		{11, 3, 1, "new"},
		{12, 4, 5, "trusted"},
		{14, 6, 8, "large"},
		{14, 6, 13, ""},
	} {
		m := madeMemory{0x8000: make([]byte, 64)}
		m.put(0x8000, 0, 0, uint64(test.number))
		f := newPageFinder(m, pagesOf(t, test.major, test.minor))
		if got := f.space(0x8000); got != test.want {
			t.Errorf("space %d of V8 %d.%d = %q, want %q", test.number, test.major, test.minor, got, test.want)
		}
		if got := f.space(0); got != "readonly" {
			t.Errorf("space of no owner = %q, want readonly", got)
		}
	}
}

// putPage writes a page's header as a version of V8 does. What is not in the page itself
// is at metadata.
func (m madeMemory) putPage(row *release.Pages, p Page, owner, metadata uint64) {
	data := p.Address
	if row.MetadataApart {
		m.put(p.Address+wordSize, metadata)
		data = metadata
	}
	m.put(data+uint64(row.Size), p.Size)
	m.put(data+uint64(row.Heap), p.Heap)
	m.put(data+uint64(row.Start), p.Start)
	m.put(data+uint64(row.End), p.End)
	m.put(data+uint64(row.Owner), owner)
}

// TestFreedPagesHoldNoObjects makes a page of a large young object that V8 has released:
// it no longer has an owner, but its memory is there, and old objects refer to it.
func TestFreedPagesHoldNoObjects(t *testing.T) {
	const first, heap, owner, metadata, head = 1 << 30, 0x9000, 0x8000, 0x8400, 0x1140
	for _, version := range [][2]int{{9, 4}, {12, 4}, {14, 6}} {
		header := pagesOf(t, version[0], version[1])
		m := madeMemory{first: make([]byte, 6*pageAlign), owner: make([]byte, 0x1000)}
		m.put(owner, 0, heap, uint64(slices.Index(header.Spaces, "old")))
		old := Page{Address: first, Start: first + head, End: first + pageAlign, Size: pageAlign, Heap: heap}
		freed := Page{Address: first + pageAlign, Start: first + pageAlign + head, End: first + 4*pageAlign, Size: 3 * pageAlign, Heap: heap}
		inside := Page{Address: first + 2*pageAlign, Start: first + 2*pageAlign + head, End: first + 3*pageAlign, Size: pageAlign, Heap: heap}
		m.putPage(header, old, owner, metadata)
		m.putPage(header, freed, 0, metadata+0x80)
		m.putPage(header, inside, owner, metadata+0x100) // the large object's own words
		m.put(old.Start, freed.Start|1, freed.Start|1)
		m.put(freed.Start, old.Start|1, old.Start|1)

		found := FindPages(m, header)
		if len(found) != 1 || found[0].Address != first {
			t.Errorf("V8 %v: pages = %+v, want the old one", version, found)
		}
		o := &Objects{memory: m, heap: new(v8.Heap), mapped: findPages(m, header)}
		if err := o.walk(t.Context()); err != nil {
			t.Fatalf("V8 %v: walk: %v", version, err)
		}
		g, err := NewGraph(t.Context(), o, nil)
		if err != nil {
			t.Fatalf("V8 %v: NewGraph: %v", version, err)
		}
		if id, ok := g.Find(freed.Start); ok {
			t.Errorf("V8 %v: object %d is in the freed page, want none", version, id)
		}
		if p := g.pageAround(inside.Start); p == nil || p.Address != freed.Address {
			t.Errorf("V8 %v: page around the freed object's memory = %+v, want the freed one", version, p)
		}
		if g.Len() != 0 {
			t.Errorf("V8 %v: objects = %d, want none", version, g.Len())
		}
		if _, err := g.Dominated(t.Context()); err != nil {
			t.Errorf("V8 %v: Dominated: %v", version, err)
		}
	}
}

var _ space.Prefetcher = (*space.Space)(nil)

// prefetched is memory that notes which headers are prefetched, and which are read without that.
type prefetched struct {
	madeMemory
	ahead map[uint64]bool
	late  []uint64
}

func (m *prefetched) Prefetch(address uint64) { m.ahead[address] = true }

func (m *prefetched) ReadAt(p []byte, address uint64) (int, error) {
	if address%pageAlign == 0 && !m.ahead[address] {
		m.late = append(m.late, address)
	}
	return m.madeMemory.ReadAt(p, address)
}

func TestHeadersArePrefetched(t *testing.T) {
	m := &prefetched{madeMemory: madeMemory{1 << 30: make([]byte, 3*pageAlign), 1<<31 + 8: make([]byte, 2*pageAlign)}, ahead: make(map[uint64]bool)}
	FindPages(m, pagesOf(t, 12, 4))
	if want := 3 + 2; len(m.ahead) != want || len(m.late) > 0 {
		t.Errorf("headers prefetched = %#x, read without that = %#x, want %d and none", slices.Sorted(maps.Keys(m.ahead)), m.late, want)
	}
}
