package v8

import (
	"fmt"
	"slices"
)

// Bounds on the contents of one object.
const (
	maxProperties = 1 << 20
	maxElements   = 1 << 27 // V8's longest FixedArray
	maxBlock      = 1 << 12 // words read at a time
)

// A Property is an object's own property with a name or a symbol.
type Property struct {
	Key            Value  // String or Symbol
	Name           string // exact text; of a symbol: its description
	Symbol         bool
	Value          Value // unset for an accessor
	Accessor       bool
	Getter, Setter Value // of an accessor; a native one has neither
	Hidden         bool  // not enumerable
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
	properties, err := h.Properties(o)
	i := slices.IndexFunc(properties, func(p Property) bool { return p.Name == name && !p.Symbol && !p.Accessor })
	if i < 0 {
		return 0, false, err
	}
	return properties[i].Value, true, nil
}

// Details of a property: bits that are the same in every supported version of V8.
const (
	readOnlyBit = 1
	hiddenBit   = 2
)

// describe reads m's descriptors, once. If part of them cannot be read, it
// returns the rest with an error.
func (h *Heap) describe(m *Map) ([]descriptor, error) {
	if !m.described && m.Own > 0 {
		m.descriptors, m.describeErr = h.readDescriptors(m)
		m.described = true
	}
	return m.descriptors, m.describeErr
}

func (h *Heap) readDescriptors(m *Map) (found []descriptor, err error) {
	array, err := h.Object(m.Descriptors)
	if err != nil {
		return nil, fmt.Errorf("read descriptors: %w", err)
	}
	words, err := h.words(array.Address+uint64(h.layout.DescriptorsHeader), m.Own*descriptorSize/wordSize)
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
		return h.readKeyName(key)
	}
	n := &h.names[key.Address()/wordSize%namesKept]
	if n.key != key {
		n.name, n.symbol = h.readKeyName(key)
		n.key = key
	}
	return n.name, n.symbol
}

func (h *Heap) readKeyName(key Value) (name string, symbol bool) {
	o, err := h.Object(key)
	if err != nil {
		return fmt.Sprintf("<bad key %#x>", uint64(key)), false
	}
	if o.Map.Kind == "Symbol" {
		symbol = true
		if key, err = h.FieldOf(o, "Symbol", "name"); err != nil {
			return "", true
		}
		if h.Oddball(key) == "undefined" {
			return "", true
		}
	}
	name, _, err = h.Exact(key, maxName)
	if err != nil {
		name = fmt.Sprintf("<bad key %#x>", uint64(key))
	}
	return name, symbol
}

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
)

// tableEntries visits the used entries of a hash table, with which it ends. Each has size
// words, the first of which is the key.
func (h *Heap) tableEntries(table Object, size int, visit func(entry []Value)) error {
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
	perBlock := maxBlock / size
	for at := length - capacity*size; at+size <= length; {
		count := min(perBlock, (length-at)/size)
		words, err := h.words(table.Address+arrayFirst+uint64(at)*wordSize, count*size)
		for ; len(words) >= size; words = words[size:] {
			if !h.isAbsent(words[0]) {
				visit(words[:size])
			}
		}
		if err != nil {
			return fmt.Errorf("read table at %#x: %w", table.Address, err)
		}
		at += count * size
	}
	return nil
}

// isAbsent reports whether a key marks an unused entry: never set, or removed.
func (h *Heap) isAbsent(key Value) bool {
	if _, ok := key.Smi(); ok {
		return false
	}
	switch h.Oddball(key) {
	case "undefined", "hole":
		return true
	}
	return false
}

// enumerationShift is the position of a property's order in a dictionary's
// details.
const enumerationShift = 8

func (h *Heap) dictionaryProperties(o Object) ([]Property, error) {
	raw, err := h.Field(o, h.at.properties)
	if err != nil {
		return nil, err
	}
	table, err := h.Object(raw)
	if err != nil {
		return nil, fmt.Errorf("read properties at %#x: %w", o.Address, err)
	}
	type ordered struct {
		property Property
		order    int
	}
	var found []ordered
	add := func(key, value, details Value) {
		bits, ok := details.Smi()
		if !ok || len(found) >= maxProperties {
			return
		}
		p := h.property(key, bits)
		h.put(&p, value)
		found = append(found, ordered{p, bits >> enumerationShift})
	}
	if o.Map.Kind == "JSGlobalObject" {
		err = h.tableEntries(table, 1, func(entry []Value) {
			if cell, err := h.Object(entry[0]); err == nil {
				key, _ := h.FieldOf(cell, "PropertyCell", "name")
				value, _ := h.FieldOf(cell, "PropertyCell", "value")
				details, _ := h.FieldOf(cell, "PropertyCell", "property_details_raw")
				if !h.isAbsent(value) || h.Oddball(value) == "undefined" {
					add(key, value, details)
				}
			}
		})
	} else {
		err = h.tableEntries(table, 3, func(entry []Value) { add(entry[0], entry[1], entry[2]) })
	}
	slices.SortStableFunc(found, func(a, b ordered) int { return a.order - b.order })
	properties := make([]Property, len(found))
	for i, f := range found {
		properties[i] = f.property
	}
	return properties, err
}
