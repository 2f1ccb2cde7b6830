package heap

import "ustack/symbolize/v8"

const (
	// maxLookBack bounds the bytes before an address in which an object that contains it
	// is searched for where no page is known.
	maxLookBack = 1 << 20
	// maxHeads bounds the places before an address where the header of its page may be:
	// those of the largest page.
	maxHeads = maxPage / pageAlign
)

// ObjectAround returns the object that contains address and begins at lowest or above. It
// walks the page that contains address from object to object, as Walk does all pages: a
// word inside an object may refer to a map too, as if another began there. Outside of pages,
// and behind memory that cannot be read, it searches backward.
func ObjectAround(h *v8.Heap, address, lowest uint64) (o v8.Object, ok bool) {
	p, ok := pageOf(h, address, lowest)
	switch {
	case ok && p.Large():
		o, ok = objectAt(h, p.Start)
		ok = ok && reaches(h, o, address)
	case ok && isReadable(h, p.Start, address):
		o, ok = walkTo(h, p, address)
	default:
		o, ok = searchBack(h, address, lowest)
	}
	return o, ok && o.Address >= lowest
}

// pageOf returns the page that contains an address among its objects.
func pageOf(h *v8.Heap, address, lowest uint64) (p Page, ok bool) {
	f := newPageFinder(h, &h.Binary().Release.Pages)
	at := address &^ (pageAlign - 1)
	for range maxHeads {
		if p, ok = f.read(at); ok {
			return p, address >= p.Start && address < p.End
		}
		if at <= lowest {
			break
		}
		at -= pageAlign
	}
	return Page{}, false
}

// isReadable reports whether a page can be read from start to the word at address.
func isReadable(h *v8.Heap, start, address uint64) bool {
	_, err := h.ReadAt(make([]byte, address&^(wordSize-1)+wordSize-start), start)
	return err == nil
}

// walkTo returns the object in a page that contains an address. One of unknown size ends
// where the next begins.
func walkTo(h *v8.Heap, p Page, address uint64) (found v8.Object, ok bool) {
	end := uint64(0)
	for at := p.Start; at <= address; {
		step := uint64(wordSize)
		if o, ok := objectAt(h, at); ok {
			size, known := sizeOf(h, o)
			switch {
			case !known:
				found, end = o, p.End
			case size > 0 && size%wordSize == 0 && size <= p.End-at:
				found, end, step = o, at+size, size
			}
		}
		at += step
	}
	return found, address < end
}

// objectAt returns the object that begins at an address.
func objectAt(h *v8.Heap, address uint64) (o v8.Object, ok bool) {
	o, err := h.Object(v8.Ref(address))
	return o, err == nil && o.Address == address
}

// searchBack searches backward for a word that is the map of an object which extends to
// the address.
func searchBack(h *v8.Heap, address, lowest uint64) (v8.Object, bool) {
	const block = 4 << 10
	at := address &^ 7
	lowest = max(lowest, at-min(at, maxLookBack))
	for at >= lowest {
		first := max(lowest, at-min(at, block))
		words := make([]byte, at-first+8)
		n, _ := h.ReadAt(words, first) // search what can be read
		for i := n &^ 7; i >= 8; i -= 8 {
			candidate := first + uint64(i) - 8
			if o, ok := objectAt(h, candidate); ok && reaches(h, o, address) {
				return o, true
			}
		}
		if first == 0 || first == lowest {
			break
		}
		at = first - 8
	}
	return v8.Object{}, false
}

// reaches reports whether address, which is not below o, is inside o.
func reaches(h *v8.Heap, o v8.Object, address uint64) bool {
	size, known := sizeOf(h, o)
	if !known {
		return address&^7 == o.Address
	}
	return address < o.Address+size
}

// sizeOf returns the size in bytes of what begins like an object; 0 if no object does. It
// is not known for some kinds.
func sizeOf(h *v8.Heap, o v8.Object) (size uint64, known bool) {
	form, known := h.Form(o.Map)
	if !known {
		return 0, false
	}
	head := make([]byte, v8.FormHead)
	n, _ := h.ReadAt(head, o.Address) // Size reports if it is too little
	return uint64(form.Size(head[:n])), true
}
