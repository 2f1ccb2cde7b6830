package v8

import (
	"fmt"
	"strings"
)

// Outside returns the memory that an object has outside of V8's heap: an
// ArrayBuffer's bytes, or the characters of an external string. Objects may share
// it. bytes is 0 if it has none.
func (h *Heap) Outside(o Object) (address, bytes uint64, err error) {
	switch {
	case o.Map.Kind == "JSArrayBuffer":
		b, err := h.Buffer(o)
		return b.Address, b.Length, err
	case HasOutside(o.Map):
		r := &stringReader{Heap: h}
		length, err := r.length(o)
		if err != nil {
			return 0, 0, fmt.Errorf("read string at %#x: %w", o.Address, err)
		}
		address, err = r.externalData(o)
		if o.Map.Type&oneByte == 0 {
			length *= 2
		}
		return address, uint64(length), err
	}
	return 0, 0, nil
}

// HasOutside reports whether objects with this map may have memory outside of
// V8's heap.
func HasOutside(m *Map) bool {
	return m.Kind == "JSArrayBuffer" || strings.HasSuffix(m.Kind, "String") && strings.Contains(m.Kind, "External")
}
