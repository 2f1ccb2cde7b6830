package v8

import (
	"encoding/binary"
	"fmt"
	"sync/atomic"
)

const (
	mapWords         = 10      // at most
	maxMapDepth      = 1 << 10 // maps in a chain of back pointers: one per property
	prototypesToSeek = 1 << 7  // of one object, when searching for a constructor
	embedderTypes    = 1000    // instance types that V8 10 and later leave to the embedder
)

// A Map describes the layout of objects. V8 also calls it a hidden class.
type Map struct {
	Address      uint64
	Type         uint16 // instance type
	Dictionary   bool   // properties are in a dictionary, not described by the map
	Callable     bool
	Kind         string // V8's class name of that type: "JSArray", "FixedArray"; empty if not known
	Size         int    // of an object, in bytes; 0: it varies
	InObject     int    // word at which in-object properties start
	ElementsKind int
	Own          int   // descriptors of own properties
	Descriptors  Value // DescriptorArray
	Prototype    Value
	Constructor  Value // or the Map that this one was derived from by adding a property

	described atomic.Pointer[described] // nil: not read yet
	classed   atomic.Pointer[classed]   // nil: not looked up yet
}

// described are a map's descriptors, as far as they can be read.
type described struct {
	descriptors []descriptor
	err         error
}

// classed is the class of a map's objects.
type classed struct {
	name string
	err  error
}

// A notMapError is an address at which there is no map.
type notMapError uint64

func (e notMapError) Error() string { return fmt.Sprintf("read map at %#x: not a map", uint64(e)) }

// KindName returns Kind, or the number of a type without a name.
func (m *Map) KindName() string {
	if m.Kind == "" {
		return fmt.Sprintf("type %d", m.Type)
	}
	return m.Kind
}

// MapAt reads the map at an address, which must be one.
func (h *Heap) MapAt(address uint64) (*Map, error) {
	if m := h.knownMap(address); m != nil {
		return m, nil
	}
	m, err := h.ReadMap(address)
	if err != nil {
		return nil, err
	}
	if len(h.maps) >= maxMaps {
		clear(h.maps)
	}
	h.maps[address] = m
	return m, nil
}

// ReadMap is like MapAt, but does not keep the map.
func (h *Heap) ReadMap(address uint64) (*Map, error) {
	var b [mapWords * wordSize]byte
	word := func(at int) uint64 { return binary.LittleEndian.Uint64(b[at:]) }
	if err := h.readMap(b[:], address); err != nil {
		return nil, err
	}
	if moved := word(0); moved&heapTagMask == 0 && moved != 0 { // a collection has moved the map there
		address = moved
		if err := h.readMap(b[:], address); err != nil {
			return nil, err
		}
	}
	if !h.isMetaMap(word(0)) {
		return nil, notMapError(address)
	}
	l := h.layout
	bits3 := binary.LittleEndian.Uint32(b[l.MapBitField3:])
	m := &Map{
		Address:      address,
		Type:         binary.LittleEndian.Uint16(b[l.MapInstanceType:]),
		Size:         int(b[l.MapInstanceSize]) * wordSize,
		InObject:     int(b[l.MapInobject]),
		ElementsKind: int(b[h.at.bitField2] >> elementsShift),
		Dictionary:   bits3>>l.DictionaryBit&1 != 0,
		Own:          int(bits3 >> l.DescriptorShift & descriptorCount),
		Descriptors:  Value(word(int(l.MapDescriptors))),
		Prototype:    Value(word(h.at.prototype)),
		Constructor:  Value(word(h.at.constructor)),
		Callable:     b[h.at.bitField]&callableBit != 0,
	}
	m.Kind = h.kindOf(m.Type)
	return m, nil
}

func (h *Heap) readMap(b []byte, address uint64) error {
	if n, err := h.mem.ReadAt(b, address); n < h.mapEnd() { // the map may be the last in its page
		return fmt.Errorf("read map: %w", err)
	}
	return nil
}

// knownMap returns the map at an address if it has been read; otherwise nil.
func (h *Heap) knownMap(address uint64) *Map {
	m := h.maps[address]
	if m == nil && h.elsewhere != nil {
		m = h.elsewhere(address)
	}
	return m
}

// mapEnd returns the number of bytes of a map to read.
func (h *Heap) mapEnd() int {
	return max(int(h.layout.MapDescriptors), h.at.prototype, h.at.constructor) + wordSize
}

const (
	elementsShift = 2      // bit field 2
	callableBit   = 1 << 1 // bit field
)

// isMetaMap reports whether tagged refers to a meta map, which is its own map.
func (h *Heap) isMetaMap(tagged uint64) bool {
	if tagged&heapTagMask != heapTag {
		return false
	}
	address := tagged - heapTag
	if m := h.knownMap(address); m != nil {
		return m.Kind == "Map"
	}
	typ, err := h.uint16(address + uint64(h.layout.MapInstanceType))
	return err == nil && h.kindOf(typ) == "Map"
}

func (h *Heap) uint16(addr uint64) (uint16, error) {
	var b [2]byte
	_, err := h.mem.ReadAt(b[:], addr)
	return binary.LittleEndian.Uint16(b[:]), err
}

func (h *Heap) kindOf(typ uint16) string {
	if kind, ok := h.kinds[typ]; ok {
		return kind
	}
	embedder, ok := h.metadata.lookup("APIObjectType")
	if ok && int32(typ) >= embedder && int32(typ) < embedder+embedderTypes && int32(typ) < int32(h.layout.FirstJSFunction) {
		return "JSApiObject"
	}
	if typ == firstObjectType {
		return "JSSpecialApiObject"
	}
	return ""
}

// Class returns the name of o's class as a program knows it: the name of the
// constructor of o's prototype, or else of the function that made o. For anything
// that is not a JavaScript object it returns the kind.
func (h *Heap) Class(o Object) (string, error) {
	class := o.Map.classed.Load()
	if class == nil {
		class = new(classed)
		class.name, class.err = h.findClass(o)
		o.Map.classed.Store(class)
	}
	return class.name, class.err
}

func (h *Heap) findClass(o Object) (string, error) {
	if !h.IsReceiver(o) {
		return o.Map.Kind, nil
	}
	if !o.Map.Prototype.IsObject() {
		return o.Map.Kind, nil
	}
	key := o.Map.Prototype.Address()
	if name, ok := h.classes[key]; ok && name != "" {
		return name, nil
	}
	name, err := h.constructorOf(o.Map.Prototype)
	if err != nil {
		return "", err
	}
	if len(h.classes) >= maxMaps {
		clear(h.classes)
	}
	h.classes[key] = name
	if name != "" {
		return name, nil
	}
	if name = h.madeBy(o.Map); name != "" {
		return name, nil
	}
	return h.inheritedClass(o.Map)
}

// constructorOf returns the name of the function in the prototype's own property
// "constructor"; "" if it has none.
func (h *Heap) constructorOf(prototype Value) (string, error) {
	p, err := h.Object(prototype)
	if err != nil || !h.IsReceiver(p) || p.Map.Kind == "JSProxy" {
		return "", nil
	}
	v, ok, err := h.Own(p, "constructor")
	if err != nil || !ok {
		return "", err
	}
	return h.functionName(v), nil
}

func (h *Heap) functionName(v Value) string {
	o, err := h.Object(v)
	if err != nil || !h.IsFunction(o) {
		return ""
	}
	name, err := h.ownName(o)
	if err != nil || name != "" {
		return name
	}
	shared, err := h.Field(o, int(h.layout.FunctionShared))
	if err != nil {
		return ""
	}
	return h.sharedName(shared)
}

// sharedName returns the name that a SharedFunctionInfo has from the source.
func (h *Heap) sharedName(v Value) string {
	var f Function
	shared, err := h.Object(v)
	if err != nil || shared.Map.Type != h.layout.SharedFunctionInfo || h.nameOf(shared, &f) != nil {
		return ""
	}
	return f.Name
}

// madeBy returns the name of the constructor at the end of m's chain of back
// pointers.
func (h *Heap) madeBy(m *Map) string {
	for range maxMapDepth {
		o, err := h.Object(m.Constructor)
		if err != nil {
			return ""
		}
		if o.Map.Kind != "Map" {
			return h.functionName(m.Constructor)
		}
		if m, err = h.MapAt(o.Address); err != nil {
			return ""
		}
	}
	return ""
}

// inheritedClass looks for a constructor further up m's prototype chain.
func (h *Heap) inheritedClass(m *Map) (string, error) {
	kind := m.Kind
	for range prototypesToSeek {
		p, err := h.Object(m.Prototype)
		if err != nil || !h.IsReceiver(p) {
			break
		}
		name, err := h.constructorOf(m.Prototype)
		if err != nil || name != "" {
			return name, err
		}
		m = p.Map
	}
	if kind == "JSObject" {
		return "Object", nil
	}
	return kind, nil
}
