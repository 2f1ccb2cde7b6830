package value

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strconv"

	"ustack/symbolize/v8"
)

// maxClassDepth bounds the length of a chain of base classes.
const maxClassDepth = 16

// ClassFields are a class of V8's with the contents of an object's fields.
type ClassFields struct {
	Name   string  `json:"name"`
	Fields []Field `json:"fields"`
}

// A Field is a field of an object.
type Field struct {
	At    Address `json:"at"` // untagged
	Name  string  `json:"name"`
	Word  Address `json:"word"`
	Value *Brief  `json:"value,omitempty"` // of a field that holds a value
	Raw   string  `json:"raw,omitempty"`   // of any other field
}

// Classes reads the fields of the object v, of its own class first and then of each base
// class. It returns none for a small integer and for an object whose class is not known.
func Classes(h *v8.Heap, known []v8.Class, v v8.Value) ([]ClassFields, error) {
	if _, ok := v.Smi(); ok {
		return nil, nil
	}
	o, err := h.Object(v.Strong())
	if err != nil {
		return nil, err
	}
	return classesOf(h, known, o, o.Map.Kind), nil
}

// ClassesAs is Classes for an object that is read as if it were of the named class.
func ClassesAs(h *v8.Heap, known []v8.Class, v v8.Value, name string) ([]ClassFields, error) {
	o, err := h.Object(v.Strong())
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(known, func(c v8.Class) bool { return c.Name == name }) {
		return nil, fmt.Errorf("no class %s is known (v8classes lists those that are)", name)
	}
	return classesOf(h, known, o, name), nil
}

// classesOf reads the fields of the named class and of its base classes in o.
func classesOf(h *v8.Heap, known []v8.Class, o v8.Object, name string) []ClassFields {
	var classes []ClassFields
	for name != "" && len(classes) < maxClassDepth {
		at := slices.IndexFunc(known, func(c v8.Class) bool { return c.Name == name })
		if at < 0 {
			break
		}
		class := ClassFields{Name: name, Fields: []Field{}}
		for _, f := range known[at].Fields {
			if within(o, f) {
				class.Fields = append(class.Fields, readField(h, o, f))
			}
		}
		classes = append(classes, class)
		name = known[at].Parent
	}
	return classes
}

// within reports whether o has a field that objects of its class may lack: a function's
// prototype, and the embedder's fields of an object that is not an embedder's.
func within(o v8.Object, f v8.ClassField) bool {
	if f.Name == "internal_fields" && o.Map.Kind != "JSApiObject" {
		return false
	}
	return o.Map.Size == 0 || f.Offset < o.Map.Size
}

func readField(h *v8.Heap, o v8.Object, f v8.ClassField) Field {
	p := Field{At: Address(o.Address + uint64(f.Offset)), Name: f.Name}
	var b [8]byte
	if _, err := h.ReadAt(b[:f.Size()], uint64(p.At)); err != nil {
		p.Raw = "<bad>"
		return p
	}
	word := binary.LittleEndian.Uint64(b[:])
	p.Word = Address(word)
	switch brief := BriefOf(h, v8.Value(word)); {
	case f.Type == "double":
		p.Raw = FormatNumber(math.Float64frombits(word))
	case f.Raw() || f.Type == "" && brief.Kind == "<bad>":
		p.Raw = strconv.FormatUint(word, 10)
	default:
		p.Value = &brief
	}
	return p
}
