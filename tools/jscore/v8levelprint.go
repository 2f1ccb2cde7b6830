package jscore

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"ustack/symbolize/v8"
	"ustack/symbolize/v8/value"
)

// V8Printed is a V8 object with the known fields of its class and of that class's base
// classes.
type V8Printed struct {
	Brief
	Classes []value.ClassFields `json:"classes"` // the object's own first
}

// V8Print reads the fields of the object v, or shows v as a small integer.
func (d *Dump) V8Print(v v8.Value) (*V8Printed, error) {
	classes, err := value.Classes(d.Heap(), d.v8Classes(), v)
	if err != nil {
		return nil, err
	}
	return &V8Printed{value.BriefOf(d.Heap(), v), classes}, nil
}

// V8PrintAs reads the object v as if it were of a class.
func (d *Dump) V8PrintAs(v v8.Value, class string) (*V8Printed, error) {
	classes, err := value.ClassesAs(d.Heap(), d.v8Classes(), v, class)
	if err != nil {
		return nil, err
	}
	return &V8Printed{value.BriefOf(d.Heap(), v), classes}, nil
}

// WriteText writes the object as mdb_v8's v8print does: each class around its base class.
func (p *V8Printed) WriteText(w io.Writer) error {
	if len(p.Classes) == 0 {
		_, err := fmt.Fprintf(w, "%v\n", p.Brief)
		return err
	}
	return writeClasses(w, p.Address, p.Classes, "")
}

// writeClasses writes the first of the classes with the rest inside it. Classes without
// fields share a line.
func writeClasses(w io.Writer, address Address, classes []value.ClassFields, margin string) error {
	names := []string{classes[0].Name}
	for len(classes[0].Fields) == 0 && len(classes) > 1 {
		classes = classes[1:]
		names = append(names, classes[0].Name)
	}
	_, err := fmt.Fprintf(w, "%s%s %s {\n", margin, address, strings.Join(names, " < "))
	if len(classes) > 1 {
		err = errors.Join(err, writeClasses(w, address, classes[1:], margin+indent))
	}
	for _, f := range classes[0].Fields {
		text := fmt.Sprintf("%s (%v)", f.Word, f.Value)
		if f.Value == nil {
			text = f.Raw
		}
		_, writeErr := fmt.Fprintf(w, "%s%s%s %s = %s\n", margin, indent, f.At, f.Name, text)
		err = errors.Join(err, writeErr)
	}
	_, endErr := fmt.Fprintf(w, "%s}\n", margin)
	return errors.Join(err, endErr)
}

// V8Classes are the known classes of the program's V8.
type V8Classes struct {
	Classes []v8.Class
}

// MarshalJSON writes the list.
func (c *V8Classes) MarshalJSON() ([]byte, error) {
	type field struct {
		Name   string `json:"name"`
		Offset int    `json:"offset"`
		Type   string `json:"type,omitempty"`
	}
	type class struct {
		Name   string  `json:"name"`
		Parent string  `json:"parent,omitempty"`
		Fields []field `json:"fields"`
	}
	list := make([]class, len(c.Classes))
	for i, from := range c.Classes {
		list[i] = class{from.Name, from.Parent, make([]field, len(from.Fields))}
		for j, f := range from.Fields {
			list[i].Fields[j] = field(f)
		}
	}
	return json.Marshal(list)
}

// WriteText writes the names, one per line; a single class with its fields.
func (c *V8Classes) WriteText(w io.Writer) error {
	var err error
	for _, class := range c.Classes {
		if len(c.Classes) > 1 {
			_, err = fmt.Fprintln(w, class.Name)
			continue
		}
		_, err = fmt.Fprintf(w, "%s", class.Name)
		if class.Parent != "" {
			_, err = fmt.Fprintf(w, " < %s", class.Parent)
		}
		fmt.Fprintln(w)
		for _, f := range class.Fields {
			_, err = fmt.Fprintf(w, "%6d  %-32s %s\n", f.Offset, f.Name, f.Type)
		}
	}
	return err
}

// v8Classes returns the known classes of the process's V8, by name.
func (d *Dump) v8Classes() []v8.Class {
	if d.classes == nil {
		d.classes = d.v8.Binary.Classes()
	}
	return d.classes
}

// V8Classes returns all classes, or the one of that name; only that class's field if
// field is given.
func (d *Dump) V8Classes(name, field string) (*V8Classes, error) {
	if d.v8.Binary == nil {
		return nil, v8.ErrNotV8
	}
	classes := d.v8Classes()
	if name == "" {
		return &V8Classes{classes}, nil
	}
	at := slices.IndexFunc(classes, func(c v8.Class) bool { return c.Name == name })
	if at < 0 {
		return nil, fmt.Errorf("find class %s: V8 %v has none that is known (v8classes lists them)", name, d.v8.Binary.Version)
	}
	c := classes[at]
	if field == "" {
		return &V8Classes{[]v8.Class{c}}, nil
	}
	c.Fields = slices.DeleteFunc(slices.Clone(c.Fields), func(f v8.ClassField) bool { return f.Name != field })
	if len(c.Fields) == 0 {
		return nil, fmt.Errorf("find field %s of class %s: no such field (v8field %s lists them)", field, name, name)
	}
	return &V8Classes{[]v8.Class{c}}, nil
}

// A V8FieldSet is a field that was added to a class, or moved there.
type V8FieldSet struct {
	Class  string `json:"class"`
	Field  string `json:"field"`
	Offset int    `json:"offset"`
}

// maxFieldOffset bounds the offset of a field in bytes: V8's classes are smaller.
const maxFieldOffset = 1 << 20

// SetV8Field adds a field to a known class, or moves it, for V8Print.
func (d *Dump) SetV8Field(class, field string, offset uint64) (*V8FieldSet, error) {
	if _, err := d.V8Classes(class, ""); err != nil {
		return nil, err
	}
	if offset > maxFieldOffset {
		return nil, fmt.Errorf("field %s at offset %#x: beyond %#x", field, offset, maxFieldOffset)
	}
	set := v8.ClassField{Name: field, Offset: int(offset)}
	at := slices.IndexFunc(d.classes, func(c v8.Class) bool { return c.Name == class })
	c := &d.classes[at]
	if old := slices.IndexFunc(c.Fields, func(f v8.ClassField) bool { return f.Name == field }); old >= 0 {
		set.Type = c.Fields[old].Type
		c.Fields = slices.Delete(c.Fields, old, old+1)
	}
	c.Fields = append(c.Fields, set)
	slices.SortStableFunc(c.Fields, func(x, y v8.ClassField) int { return x.Offset - y.Offset })
	return &V8FieldSet{class, field, set.Offset}, nil
}

// WriteText writes the field as mdb_v8's v8field does.
func (s *V8FieldSet) WriteText(w io.Writer) error {
	_, err := fmt.Fprintf(w, "%s::%s at offset %#x\n", s.Class, s.Field, s.Offset)
	return err
}

// Numbered are numbers with V8's names: of instance types, or of frame types.
type Numbered []NumberedName

// A NumberedName is a number with V8's names for it.
type NumberedName struct {
	Number int    `json:"number"`
	Name   string `json:"name,omitempty"`
	Class  string `json:"class,omitempty"`
}

// WriteText writes a line for each number.
func (n Numbered) WriteText(w io.Writer) error {
	for _, t := range n {
		if _, err := fmt.Fprintln(w, strings.TrimRight(fmt.Sprintf("%5d  %-40s %s", t.Number, t.Name, t.Class), " ")); err != nil {
			return err
		}
	}
	return nil
}

// V8Types returns the known instance types of the program's V8.
func (d *Dump) V8Types() (Numbered, error) {
	if d.v8.Binary == nil {
		return nil, v8.ErrNotV8
	}
	list := Numbered{}
	for _, t := range d.v8.Binary.InstanceTypes() {
		list = append(list, NumberedName{int(t.Number), t.Name, t.Class})
	}
	return list, nil
}

// V8FrameTypes returns the frame types of the program's V8.
func (d *Dump) V8FrameTypes() (Numbered, error) {
	if d.v8.Binary == nil {
		return nil, v8.ErrNotV8
	}
	list := Numbered{}
	for _, t := range d.v8.Binary.FrameKinds() {
		list = append(list, NumberedName{Number: t.Number, Name: t.Name})
	}
	return list, nil
}
