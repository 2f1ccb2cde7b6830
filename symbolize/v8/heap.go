package v8

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"ustack/symbolize/v8/release"
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

// maxMaps bounds the maps that a Heap caches; a large application has some
// 100,000.
const maxMaps = 1 << 20

// namesKept is how many names of properties a Heap caches: maps have many in common.
const namesKept = 1 << 10

// shortText is how many characters a string may have to be read without a buffer of its own.
const shortText = 256

// A keyName is the name of a property by its key, a string or a symbol.
type keyName struct {
	key    Value
	name   string
	symbol bool
}

// A Heap reads V8's objects from the memory of a process. It caches maps: if the
// process runs, a Heap is valid only until the next collection. It must not be
// used concurrently.
type Heap struct {
	mem       Memory
	layout    *Layout
	binary    *Binary
	release   *release.Release
	metadata  metadata
	kinds     map[uint16]string // V8's class names by instance type
	at        offsets
	oddballs  map[int]string
	maps      map[uint64]*Map
	elsewhere func(address uint64) *Map // finds maps that were read elsewhere; may be nil
	known     map[[2]string]int         // offsets looked up so far; below 0: not known
	classes   map[uint64]string         // constructors' names by prototype
	shapes    map[string]*shape         // those that depend on the release
	lostMaps  map[uint64]uint64         // by address of the object

	names  [namesKept]keyName // of properties
	absent [2]Value           // marks of unused entries that were found last
	word   [wordSize]byte     // as read: a local variable would be allocated for each read
	short  [shortText]byte    // likewise, the characters of a string
	block  []byte             // room for what is read, if nothing uses it: takeBlock
	raw    []Value            // room for the words of descriptors
}

// offsets are the offsets, in bytes, needed to read any object.
type offsets struct {
	elements, properties                 int // JSObject
	prototype, constructor               int // Map
	bitField, bitField2                  int
	dictionaryElements                   int // elements kind
	attributesShift, representationShift int
	oddballKind                          int
	number                               int
}

// An Object is a heap object whose map has been validated.
type Object struct {
	Address uint64
	Map     *Map
}

// Fork returns a Heap of the same memory with caches of its own, which also knows the maps that h has
// read. Goroutines may use forks at the same time, each its own, if the memory allows that, and if h is
// not used meanwhile.
func (h *Heap) Fork() *Heap {
	fork := *h
	fork.elsewhere = h.knownMap
	fork.maps, fork.classes, fork.known = map[uint64]*Map{}, map[uint64]string{}, nil
	fork.names, fork.absent, fork.block, fork.raw = [namesKept]keyName{}, [2]Value{}, nil, nil
	return &fork
}

// Forget forgets the maps that h has cached, and what they say.
func (h *Heap) Forget() {
	clear(h.maps)
	h.elsewhere = nil
	clear(h.classes)
	h.names = [namesKept]keyName{}
	h.absent = [2]Value{}
}

// Ref returns the reference to o.
func (o Object) Ref() Value { return Ref(o.Address) }

// NewHeap returns a Heap that reads mem, the memory of a process that has mapped
// b. It fails if b lacks essential metadata.
func NewHeap(mem Memory, b *Binary) (*Heap, error) {
	h := &Heap{
		mem: mem, layout: &b.Layout, binary: b, release: b.Release, metadata: b.metadata,
		kinds: b.kinds, oddballs: b.oddballs,
		maps: map[uint64]*Map{}, classes: map[uint64]string{}, shapes: shapesOf(&b.Release.Sizes),
	}
	a := &h.at
	var missing []string
	for _, f := range []struct {
		offset       *int
		class, field string
	}{
		{&a.elements, "JSObject", "elements"},
		{&a.properties, "JSReceiver", "raw_properties_or_hash"},
		{&a.prototype, "Map", "prototype"},
		{&a.constructor, "Map", "constructor_or_back_pointer"},
		{&a.bitField, "Map", "bit_field"},
		{&a.bitField2, "Map", "bit_field2"},
		{&a.oddballKind, "Oddball", "kind"},
		{&a.number, "HeapNumber", "value"},
	} {
		var ok bool
		if *f.offset, ok = h.Offset(f.class, f.field); !ok {
			missing = append(missing, f.class+"."+f.field)
		}
	}
	for _, c := range []struct {
		value *int
		name  string
	}{
		{&a.dictionaryElements, "elements_dictionary_elements"},
		{&a.attributesShift, "prop_attributes_shift"},
		{&a.representationShift, "prop_representation_shift"},
	} {
		v, ok := h.metadata.lookup(c.name)
		if !ok || v < 0 || v > math.MaxUint8 {
			missing = append(missing, c.name)
		}
		*c.value = int(v)
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("read V8's metadata: not there: [%s]", strings.Join(missing, " "))
	}
	return h, nil
}

// kindsOf returns V8's class names by instance type.
func kindsOf(b *Binary) map[uint16]string {
	kinds := map[uint16]string{}
	for class, number := range b.Release.Types {
		kinds[number] = class
	}
	nameStrings(kinds, b.Release.Strings.SharedTypes)
	for _, name := range slices.Sorted(maps.Keys(b.metadata)) { // if a type has two names, the last wins
		v := b.metadata[name]
		rest, ok := strings.CutPrefix(name, "type_")
		class, _, _ := strings.Cut(rest, "__")
		if ok && v >= 0 && v <= math.MaxUint16 {
			kinds[uint16(v)] = class
		}
	}
	l := &b.Layout
	for t := int(l.FirstJSFunction); t <= int(l.LastJSFunction); t++ {
		kinds[uint16(t)] = "JSFunction"
	}
	first, ok1 := b.metadata.lookup("FirstContextType")
	last, ok2 := b.metadata.lookup("LastContextType")
	for t := first; ok1 && ok2 && t <= last && t > 0 && t <= math.MaxUint16; t++ {
		if kinds[uint16(t)] == "" {
			kinds[uint16(t)] = "Context"
		}
	}
	return kinds
}

// oddballsOf returns how oddballs are written, by kind.
func oddballsOf(m metadata) map[int]string {
	oddballs := map[int]string{}
	for name, text := range map[string]string{
		"OddballFalse": "false", "OddballTrue": "true", "OddballNull": "null",
		"OddballUndefined": "undefined", "OddballTheHole": "hole",
	} {
		if v, ok := m.lookup(name); ok {
			oddballs[int(v)] = text
		}
	}
	return oddballs
}

// Offset returns the offset, in bytes, of a field in objects of a V8 class; from
// metadata, or as measured if metadata omits it.
func (h *Heap) Offset(class, field string) (offset int, ok bool) {
	key := [2]string{class, field}
	if found, ok := h.known[key]; ok {
		return found, found >= 0
	}
	v, ok := h.metadata.lookup("class_"+class+"__"+field+"__", "class_"+class+"__"+field+"_offset__")
	offset = int(v)
	if !ok || v < 0 || v > math.MaxUint16 {
		var measured uint16
		measured, ok = h.release.Fields[class+"."+field]
		offset = int(measured)
	}
	if !ok {
		offset = -1
	}
	if h.known == nil {
		h.known = map[[2]string]int{}
	}
	h.known[key] = offset
	return offset, ok
}

// UseMaps makes Object use these map references, by object address: a collection
// may temporarily store them elsewhere.
func (h *Heap) UseMaps(lost map[uint64]uint64) { h.lostMaps = lost }

// ShareMaps makes h use maps that ReadMap has returned. find returns nil for others.
func (h *Heap) ShareMaps(find func(address uint64) *Map) { h.elsewhere = find }

// Binary is what the process's V8 says about itself.
func (h *Heap) Binary() *Binary { return h.binary }

// Object reads what v refers to and checks that its map is one.
func (h *Heap) Object(v Value) (Object, error) {
	if !v.IsObject() {
		return Object{}, fmt.Errorf("read object: %#x is not a reference", uint64(v))
	}
	address := v.Address()
	first, err := h.Word(address)
	if err != nil {
		return Object{}, fmt.Errorf("read object: %w", err)
	}
	if lost, ok := h.lostMaps[address]; ok {
		first = lost
	} else if first&heapTag == 0 { // a forwarding address
		address = first
		if first, err = h.Word(address); err != nil {
			return Object{}, fmt.Errorf("read moved object: %w", err)
		}
	}
	if first&heapTagMask != heapTag {
		return Object{}, fmt.Errorf("read object at %#x: no map", address)
	}
	m, err := h.MapAt(first - heapTag)
	if err != nil {
		return Object{}, fmt.Errorf("read object at %#x: %w", address, err)
	}
	return Object{address, m}, nil
}

// Field reads the word at offset, in bytes, in o.
func (h *Heap) Field(o Object, offset int) (Value, error) {
	w, err := h.Word(o.Address + uint64(offset))
	if err != nil {
		return 0, fmt.Errorf("read object at %#x: %w", o.Address, err)
	}
	return Value(w), nil
}

// Uint32 reads the 32-bit number at offset, in bytes, in o.
func (h *Heap) Uint32(o Object, offset int) (uint32, error) {
	b := h.word[:4]
	if _, err := h.mem.ReadAt(b, o.Address+uint64(offset)); err != nil {
		return 0, fmt.Errorf("read object at %#x: %w", o.Address, err)
	}
	return binary.LittleEndian.Uint32(b), nil
}

// FieldOf reads a field of o by its name.
func (h *Heap) FieldOf(o Object, class, field string) (Value, error) {
	offset, ok := h.Offset(class, field)
	if !ok {
		return 0, fmt.Errorf("read %s.%s: where V8 %v keeps it is not known", class, field, h.release.Version)
	}
	return h.Field(o, offset)
}

// SmiField reads the small integer at offset, in bytes, in o.
func (h *Heap) SmiField(o Object, offset int) (int, error) {
	v, err := h.Field(o, offset)
	if err != nil {
		return 0, err
	}
	n, ok := v.Smi()
	if !ok {
		return 0, fmt.Errorf("read object at %#x: %#x is no small integer", o.Address, uint64(v))
	}
	return n, nil
}

// IsString reports whether o is a string, of any form.
func (h *Heap) IsString(o Object) bool { return o.Map.Type < h.layout.FirstNonstring }

// IsFunction reports whether o is a JSFunction.
func (h *Heap) IsFunction(o Object) bool {
	return o.Map.Type >= h.layout.FirstJSFunction && o.Map.Type <= h.layout.LastJSFunction
}

// firstObjectType is the first instance type of JavaScript objects in V8 9.4 to
// 14.6: that of an embedder's objects with interceptors.
const firstObjectType = 1040

// IsReceiver reports whether o is an object to a program, which may have
// properties; functions and proxies are included.
func (h *Heap) IsReceiver(o Object) bool {
	return o.Map.Type >= firstObjectType || strings.HasPrefix(o.Map.Kind, "JS")
}

// Number returns the number that v is: a small integer, or one in the heap.
func (h *Heap) Number(v Value) (float64, bool) {
	if n, ok := v.Smi(); ok {
		return float64(n), true
	}
	o, err := h.Object(v)
	if err != nil || o.Map.Kind != "HeapNumber" {
		return 0, false
	}
	w, err := h.Word(o.Address + uint64(h.at.number))
	return math.Float64frombits(w), err == nil
}

// Oddball returns "undefined", "null", "true", "false" or "hole" if v is that
// value, and "" otherwise. Oddballs that V8 uses only internally are reported as
// "hole".
func (h *Heap) Oddball(v Value) string {
	o, err := h.Object(v)
	if err != nil {
		return ""
	}
	switch o.Map.Kind {
	case "Hole":
		return "hole"
	case "Oddball":
		kind, err := h.SmiField(o, h.at.oddballKind)
		if err != nil {
			return ""
		}
		if text, ok := h.oddballs[kind]; ok {
			return text
		}
		return "hole"
	}
	return ""
}

// Word reads the word at an address, which need not be in V8's heap.
func (h *Heap) Word(addr uint64) (uint64, error) {
	if _, err := h.mem.ReadAt(h.word[:], addr); err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint64(h.word[:]), nil
}

// ReadAt makes the Heap a Memory.
func (h *Heap) ReadAt(p []byte, addr uint64) (int, error) { return h.mem.ReadAt(p, addr) }

// Bytes reads at most limit bytes at an address.
func (h *Heap) Bytes(address, size uint64, limit int) ([]byte, error) {
	if limit < 0 {
		return nil, errors.New("read bytes: no limit")
	}
	b := make([]byte, min(size, uint64(limit)))
	n, err := h.mem.ReadAt(b, address)
	return b[:n], err
}

// words reads count words starting at an address.
func (h *Heap) words(address uint64, count int) ([]Value, error) {
	return h.appendWords(nil, address, count)
}

// appendWords appends count words starting at an address to values.
func (h *Heap) appendWords(values []Value, address uint64, count int) ([]Value, error) {
	if count == 0 {
		return values, nil // what follows need not be mapped
	}
	var b []byte
	if count <= maxBlock {
		block := h.takeBlock()
		defer func() { h.block = block }()
		b = block[:count*wordSize]
	} else {
		b = make([]byte, count*wordSize)
	}
	n, err := h.mem.ReadAt(b, address)
	values = slices.Grow(values, n/wordSize)
	for b = b[:n]; len(b) >= wordSize; b = b[wordSize:] {
		values = append(values, Value(binary.LittleEndian.Uint64(b)))
	}
	return values, err
}
