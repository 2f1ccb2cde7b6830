package postmortem

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"ustack/symbolize/v8/release"
)

// madePages returns memory with an old page, a large one and half of an emptied new
// space, with headers as V8 12 has them, and what they own.
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
	header(first+2*pageAlign, 4, pageAlign, 2) // in the large object
	header(first+4*pageAlign, 1|fromPage, pageAlign, 1)
	header(first+5*pageAlign, 4, pageAlign, 99) // of no space
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
