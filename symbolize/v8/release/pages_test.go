package release_test

import (
	"encoding/binary"
	"fmt"
)

// pageOffset is the part of an address within a page of V8.
const pageOffset = 1<<18 - 1

// A header is the header of a page with an object whose place is known.
type header struct {
	page, object, end uint64 // end is that of the object
	large             bool   // the object has the page for itself
	fields            []byte
}

// A pageLayout is where headers have their fields.
type pageLayout struct{ size, heap, start, end, owner int }

// measurePages sets where pages have their fields, by a page of the new space, one
// of the old space and one with a large object.
func measurePages(m *measurement) error {
	apart := false
	found, err := m.pageLayouts(apart)
	if err != nil || len(found) == 0 {
		apart = true
		if found, err = m.pageLayouts(apart); err != nil {
			return err
		}
	}
	if len(found) != 1 {
		return fmt.Errorf("headers of pages may be any of %+v", found)
	}
	if err := m.flags(apart, found[0].size); err != nil {
		return err
	}
	m.set("Pages.MetadataApart", apart)
	m.set("Pages.Size", found[0].size)
	m.set("Pages.Heap", found[0].heap)
	m.set("Pages.Start", found[0].start)
	m.set("Pages.End", found[0].end)
	m.set("Pages.Owner", found[0].owner)
	return nil
}

// pageLayouts returns the layouts that agree with all headers.
func (m *measurement) pageLayouts(apart bool) (layouts []pageLayout, err error) {
	const many = 1 << 16
	var headers []header
	for object, large := range map[string]bool{
		"{}":                      false,
		"function () {} > - map:": false,
		fmt.Sprintf("Array(%d).fill(0) > - elements:", many): true,
	} {
		h, err := m.header(object, apart)
		if err != nil {
			return nil, err
		}
		h.large, h.end = large, h.object+16+8*many
		headers = append(headers, h)
	}
	word := func(h *header, o int) uint64 { return binary.LittleEndian.Uint64(h.fields[o:]) }
	offsets := func(fits func(h *header, v uint64) bool) (all []int) {
		for o := 0; o+8 <= len(headers[0].fields); o += 8 {
			ok := true
			for i := range headers {
				ok = ok && fits(&headers[i], word(&headers[i], o))
			}
			if ok {
				all = append(all, o)
			}
		}
		return all
	}
	const slack = 0x3000 // a page of the system and the header
	sizes := offsets(func(h *header, v uint64) bool {
		return v == pageOffset+1 && !h.large || h.large && v >= h.end-h.page && v < h.end-h.page+slack
	})
	starts := offsets(func(h *header, v uint64) bool {
		return v > h.page && v <= h.object && v < h.page+slack && (!h.large || v == h.object)
	})
	ends := offsets(func(h *header, v uint64) bool {
		return v > h.object && v <= h.page+pageOffset+1 && !h.large && v&0xfff == 0 || h.large && v >= h.end && v < h.end+slack
	})
	heaps := offsets(func(h *header, v uint64) bool { return v > slack && v&7 == 0 })
	for _, start := range starts {
		for _, end := range ends {
			for _, o := range heaps {
				heap := word(&headers[0], o)
				for _, owner := range offsets(func(h *header, v uint64) bool { return word(h, o) == heap && m.isSpace(v, heap) }) {
					layouts = append(layouts, pageLayout{before(sizes, o), o, start, end, owner})
				}
			}
		}
	}
	return layouts, nil
}

// before returns the last of the offsets before heap: the others are sizes of the
// memory's reservation.
func before(offsets []int, heap int) int {
	last := -1
	for _, o := range offsets {
		if o < heap {
			last = o
		}
	}
	return last
}

// flags sets where a header has its flags: one of the first two words, next to the
// size or to a pointer.
func (m *measurement) flags(apart bool, size int) error {
	h, err := m.header("{}", false)
	if err != nil {
		return err
	}
	for o := range 16 {
		if v := binary.LittleEndian.Uint64(h.fields[o:]); o%8 == 0 && (apart || o != size) && v < h.page>>8 {
			m.set("Pages.Flags", o)
			return nil
		}
	}
	return fmt.Errorf("no flags in the header of the page at %#x", h.page)
}

// isSpace reports whether the C++ object at an address is a space of a heap: a
// virtual table, the heap, and the space's number.
func (m *measurement) isSpace(address, heap uint64) bool {
	const spaces = 16
	data, err := m.probe("").read(address, 24)
	return err == nil && binary.LittleEndian.Uint64(data[8:]) == heap && data[16] < spaces
}

// header reads the header of an object's page.
func (m *measurement) header(object string, apart bool) (header, error) {
	return m.headerIn(m.probe(""), object, apart)
}

func (m *measurement) headerIn(p *probe, object string, apart bool) (h header, err error) {
	v, _, err := p.find(object)
	if err != nil {
		return h, err
	}
	h.object = uint64(v) - 1
	h.page = h.object &^ pageOffset
	at := h.page
	if apart {
		if at, err = p.word(h.page + 8); err != nil {
			return h, err
		}
	}
	h.fields, err = p.read(at, 128)
	return h, err
}
