package v8

// A function's map describes its properties in order: "length" is the first,
// "name" the second, until a program deletes either. A name taken from the source
// is an accessor; V8 makes it a field with a value if the name was computed, as
// in {['a' + 'b']() {}}.
const (
	nameDescriptor  = 1
	descriptorSize  = 3 * wordSize
	descriptorCount = 1<<10 - 1
	fieldIndex      = 1<<10 - 1
	isAccessor      = 1
)

// ownName returns the value of the function's own property "name" if it is a
// string in a field, "" otherwise.
func (h heap) ownName(fn object) (string, error) {
	l := &h.layout
	bits, err := h.uint32(fn.mapped + uint64(l.MapBitField3))
	if err != nil {
		return "", err
	}
	if bits>>l.DictionaryBit&1 != 0 || bits>>l.DescriptorShift&descriptorCount <= nameDescriptor {
		return "", nil
	}
	descriptors, err := h.word(fn.mapped + uint64(l.MapDescriptors))
	if err != nil {
		return "", err
	}
	array, err := h.object(descriptors)
	if err != nil {
		return "", err
	}
	entry := l.DescriptorsHeader + nameDescriptor*descriptorSize
	key, err := h.field(array, entry)
	if err != nil {
		return "", err
	}
	if text, err := h.textIfString(key); err != nil || text != "name" {
		return "", err
	}
	details, err := h.smiField(array, entry+wordSize)
	if err != nil || details&isAccessor != 0 || details>>l.DetailsLocation&1 != 0 {
		return "", err
	}
	value, err := h.propertyField(fn, details>>l.DetailsIndex&fieldIndex)
	if err != nil {
		return "", err
	}
	return h.textIfString(value)
}

// propertyField reads a field by its index: the first fields are in the object,
// as far as its map reserves room for them, the rest in its property array.
func (h heap) propertyField(o object, index int) (uint64, error) {
	l := &h.layout
	size, err := h.uint8(o.mapped + uint64(l.MapInstanceSize))
	if err != nil {
		return 0, err
	}
	start, err := h.uint8(o.mapped + uint64(l.MapInobject))
	if err != nil {
		return 0, err
	}
	if inside := int(size) - int(start); index >= inside {
		return h.arrayField(o, index-inside)
	}
	return h.word(o.address + uint64(int(start)+index)*wordSize)
}

// arrayField reads the element at index of o's property array; 0 if it has none.
func (h heap) arrayField(o object, index int) (uint64, error) {
	tagged, err := h.field(o, h.layout.FunctionProperties)
	if err != nil || !isObject(tagged) {
		return 0, err
	}
	array, err := h.object(tagged)
	if err != nil || array.typ != h.layout.PropertyArray {
		return 0, err
	}
	length, err := h.smiField(array, arrayLength)
	if err != nil || index < 0 || index >= length&propertyLength {
		return 0, err
	}
	return h.word(array.address + arrayFirst + uint64(index)*wordSize)
}

// propertyLength masks a PropertyArray's length; the identity hash is in the bits
// above.
const propertyLength = 1<<10 - 1
