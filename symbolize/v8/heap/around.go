package heap

import "ustack/symbolize/v8"

// maxLookBack bounds the bytes before an address in which an object that contains it is
// searched for.
const maxLookBack = 1 << 20

// ObjectAround returns the object that contains address, without a walk of the heap: it
// searches backward, not below lowest, for a word that is the map of an object which
// extends to the address.
func ObjectAround(h *v8.Heap, address, lowest uint64) (v8.Object, bool) {
	const block = 4 << 10
	at := address &^ 7
	lowest = max(lowest, at-min(at, maxLookBack))
	for at >= lowest {
		first := max(lowest, at-min(at, block))
		words := make([]byte, at-first+8)
		n, _ := h.ReadAt(words, first) // search what can be read
		for i := n &^ 7; i >= 8; i -= 8 {
			candidate := first + uint64(i) - 8
			o, err := h.Object(v8.Ref(candidate))
			if err == nil && o.Address == candidate && reaches(h, o, address) {
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

// reaches reports whether address is inside o.
func reaches(h *v8.Heap, o v8.Object, address uint64) bool {
	form, ok := h.Form(o.Map)
	if !ok {
		return address&^7 == o.Address
	}
	head := make([]byte, v8.FormHead)
	n, _ := h.ReadAt(head, o.Address) // Size reports if it is too little
	return address < o.Address+uint64(form.Size(head[:n]))
}
