package v8

import (
	"encoding/binary"
	"fmt"
)

// The same in every supported version of V8: an object's first word is its map; a
// String has its length at 12, and its characters or first part at 16.
const (
	heapTag      = 1
	heapTagMask  = 3
	stringLength = 12
	stringFirst  = 16
	stringSecond = 24
	arrayLength  = 8 // FixedArray, PropertyArray: a Smi
	arrayFirst   = 16
	wordSize     = 8
)

// A heap reads V8's objects by their layout.
type heap struct {
	mem    Memory
	layout Layout
}

// An object is a heap object with its instance type.
type object struct {
	address uint64 // untagged
	typ     uint16
	mapped  uint64 // its map, untagged
}

func (o object) tagged() uint64 { return o.address | heapTag }

func (h heap) word(addr uint64) (uint64, error) { return ReadWord(h.mem, addr) }

func (h heap) uint32(addr uint64) (uint32, error) {
	var b [4]byte
	_, err := h.mem.ReadAt(b[:], addr)
	return binary.LittleEndian.Uint32(b[:]), err
}

func (h heap) uint16(addr uint64) (uint16, error) {
	var b [2]byte
	_, err := h.mem.ReadAt(b[:], addr)
	return binary.LittleEndian.Uint16(b[:]), err
}

func (h heap) uint8(addr uint64) (uint8, error) {
	var b [1]byte
	_, err := h.mem.ReadAt(b[:], addr)
	return b[0], err
}

// isObject reports whether a tagged word is a strong reference to an object.
func isObject(tagged uint64) bool { return tagged&heapTagMask == heapTag }

// smi returns the value of a small integer.
func smi(tagged uint64) (int, bool) {
	return int(int64(tagged) >> 32), tagged&(1<<32-1) == 0
}

// object reads what tagged refers to. During a collection an object's first word
// may hold its forwarding address, which is followed once.
func (h heap) object(tagged uint64) (object, error) {
	if !isObject(tagged) {
		return object{}, fmt.Errorf("read object: %#x is not a reference", tagged)
	}
	o := object{address: tagged - heapTag}
	first, err := h.word(o.address)
	if err != nil {
		return object{}, fmt.Errorf("read object: %w", err)
	}
	if first&heapTag == 0 {
		o.address = first
		if first, err = h.word(o.address); err != nil {
			return object{}, fmt.Errorf("read moved object: %w", err)
		}
	}
	if !isObject(first) {
		return object{}, fmt.Errorf("read object at %#x: no map", o.address)
	}
	o.mapped = first - heapTag
	if o.typ, err = h.uint16(o.mapped + uint64(h.layout.MapInstanceType)); err != nil {
		return object{}, fmt.Errorf("read map of object at %#x: %w", o.address, err)
	}
	return o, nil
}

// field reads the word at offset in o.
func (h heap) field(o object, offset uint16) (uint64, error) {
	w, err := h.word(o.address + uint64(offset))
	if err != nil {
		return 0, fmt.Errorf("read object at %#x: %w", o.address, err)
	}
	return w, nil
}

// smiField reads the small integer at offset in o.
func (h heap) smiField(o object, offset uint16) (int, error) {
	w, err := h.field(o, offset)
	if err != nil {
		return 0, err
	}
	n, ok := smi(w)
	if !ok {
		return 0, fmt.Errorf("read object at %#x: %#x is no small integer", o.address, w)
	}
	return n, nil
}

func (h heap) isString(o object) bool { return o.typ < h.layout.FirstNonstring }
