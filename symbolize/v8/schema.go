package v8

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// A Class is a C++ class of V8 that represents heap objects.
type Class struct {
	Name   string
	Parent string // empty if it has none
	Fields []ClassField
}

// A ClassField is a field of a class.
type ClassField struct {
	Name   string
	Offset int    // bytes from the object's start
	Type   string // of C++: "SMI", "Map", "int32_t" …; empty if not known
}

// Size is how many bytes the field takes, by its type.
func (f ClassField) Size() int {
	switch f.Type {
	case "char":
		return 1
	case "uint16_t", "int16_t":
		return 2
	case "int", "int32_t", "uint32_t":
		return 4
	}
	return wordSize - f.Offset%wordSize
}

// Raw reports whether the field holds bytes, not a Value.
func (f ClassField) Raw() bool {
	switch f.Type {
	case "char", "uint16_t", "int16_t", "int", "int32_t", "uint32_t", "size_t", "uintptr_t", "Address", "double":
		return true
	}
	return f.Offset%wordSize != 0
}

// An InstanceType is the number in a Map that identifies the type of its objects.
type InstanceType struct {
	Number uint16
	Name   string // as in V8's source: "JS_OBJECT_TYPE"; empty if the binary does not say
	Class  string
}

// A FrameType is the number that marks the type of a typed frame.
type FrameType struct {
	Number int
	Name   string // "EntryFrame"
}

// maxParents bounds the depth of a class hierarchy.
const maxParents = 16

// Classes returns the known classes of the binary's V8, by name.
func (b *Binary) Classes() []Class {
	found := map[string]*Class{}
	class := func(name string) *Class {
		if found[name] == nil {
			found[name] = &Class{Name: name, Parent: b.parent(name)}
		}
		return found[name]
	}
	for name, v := range b.metadata {
		rest, ok := strings.CutPrefix(name, "class_")
		parts := strings.SplitN(rest, "__", 3)
		if !ok || len(parts) < 2 {
			continue
		}
		f := ClassField{Name: strings.TrimSuffix(parts[1], "_offset"), Offset: int(v)}
		if len(parts) == 3 {
			f.Type = plainType(parts[2])
		}
		class(parts[0]).add(f)
	}
	for name, offset := range b.Release.Fields {
		of, field, _ := strings.Cut(name, ".")
		class(of).add(ClassField{Name: field, Offset: int(offset)})
	}
	for _, kind := range b.kinds {
		class(kind)
	}
	for _, name := range slices.Collect(maps.Keys(found)) {
		for depth := 0; name != "" && depth < maxParents; depth++ {
			name = class(name).Parent
		}
	}
	classes := make([]Class, 0, len(found))
	for _, c := range found {
		slices.SortFunc(c.Fields, func(x, y ClassField) int {
			return cmp.Or(x.Offset-y.Offset, strings.Compare(x.Name, y.Name))
		})
		classes = append(classes, *c)
	}
	slices.SortFunc(classes, func(x, y Class) int { return strings.Compare(x.Name, y.Name) })
	return classes
}

// add adds a field unless it exists. If the metadata has two types for it, the
// first by name wins.
func (c *Class) add(f ClassField) {
	if f.Offset < 0 {
		return
	}
	at := slices.IndexFunc(c.Fields, func(old ClassField) bool { return old.Name == f.Name })
	switch {
	case at < 0:
		c.Fields = append(c.Fields, f)
	case c.Fields[at].Type == "" || f.Type != "" && f.Type < c.Fields[at].Type:
		c.Fields[at] = f
	}
}

// plainType returns a type from the metadata without the wrapper that V8 12 and
// later put around reference types.
func plainType(text string) string {
	inner, ok := strings.CutPrefix(text, "Tagged_")
	if !ok {
		return text
	}
	return strings.TrimSuffix(inner, "_")
}

// parent returns the base class of a class, "" for the root class. The metadata of
// V8 12 and later lacks it for most classes.
func (b *Binary) parent(class string) string {
	if class == "HeapObject" {
		return ""
	}
	prefix := "parent_" + class + "__"
	for name := range b.metadata {
		if parent, ok := strings.CutPrefix(name, prefix); ok && parent != "AllStatic" && parent != "TaggedImpl" {
			return parent
		}
	}
	if parent, ok := parents[class]; ok {
		return parent
	}
	switch {
	case strings.HasPrefix(class, "JS"):
		return "JSObject"
	case strings.HasSuffix(class, "String"):
		return "String"
	case strings.HasSuffix(class, "Context"):
		return "Context"
	}
	return "HeapObject"
}

// parents has the base classes that cannot be derived from class names.
var parents = map[string]string{
	"JSObject": "JSReceiver", "JSReceiver": "HeapObject", "JSProxy": "JSReceiver",
	"JSTypedArray": "JSArrayBufferView", "JSDataView": "JSArrayBufferView", "JSRabGsabDataView": "JSArrayBufferView",
	"JSAsyncFunctionObject": "JSGeneratorObject", "JSAsyncGeneratorObject": "JSGeneratorObject",
	"JSWeakMap": "JSWeakCollection", "JSWeakSet": "JSWeakCollection",
	"JSAsyncFunction": "JSFunction", "JSClassConstructor": "JSFunction",

	"HeapNumber": "PrimitiveHeapObject", "Oddball": "PrimitiveHeapObject", "BigInt": "PrimitiveHeapObject",
	"Name": "PrimitiveHeapObject", "String": "Name", "Symbol": "Name",
	"SeqOneByteString": "SeqString", "SeqTwoByteString": "SeqString",
	"ExternalOneByteString": "ExternalString", "ExternalTwoByteString": "ExternalString",

	"FixedArray": "FixedArrayBase", "FixedDoubleArray": "FixedArrayBase", "ByteArray": "FixedArrayBase",
	"BytecodeArray": "FixedArrayBase", "HashTable": "FixedArray", "ArrayList": "FixedArray",
	"NameDictionary": "FixedArray", "NumberDictionary": "FixedArray", "GlobalDictionary": "FixedArray",
	"OrderedHashMap": "FixedArray", "OrderedHashSet": "FixedArray", "EphemeronHashTable": "FixedArray",
	"TrustedFixedArray": "FixedArrayBase", "ProtectedFixedArray": "FixedArrayBase", "TrustedByteArray": "FixedArrayBase",
	"Context":                           "HeapObject",
	"UncompiledDataWithPreparseData":    "UncompiledData",
	"UncompiledDataWithoutPreparseData": "UncompiledData",
}

// InstanceTypes returns the known instance types of the binary's V8, by number.
func (b *Binary) InstanceTypes() []InstanceType {
	names := map[uint16]string{}
	for _, name := range slices.Sorted(maps.Keys(b.metadata)) {
		if rest, ok := strings.CutPrefix(name, "type_"); ok {
			if _, constant, ok := strings.Cut(rest, "__"); ok {
				names[uint16(b.metadata[name])] = constant
			}
		}
	}
	var types []InstanceType
	for number, class := range b.kinds {
		types = append(types, InstanceType{number, names[number], class})
	}
	slices.SortFunc(types, func(x, y InstanceType) int { return int(x.Number) - int(y.Number) })
	return types
}

// CheckTypes returns an error if the release and the binary's metadata name an
// instance type differently.
func (b *Binary) CheckTypes() error {
	names := map[uint16]string{}
	for class, n := range b.Release.Types {
		names[n] = class
	}
	for name, v := range b.metadata {
		rest, ok := strings.CutPrefix(name, "type_")
		class, _, _ := strings.Cut(rest, "__")
		if other := names[uint16(v)]; ok && other != "" && other != class {
			return fmt.Errorf("type %d is %s, not %s", v, class, other)
		}
	}
	return nil
}

// FrameKinds returns the types of frames, by number.
func (b *Binary) FrameKinds() []FrameType {
	var types []FrameType
	for name, v := range b.metadata {
		if frame, ok := strings.CutPrefix(name, "frametype_"); ok {
			types = append(types, FrameType{int(v), frame})
		}
	}
	slices.SortFunc(types, func(x, y FrameType) int { return x.Number - y.Number })
	return types
}

// A MapField is a property that a map describes, and where its objects keep it.
type MapField struct {
	Property        // its value is a constant's, held by the map
	Offset   int    // in the object, in bytes; below 0 if not in the object
	Index    int    // in words in the property array; below 0 if not there
	Kept     string // "in object", "property array" or "map"
}

// MapProperties yields the properties that a map describes, as far as they can be read, in order.
func (h *Heap) MapProperties(m *Map) iter.Seq[*Property] {
	return func(yield func(*Property) bool) {
		if m.Dictionary {
			return
		}
		descriptors, _ := h.describe(m)
		for i := range descriptors {
			if !yield(&descriptors[i].property) {
				return
			}
		}
	}
}

// MapFields returns the properties that a map describes, in order; none for the
// map of objects that keep them in a dictionary.
func (h *Heap) MapFields(m *Map) ([]MapField, error) {
	if m.Dictionary {
		return nil, nil
	}
	descriptors, err := h.describe(m)
	fields := make([]MapField, 0, len(descriptors))
	inObject := 0
	if m.Size > 0 {
		inObject = max(0, m.Size/wordSize-m.InObject)
	}
	for _, d := range descriptors {
		f := MapField{Property: d.property, Offset: -1, Index: -1, Kept: "map"}
		switch {
		case d.field >= inObject:
			f.Index, f.Kept = d.field-inObject, "property array"
		case d.field >= 0:
			f.Offset, f.Kept = (m.InObject+d.field)*wordSize, "in object"
		}
		fields = append(fields, f)
	}
	return fields, err
}

// elementsKinds are V8's names for the elements kinds of plain objects and
// arrays; the dictionary's number is in the metadata.
var elementsKinds = []string{
	"packed smi", "holey smi", "packed", "holey", "packed double", "holey double",
	"packed nonextensible", "holey nonextensible", "packed sealed", "holey sealed", "packed frozen", "holey frozen",
}

// ElementsName names the elements kind of a map's objects.
func (h *Heap) ElementsName(m *Map) string {
	switch {
	case m.ElementsKind == h.at.dictionaryElements:
		return "dictionary"
	case m.ElementsKind < len(elementsKinds):
		return elementsKinds[m.ElementsKind]
	}
	return "kind " + strconv.Itoa(m.ElementsKind)
}

// InternalFields returns the words that an embedder stores in o through the V8
// API: values, or addresses outside V8's heap. ok is false for objects of kinds
// that embedders do not create.
func (h *Heap) InternalFields(o Object) (fields []Value, ok bool, err error) {
	switch o.Map.Kind {
	case "JSApiObject", "JSSpecialApiObject":
	default:
		return nil, false, nil
	}
	start := h.release.Objects.EmbedderFields
	count := o.Map.InObject - start/wordSize
	if count <= 0 {
		return nil, true, nil
	}
	fields, err = h.words(o.Address+uint64(start), count)
	return fields, true, err
}
