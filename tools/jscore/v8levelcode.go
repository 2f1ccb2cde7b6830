package jscore

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"ustack/symbolize/v8"
	"ustack/symbolize/v8/code"
	"ustack/symbolize/v8/stack"
	"ustack/symbolize/v8/value"
)

// A Table shows a V8 object as rows of a name and a value.
type Table struct {
	Title string `json:"title"`
	Rows  []Row  `json:"rows"`

	Disassembly *Listing `json:"disassembly,omitempty"`

	value v8.Value // what the table is about
}

// A Row is a name with a text or a V8 value.
type Row struct {
	Name  string `json:"name"`
	Text  string `json:"text,omitempty"`
	Value *Brief `json:"value,omitempty"`
}

func (t *Table) add(name, format string, args ...any) {
	t.Rows = append(t.Rows, Row{Name: name, Text: fmt.Sprintf(format, args...)})
}

func (t *Table) addValue(h *v8.Heap, name string, v v8.Value) {
	brief := value.BriefOf(h, v)
	t.Rows = append(t.Rows, Row{Name: name, Value: &brief})
}

// addField adds a field of o, if this version of V8 has it.
func (t *Table) addField(h *v8.Heap, o v8.Object, class, field string) {
	if v, err := h.FieldOf(o, class, field); err == nil {
		t.addValue(h, strings.ReplaceAll(field, "_", " "), v)
	}
}

// WriteText writes the title and a line for each row.
func (t *Table) WriteText(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintln(&b, t.Title)
	for _, r := range t.Rows {
		text := r.Text
		if r.Value != nil {
			text = fmt.Sprintf("%s (%v)", r.Value.Address, *r.Value)
		}
		fmt.Fprintf(&b, "%s%s: %s\n", indent, r.Name, text)
	}
	_, err := io.WriteString(w, b.String())
	if t.Disassembly != nil {
		err = errors.Join(err, t.Disassembly.WriteText(w))
	}
	return err
}

// Addresses returns what the table is about.
func (t *Table) Addresses() []v8.Value { return []v8.Value{t.value} }

// V8Function returns what V8 stores about the function v.
func (d *Dump) V8Function(v v8.Value) (*Table, error) {
	h := d.Heap()
	o, err := value.ObjectOf(h, v, "JSFunction")
	if err != nil {
		return nil, err
	}
	f, err := h.Function(o)
	if err != nil {
		return nil, err
	}
	t := &Table{Title: fmt.Sprintf("%s: %s: %s", Address(v), o.Map.KindName(), f), value: v}
	t.add("defined at", "%s", d.DefinedAt(f))
	t.addField(h, o, "JSFunction", "context")
	t.addField(h, o, "JSFunction", "shared")
	t.addField(h, o, "JSFunction", "raw_feedback_cell")
	if f.Script != 0 {
		t.addValue(h, "script", v8.Value(f.Script))
	}
	if code, err := d.codeOf(v); err == nil {
		t.addCode(code)
	}
	return t, nil
}

func (t *Table) addCode(c code.Code) {
	t.add("code", "%x", c.Address|1)
	t.add("instructions", "%x to %x", c.Start, c.Start+c.Size)
	t.add("tier", "%v", c.Tier)
}

// codeOf returns the machine code that a call of a function runs.
func (d *Dump) codeOf(function v8.Value) (code.Code, error) {
	if d.v8.Codes == nil {
		return code.Code{}, errors.New("find code: V8's table of it is not known")
	}
	var all error
	for _, isolate := range append(d.Isolates(), stack.Isolate{}) {
		found, err := d.v8.Codes.OfFunction(function, isolate.Address)
		if err == nil {
			return found, nil
		}
		all = err
	}
	return code.Code{}, all
}

// V8Code returns where the machine code of a function, or of a Code object, is.
func (d *Dump) V8Code(v v8.Value) (*Table, error) {
	h := d.Heap()
	o, err := value.ObjectOf(h, v, "JSFunction", "Code")
	if err != nil {
		return nil, err
	}
	t := &Table{Title: fmt.Sprintf("%s: %s", Address(v), o.Map.KindName()), value: v}
	if h.IsFunction(o) {
		running, err := d.codeOf(v)
		if err != nil {
			return nil, err
		}
		t.addCode(running)
		t.value = v8.Ref(running.Address)
		return t, nil
	}
	p, err := d.V8Print(v)
	if err != nil {
		return nil, err
	}
	for _, f := range p.Classes[0].Fields {
		switch {
		case f.Value != nil:
			t.Rows = append(t.Rows, Row{Name: f.Name, Value: f.Value})
		case f.Name == "instruction_start":
			t.add(f.Name, "%s", f.Word)
		default:
			t.add(f.Name, "%s", f.Raw)
		}
	}
	return t, nil
}

// V8Context returns the variables that the Context v holds.
func V8Context(h *v8.Heap, v v8.Value) (*Table, error) {
	o, err := value.ObjectOf(h, v, "Context")
	if err != nil {
		return nil, err
	}
	c, err := h.Context(o)
	if err != nil {
		return nil, err
	}
	t := &Table{Title: fmt.Sprintf("%s: %s of a %s scope", Address(v), o.Map.KindName(), c.Scope.Type), value: v}
	if c.Scope.Type == "function" {
		t.add("function", "%s", c.Scope.Function)
	}
	if c.Previous.IsObject() {
		t.addValue(h, "previous context", c.Previous)
	}
	for _, variable := range c.Variables {
		name := fmt.Sprintf("slot %d: %s", variable.Slot, variable.Name)
		if variable.IsNumber {
			t.add(name, "%s", value.FormatNumber(variable.Number))
			continue
		}
		t.addValue(h, name, variable.Value)
	}
	return t, nil
}

// V8Scope returns what the ScopeInfo v says about its scope.
func V8Scope(h *v8.Heap, v v8.Value) (*Table, error) {
	o, err := value.ObjectOf(h, v, "ScopeInfo")
	if err != nil {
		return nil, err
	}
	s, err := h.Scope(o)
	if err != nil {
		return nil, err
	}
	t := &Table{Title: fmt.Sprintf("%s: ScopeInfo of a %s scope", Address(v), s.Type), value: v}
	if s.Type == "function" {
		t.add("function", "%s", s.Function)
	}
	if s.Function.Start >= 0 {
		t.add("position", "%d to %d", s.Function.Start, s.Function.End)
	}
	for i, name := range s.Locals {
		t.add(fmt.Sprintf("context local %d", i), "%s", name)
	}
	return t, nil
}

// V8Map returns how objects with the map v are laid out; v may be such an object.
func V8Map(h *v8.Heap, v v8.Value) (*Table, error) {
	o, err := h.Object(v)
	if err != nil {
		return nil, err
	}
	m := o.Map
	if o.Map.Kind == "Map" {
		if m, err = h.MapAt(o.Address); err != nil {
			return nil, err
		}
	}
	value := v8.Ref(m.Address)
	t := &Table{Title: fmt.Sprintf("%s: Map of %s", Address(value), m.KindName()), value: value}
	t.add("instance type", "%d", m.Type)
	t.add("instance size", "%s", sizeText(m))
	t.add("elements", "%s", h.ElementsName(m))
	t.add("own properties", "%s", propertiesText(m))
	t.addValue(h, "prototype", m.Prototype)
	name := "constructor"
	if from, err := h.Object(m.Constructor); err == nil && from.Map.Kind == "Map" {
		name = "made from"
	}
	t.addValue(h, name, m.Constructor)
	fields, err := h.MapFields(m)
	for _, f := range fields {
		where := f.Kept
		switch {
		case f.Offset >= 0:
			where = fmt.Sprintf("at offset %d", f.Offset)
		case f.Index >= 0:
			where = fmt.Sprintf("at %d in the property array", f.Index)
		}
		t.add(fmt.Sprintf("%q", f.Name), "%s", where)
	}
	return t, err
}

func sizeText(m *v8.Map) string {
	if m.Size == 0 {
		return "it varies"
	}
	return fmt.Sprintf("%d bytes", m.Size)
}

func propertiesText(m *v8.Map) string {
	if m.Dictionary {
		return "in a dictionary"
	}
	return fmt.Sprint(m.Own)
}

// V8Internal returns the words that an embedder stores in the object v; only the one
// with that index, if index is not negative.
func V8Internal(h *v8.Heap, v v8.Value, index int) (*Values, error) {
	o, err := h.Object(v)
	if err != nil {
		return nil, err
	}
	fields, ok, err := h.InternalFields(o)
	switch {
	case err != nil:
		return nil, err
	case !ok:
		return nil, fmt.Errorf("a %s has no internal fields that are known", o.Map.KindName())
	case index >= len(fields):
		return nil, fmt.Errorf("find internal field %d: it has %d", index, len(fields))
	}
	values := &Values{Address: Address(v), Values: []Indexed{}, indices: index < 0}
	for i, field := range fields {
		if index < 0 || i == index {
			values.Values = append(values.Values, Indexed{i, rawBrief(h, field)})
		}
	}
	return values, nil
}

// rawBrief is BriefOf for a word that need not be a V8 value.
func rawBrief(h *v8.Heap, v v8.Value) Brief {
	b := value.BriefOf(h, v)
	if _, isSmi := v.Smi(); isSmi && v != 0 || b.Kind == "<bad>" {
		return Brief{Address: Address(v), Kind: "raw"}
	}
	return b
}

// V8Array returns the elements of a FixedArray or of another internal V8 array.
func V8Array(h *v8.Heap, v v8.Value) (*Values, error) {
	o, err := h.Object(v)
	if err != nil {
		return nil, err
	}
	words, err := h.Array(o, maxArray)
	if err != nil {
		return nil, err
	}
	values := &Values{Address: Address(v), Values: []Indexed{}}
	for i, word := range words {
		values.Values = append(values.Values, Indexed{i, value.BriefOf(h, word)})
	}
	return values, nil
}

// maxArray bounds the elements that are listed.
const maxArray = 1 << 20
