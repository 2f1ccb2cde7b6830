package v8

import (
	"encoding/binary"
	"fmt"
	"slices"
	"sort"
)

// Bounds on the contents of one object.
const (
	maxProperties = 1 << 20
	maxElements   = 1 << 27 // V8's longest FixedArray
	maxBlock      = 1 << 12 // words read at a time

	usualProperties = 64 // most that have room before they are read
)

// A Property is an object's own property with a name or a symbol.
type Property struct {
	Key            Value  // String or Symbol
	Name           string // exact text; of a symbol: its description
	Value          Value  // unset for an accessor
	Getter, Setter Value  // of an accessor; a native one has neither
	Symbol         bool
	Accessor       bool
	Hidden         bool // not enumerable
	ReadOnly       bool
}

// A descriptor is a map's description of a property.
type descriptor struct {
	property Property // its value is the descriptor's, if field is below 0
	field    int      // index; below 0: none
}

// Properties returns o's own named properties, in the order in which they were
// added. If part of them cannot be read, it returns the rest with an error.
func (h *Heap) Properties(o Object) ([]Property, error) {
	if !h.IsReceiver(o) {
		return nil, fmt.Errorf("read properties at %#x: %s has none", o.Address, o.Map.Kind)
	}
	if o.Map.Dictionary || o.Map.Kind == "JSGlobalObject" {
		return h.dictionaryProperties(o)
	}
	descriptors, err := h.describe(o.Map)
	properties := make([]Property, 0, len(descriptors))
	for _, d := range descriptors {
		p := d.property
		if d.field >= 0 {
			value, fieldErr := h.propertyField(o, d.field)
			if fieldErr != nil {
				err = fieldErr
				continue
			}
			h.put(&p, value)
		}
		properties = append(properties, p)
	}
	return properties, err
}

// A FieldPlace says in which word of an object a property is, from the map's on.
type FieldPlace struct {
	Name string
	Word int
}

// FieldPlaces returns where objects of a map have their properties with names, as far as
// they are in the objects themselves.
func (h *Heap) FieldPlaces(m *Map) ([]FieldPlace, error) {
	descriptors, err := h.describe(m)
	var places []FieldPlace
	for _, d := range descriptors {
		word := m.InObject + d.field
		if d.field >= 0 && word < m.Size/wordSize && !d.property.Symbol && !d.property.Accessor {
			places = append(places, FieldPlace{d.property.Name, word})
		}
	}
	return places, err
}

// Own returns the value of o's own property of that name; of an accessor, no
// value.
func (h *Heap) Own(o Object, name string) (Value, bool, error) {
	if h.IsReceiver(o) && o.Map.Kind != "JSGlobalObject" {
		if o.Map.Dictionary {
			return h.ownInDictionary(o, name)
		}
		return h.ownDescribed(o, name)
	}
	properties, err := h.Properties(o)
	i := slices.IndexFunc(properties, func(p Property) bool { return p.isValue(name) })
	if i < 0 {
		return 0, false, err
	}
	return properties[i].Value, true, nil
}

// ownDescribed is Own for an object whose map describes its properties.
func (h *Heap) ownDescribed(o Object, name string) (Value, bool, error) {
	descriptors, err := h.describe(o.Map)
	i := slices.IndexFunc(descriptors, func(d descriptor) bool { return d.property.isValue(name) })
	if i < 0 {
		return 0, false, err
	}
	d := &descriptors[i]
	if d.field < 0 {
		return d.property.Value, true, nil
	}
	value, err := h.propertyField(o, d.field)
	return value, err == nil, err
}

// isValue reports whether p has that name and a value.
func (p *Property) isValue(name string) bool { return p.Name == name && !p.Symbol && !p.Accessor }

// Details of a property: bits that are the same in every supported version of V8.
const (
	readOnlyBit = 1
	hiddenBit   = 2
)

// describe reads m's descriptors, once. If part of them cannot be read, it
// returns the rest with an error.
func (h *Heap) describe(m *Map) ([]descriptor, error) {
	if m.Own == 0 {
		return nil, nil
	}
	d := m.described.Load()
	if d == nil {
		d = new(described)
		d.descriptors, d.err = h.readDescriptors(m)
		m.described.Store(d)
	}
	return d.descriptors, d.err
}

func (h *Heap) readDescriptors(m *Map) (found []descriptor, err error) {
	array, err := h.Object(m.Descriptors)
	if err != nil {
		return nil, fmt.Errorf("read descriptors: %w", err)
	}
	words, err := h.descriptorWords(array, 0, m.Own)
	found = make([]descriptor, 0, len(words)/(descriptorSize/wordSize))
	for ; len(words) >= descriptorSize/wordSize; words = words[descriptorSize/wordSize:] {
		d, err := h.descriptor(array, words)
		if err != nil {
			return found, err
		}
		found = append(found, d)
	}
	return found, err
}

// descriptorWords reads count of an array's descriptors, of which first is the first. The words are
// valid until others are read.
func (h *Heap) descriptorWords(array Object, first, count int) (words []Value, err error) {
	address := array.Address + uint64(h.layout.DescriptorsHeader) + uint64(first*descriptorSize)
	h.raw, err = h.appendWords(h.raw[:0], address, count*descriptorSize/wordSize)
	return h.raw, err
}

// descriptor decodes the first of an array's descriptors: key, details, value.
func (h *Heap) descriptor(array Object, words []Value) (descriptor, error) {
	key, details, value := words[0], words[1], words[2]
	bits, ok := details.Smi()
	if !ok {
		return descriptor{}, fmt.Errorf("read descriptors at %#x: details %#x", array.Address, uint64(details))
	}
	d := descriptor{h.property(key, bits), -1}
	if bits>>h.layout.DetailsLocation&1 == 0 {
		d.field = bits >> h.layout.DetailsIndex & fieldIndex
	} else {
		h.put(&d.property, value.Strong())
	}
	return d, nil
}

// property decodes a key and its details.
func (h *Heap) property(key Value, details int) Property {
	attributes := details >> h.at.attributesShift
	p := Property{
		Key: key, Accessor: details&isAccessor != 0,
		Hidden: attributes&hiddenBit != 0, ReadOnly: attributes&readOnlyBit != 0,
	}
	p.Name, p.Symbol = h.keyName(key)
	return p
}

// keyName returns a property key's text, and whether the key is a symbol.
func (h *Heap) keyName(key Value) (name string, symbol bool) {
	if !key.IsObject() {
		name, symbol, _ = h.readKeyName(key)
		return name, symbol
	}
	n := h.cachedName(key)
	if n.key != key {
		name, symbol, ok := h.readKeyName(key)
		if !ok {
			return name, symbol
		}
		*n = keyName{key, name, symbol}
	}
	return n.name, n.symbol
}

// cachedName returns where key's name is kept, which may have another key's now.
func (h *Heap) cachedName(key Value) *keyName { return &h.names[key.Address()/wordSize%namesKept] }

// readKeyName is keyName without a cache; ok is false if the key is neither a string nor a symbol.
func (h *Heap) readKeyName(key Value) (name string, symbol, ok bool) {
	o, err := h.stringAt(key)
	if err != nil {
		return badName(key), false, false
	}
	if o.Map.Kind == "Symbol" {
		return h.symbolName(key)
	}
	if !h.IsString(o) {
		return badName(key), false, false
	}
	if name, _, err = h.exactOf(o, maxName); err != nil {
		return badName(key), false, false
	}
	return name, false, true
}

// symbolName is readKeyName for a symbol.
func (h *Heap) symbolName(key Value) (name string, symbol, ok bool) {
	o, err := h.Object(key)
	if err != nil {
		return badName(key), false, false
	}
	if key, err = h.FieldOf(o, "Symbol", "name"); err != nil {
		return "", true, false
	}
	if h.Oddball(key) == "undefined" {
		return "", true, true
	}
	if name, _, err = h.Exact(key, maxName); err != nil {
		return badName(key), true, false
	}
	return name, true, true
}

func badName(key Value) string { return fmt.Sprintf("<bad key %#x>", uint64(key)) }

// put sets p's value, or its getter and setter.
func (h *Heap) put(p *Property, value Value) {
	if !p.Accessor {
		p.Value = value
		return
	}
	o, err := h.Object(value)
	if err != nil || o.Map.Kind != "AccessorPair" {
		return
	}
	p.Getter, _ = h.FieldOf(o, "AccessorPair", "getter")
	p.Setter, _ = h.FieldOf(o, "AccessorPair", "setter")
}

// Hash tables: words at the start of the FixedArray, before the table's own
// prefix.
const (
	hashTablePrefix   = 3
	hashTableCapacity = 2

	dictionaryEntry = 3 // words: key, value, details
)

// tableEntries visits the used entries of a hash table, with which it ends, until visit returns
// false. Each has size words, the first of which is the key; they are valid during the visit.
func (h *Heap) tableEntries(table Object, size int, visit func(entry []Value) bool) error {
	length, err := h.SmiField(table, arrayLength)
	if err != nil {
		return err
	}
	capacity, err := h.SmiField(table, arrayFirst+hashTableCapacity*wordSize)
	if err != nil {
		return err
	}
	if length > maxElements || capacity < 0 || capacity > (length-hashTablePrefix)/size {
		return fmt.Errorf("read table at %#x: %d entries in %d words", table.Address, capacity, length)
	}
	b := h.takeBlock()
	defer func() { h.block = b }()
	perBlock := maxBlock / size
	entry := make([]Value, size)
	for at := length - capacity*size; at+size <= length; {
		count := min(perBlock, (length-at)/size)
		read, err := h.mem.ReadAt(b[:count*size*wordSize], table.Address+arrayFirst+uint64(at)*wordSize)
		for rest := b[:read]; len(rest) >= size*wordSize; rest = rest[size*wordSize:] {
			if h.isAbsent(Value(binary.LittleEndian.Uint64(rest))) {
				continue
			}
			for i := range entry {
				entry[i] = Value(binary.LittleEndian.Uint64(rest[i*wordSize:]))
			}
			if !visit(entry) {
				return nil
			}
		}
		if err != nil {
			return fmt.Errorf("read table at %#x: %w", table.Address, err)
		}
		at += count * size
	}
	return nil
}

// takeBlock returns room for maxBlock words; the caller gives it back as h.block, and who takes
// another meanwhile gets new room.
func (h *Heap) takeBlock() []byte {
	b := h.block
	h.block = nil
	if b == nil {
		b = make([]byte, maxBlock*wordSize)
	}
	return b
}

// isAbsent reports whether a key marks an unused entry: never set, or removed.
func (h *Heap) isAbsent(key Value) bool {
	if !key.IsObject() || h.cachedName(key).key == key {
		return false
	}
	if slices.Contains(h.absent[:], key) {
		return true
	}
	switch h.Oddball(key) {
	case "undefined", "hole":
		h.absent[0], h.absent[1] = key, h.absent[0]
		return true
	}
	return false
}

// enumerationShift is the position of a property's order in a dictionary's
// details.
const enumerationShift = 8

// dictionaryOf returns the table that has o's properties.
func (h *Heap) dictionaryOf(o Object) (table Object, err error) {
	raw, err := h.Field(o, h.at.properties)
	if err != nil {
		return table, err
	}
	if table, err = h.Object(raw); err != nil {
		return table, fmt.Errorf("read properties at %#x: %w", o.Address, err)
	}
	return table, nil
}

// ownInDictionary is Own for an object whose properties are in a dictionary.
func (h *Heap) ownInDictionary(o Object, name string) (value Value, found bool, err error) {
	table, err := h.dictionaryOf(o)
	if err != nil {
		return 0, false, err
	}
	err = h.tableEntries(table, dictionaryEntry, func(entry []Value) bool {
		details, ok := entry[2].Smi()
		if !ok || details&isAccessor != 0 {
			return true
		}
		if text, symbol := h.keyName(entry[0]); text == name && !symbol {
			value, found = entry[1], true
		}
		return !found
	})
	return value, found, err
}

func (h *Heap) dictionaryProperties(o Object) ([]Property, error) {
	table, err := h.dictionaryOf(o)
	if err != nil {
		return nil, err
	}
	var properties []Property
	var orders []int
	add := func(key, value, details Value) {
		bits, ok := details.Smi()
		if !ok || len(properties) >= maxProperties {
			return
		}
		if properties == nil {
			used, _ := h.SmiField(table, arrayFirst)
			used = min(max(used, 1), usualProperties)
			properties, orders = make([]Property, 0, used), make([]int, 0, used)
		}
		p := h.property(key, bits)
		h.put(&p, value)
		properties, orders = append(properties, p), append(orders, bits>>enumerationShift)
	}
	if o.Map.Kind == "JSGlobalObject" {
		err = h.tableEntries(table, 1, func(entry []Value) bool {
			if cell, err := h.Object(entry[0]); err == nil {
				key, _ := h.FieldOf(cell, "PropertyCell", "name")
				value, _ := h.FieldOf(cell, "PropertyCell", "value")
				details, _ := h.FieldOf(cell, "PropertyCell", "property_details_raw")
				if !h.isAbsent(value) || h.Oddball(value) == "undefined" {
					add(key, value, details)
				}
			}
			return true
		})
	} else {
		err = h.tableEntries(table, dictionaryEntry, func(entry []Value) bool {
			add(entry[0], entry[1], entry[2])
			return true
		})
	}
	sort.Stable(byOrder{properties, orders})
	return properties, err
}

// byOrder sorts properties by the order in which they were added.
type byOrder struct {
	properties []Property
	orders     []int
}

func (b byOrder) Len() int           { return len(b.orders) }
func (b byOrder) Less(i, j int) bool { return b.orders[i] < b.orders[j] }
func (b byOrder) Swap(i, j int) {
	b.properties[i], b.properties[j] = b.properties[j], b.properties[i]
	b.orders[i], b.orders[j] = b.orders[j], b.orders[i]
}
