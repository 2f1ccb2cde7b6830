package v8

// A function's map describes its properties in order: "length" is the first,
// "name" the second, until a program deletes either. A name taken from the source
// is an accessor; V8 makes it a field with a value if the name was computed, as
// in {['a' + 'b']() {}}. If a program sets the name, the function's properties are
// in a dictionary from then on.
const (
	nameDescriptor  = 1
	descriptorSize  = 3 * wordSize
	descriptorCount = 1<<10 - 1
	fieldIndex      = 1<<10 - 1
	isAccessor      = 1
)

// ownName returns the value of the function's own property "name" if it is a
// string, "" otherwise.
func (h *Heap) ownName(fn Object) (string, error) {
	if fn.Map.Dictionary {
		return h.nameInDictionary(fn)
	}
	if fn.Map.Own <= nameDescriptor {
		return "", nil
	}
	array, err := h.Object(fn.Map.Descriptors)
	if err != nil {
		return "", err
	}
	words, err := h.descriptorWords(array, nameDescriptor, 1)
	if err != nil {
		return "", err
	}
	d, err := h.descriptor(array, words)
	if err != nil || d.property.Name != "name" || d.property.Symbol || d.property.Accessor || d.field < 0 {
		return "", err
	}
	value, err := h.propertyField(fn, d.field)
	if err != nil {
		return "", err
	}
	return h.Name(value)
}

// nameInDictionary is ownName for a function whose properties are in a dictionary.
func (h *Heap) nameInDictionary(fn Object) (string, error) {
	v, ok, err := h.Own(fn, "name")
	if !ok || err != nil {
		return "", err
	}
	if o, err := h.Object(v); err != nil || !h.IsString(o) {
		return "", nil // it is a number, say
	}
	return h.Name(v)
}

// propertyField reads a field by its index: the first fields are in the object,
// as far as its map reserves room for them, the rest in its property array.
func (h *Heap) propertyField(o Object, index int) (Value, error) {
	if inside := o.Map.Size/wordSize - o.Map.InObject; index >= inside {
		return h.arrayField(o, index-inside)
	}
	return h.Field(o, (o.Map.InObject+index)*wordSize)
}

// arrayField reads the element at index of o's property array; 0 if it has none.
func (h *Heap) arrayField(o Object, index int) (Value, error) {
	v, err := h.Field(o, int(h.layout.FunctionProperties))
	if err != nil || !v.IsObject() {
		return 0, err
	}
	array, err := h.Object(v)
	if err != nil || array.Map.Type != h.layout.PropertyArray {
		return 0, err
	}
	length, err := h.SmiField(array, arrayLength)
	if err != nil || index < 0 || index >= length&propertyLength {
		return 0, err
	}
	return h.Field(array, arrayFirst+index*wordSize)
}

// propertyLength masks a PropertyArray's length; the identity hash is in the bits
// above.
const propertyLength = 1<<10 - 1
