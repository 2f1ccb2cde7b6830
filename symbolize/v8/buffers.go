package v8

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// maxBuffer bounds the bytes of an ArrayBuffer; V8's own limit is lower.
const maxBuffer = 1 << 53

// A Buffer is the memory of an ArrayBuffer or a SharedArrayBuffer.
type Buffer struct {
	Address   uint64 // 0 if it has no bytes
	Length    uint64 // bytes
	Max       uint64 // bytes that it may grow to; Length if it cannot grow
	Shared    bool
	Resizable bool
	Detached  bool // its memory was transferred
}

// An ArrayBuffer's bits.
const (
	bufferDetached  = 1 << 2
	bufferShared    = 1 << 4
	bufferResizable = 1 << 5
)

var errBufferLayout = errors.New("read buffer: where V8 keeps it is not known")

// Buffer reads a JSArrayBuffer.
func (h *Heap) Buffer(o Object) (Buffer, error) {
	if o.Map.Kind != "JSArrayBuffer" {
		return Buffer{}, fmt.Errorf("read buffer at %#x: it is a %s", o.Address, o.Map.Kind)
	}
	var b Buffer
	var bits, extension Value
	err := h.Fields(o, "JSArrayBuffer", map[string]*Value{
		"backing_store": (*Value)(&b.Address), "byte_length": (*Value)(&b.Length), "max_byte_length": (*Value)(&b.Max),
		"bit_field": &bits, "extension": &extension,
	})
	if err != nil {
		return Buffer{}, err
	}
	b.Shared, b.Resizable, b.Detached = bits&bufferShared != 0, bits&bufferResizable != 0, bits&bufferDetached != 0
	if b.Shared && b.Resizable {
		if b.Length, err = h.grownLength(uint64(extension)); err != nil {
			return Buffer{}, err
		}
	}
	if b.Detached {
		b.Address, b.Length, b.Max = 0, 0, 0
	}
	if !b.Resizable {
		b.Max = b.Length
	}
	if b.Length > maxBuffer || b.Max > maxBuffer || b.Length > b.Max {
		return Buffer{}, fmt.Errorf("read buffer at %#x: %d bytes of %d", o.Address, b.Length, b.Max)
	}
	if b.Length == 0 {
		b.Address = 0
	}
	return b, nil
}

// grownLength returns the length of a growable shared buffer. Only the C++ object
// shared by all its users has it.
func (h *Heap) grownLength(extension uint64) (uint64, error) {
	backing, ok1 := h.Offset("ArrayBufferExtension", "backing")
	length, ok2 := h.Offset("BackingStore", "byte_length")
	if !ok1 || !ok2 {
		return 0, errBufferLayout
	}
	store, err := h.Word(extension + uint64(backing))
	if err != nil {
		return 0, fmt.Errorf("read shared buffer: %w", err)
	}
	n, err := h.Word(store + uint64(length))
	if err != nil {
		return 0, fmt.Errorf("read shared buffer: %w", err)
	}
	return n, nil
}

// A View is a typed array or a DataView.
type View struct {
	Type    string // "Uint8", "Float64", "DataView" …
	Size    int    // bytes of an element
	Buffer  Value  // of a small typed array: one without bytes of its own until a program asks for it
	Offset  uint64 // bytes into the buffer
	Address uint64 // of the bytes; 0 if it has none
	Bytes   uint64
	Length  int  // elements
	OnHeap  bool // the bytes are in V8's heap
}

// A view's bits, from V8 10 on.
const (
	viewTracking  = 1 << 0 // its length follows its buffer's
	viewResizable = 1 << 1 // its buffer may change its length
)

// View reads a JSTypedArray or a JSDataView.
func (h *Heap) View(o Object) (View, error) {
	v := View{Type: "DataView", Size: 1}
	switch o.Map.Kind {
	case "JSTypedArray", "JSDetachedTypedArray":
		var ok bool
		if v.Type, v.Size, ok = h.elementType(o.Map.ElementsKind); !ok {
			return View{}, fmt.Errorf("read typed array at %#x: elements of kind %d", o.Address, o.Map.ElementsKind)
		}
	case "JSDataView", "JSRabGsabDataView":
	default:
		return View{}, fmt.Errorf("read view at %#x: it is a %s", o.Address, o.Map.Kind)
	}
	err := h.Fields(o, "JSArrayBufferView", map[string]*Value{
		"buffer": &v.Buffer, "byte_offset": (*Value)(&v.Offset), "byte_length": (*Value)(&v.Bytes),
	})
	if err != nil {
		return View{}, err
	}
	object, err := h.Object(v.Buffer)
	if err != nil {
		return View{}, fmt.Errorf("read view at %#x: %w", o.Address, err)
	}
	buffer, err := h.Buffer(object)
	if err != nil {
		return View{}, fmt.Errorf("read view at %#x: %w", o.Address, err)
	}
	if err := h.fit(o, buffer, &v); err != nil {
		return View{}, err
	}
	if v.Bytes > maxBuffer {
		return View{}, fmt.Errorf("read view at %#x: %d bytes", o.Address, v.Bytes)
	}
	v.Length = int(v.Bytes) / v.Size
	if v.Address = buffer.Address + v.Offset; v.Type != "DataView" {
		v.Address, v.OnHeap, err = h.elementsAt(o)
	}
	if v.Bytes == 0 {
		v.Address = 0
	}
	return v, err
}

// fit sets how many bytes of its buffer a view covers now.
func (h *Heap) fit(o Object, b Buffer, v *View) error {
	if b.Detached {
		v.Bytes = 0
		return nil
	}
	at, ok := h.Offset("JSArrayBufferView", "bit_field")
	if !ok {
		return nil
	}
	bits, err := h.Field(o, at)
	if err != nil {
		return err
	}
	switch {
	case bits&viewTracking == 0 && (bits&viewResizable == 0 || v.Offset+v.Bytes <= b.Length):
	case bits&viewTracking == 0 || v.Offset > b.Length:
		v.Bytes = 0
	default:
		size := uint64(v.Size)
		v.Bytes = (b.Length - v.Offset) / size * size
	}
	return nil
}

// elementsAt returns the address of a typed array's bytes: the address of an
// object in the heap, if it has one, plus an offset.
func (h *Heap) elementsAt(o Object) (address uint64, onHeap bool, err error) {
	var base, external Value
	err = h.Fields(o, "JSTypedArray", map[string]*Value{"base_pointer": &base, "external_pointer": &external})
	return uint64(base) + uint64(external), base != 0, err
}

// elementType returns the name and the size in bytes of a typed array's elements,
// given its map's elements kind.
func (h *Heap) elementType(kind int) (name string, size int, ok bool) {
	types := h.release.Objects.ElementsTypes
	n := kind - h.release.Objects.ElementsKind
	if n >= len(types) { // the types repeat for buffers that may change their length
		n -= len(types)
	}
	if n < 0 || n >= len(types) {
		return "", 0, false
	}
	name = types[n]
	bits, err := strconv.Atoi(strings.Trim(name, "abcdefghijklmnopqrstuvwxyzBCFIUT"))
	return name, bits / 8, err == nil
}
