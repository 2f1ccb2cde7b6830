package jscore

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"ustack/symbolize/v8"
	"ustack/symbolize/v8/value"
)

const maxBrief = 255 // characters shown of a string next to its address, as in mdb_v8

// A Brief is a short description of a V8 value.
type Brief struct {
	Address Address `json:"address"`         // tagged; for a small integer, its word
	Kind    string  `json:"kind"`            // V8's class: "JSObject", "ConsString", "SMI"
	Class   string  `json:"class,omitempty"` // of a JavaScript object: its constructor
	Text    string  `json:"text,omitempty"`  // of a string, number, symbol, function, script …
	Weak    bool    `json:"weak,omitempty"`
}

// BriefOf describes v. What cannot be read has the kind "<bad>".
func BriefOf(h *v8.Heap, v v8.Value) Brief {
	b := Brief{Address: Address(v), Kind: "SMI", Weak: v.IsWeak()}
	if n, ok := v.Smi(); ok {
		b.Text = strconv.Itoa(n)
		return b
	}
	if !v.IsObject() {
		if b.Kind = "<bad>"; uint32(v) == 3 {
			b.Kind = "cleared weak reference"
		}
		return b
	}
	o, err := h.Object(v.Strong())
	if err != nil {
		b.Kind = "<bad>"
		return b
	}
	b.Kind = o.Map.KindName()
	b.describe(h, o)
	return b
}

// describe sets Class and Text.
func (b *Brief) describe(h *v8.Heap, o v8.Object) {
	switch {
	case h.IsString(o):
		b.Text = briefText(h, o.Ref())
	case h.IsFunction(o):
		if f, err := h.Function(o); err == nil {
			b.Text = f.String()
		}
	case o.Map.Kind == "JSBoundFunction":
		if target, err := h.Object(unbound(h, o.Ref())); err == nil && h.IsFunction(target) {
			f, _ := h.Function(target) // what cannot be read has no name
			b.Text = "bound " + f.String()
		}
	case h.IsReceiver(o):
		b.Class, _ = h.Class(o) // empty if it cannot be read
	default:
		b.describeInternal(h, o)
	}
}

func (b *Brief) describeInternal(h *v8.Heap, o v8.Object) {
	switch o.Map.Kind {
	case "HeapNumber":
		if n, ok := h.Number(o.Ref()); ok {
			b.Text = value.FormatNumber(n)
		}
	case "Oddball", "Hole":
		b.Text = h.Oddball(o.Ref())
	case "Symbol":
		if name, err := h.FieldOf(o, "Symbol", "description"); err == nil {
			b.Text = briefText(h, name)
		}
	case "Script":
		if name, err := h.FieldOf(o, "Script", "name"); err == nil {
			b.Text = briefText(h, name)
		}
	case "SharedFunctionInfo":
		if f, err := h.Shared(o); err == nil {
			b.Text = f.String()
		}
	}
}

// briefText returns the beginning of a string, empty if v is not a string.
func briefText(h *v8.Heap, v v8.Value) string {
	o, err := h.Object(v)
	if err != nil || !h.IsString(o) {
		return ""
	}
	text, length, err := h.Text(v, maxBrief)
	if err != nil {
		return "<bad>"
	}
	if length > maxBrief {
		text += "…"
	}
	return text
}

// String returns what mdb_v8 shows in brackets: "JSObject: Server", "SMI: value = 1".
func (b Brief) String() string {
	text := b.Kind
	switch {
	case b.Kind == "SMI":
		return "SMI: value = " + b.Text
	case b.Kind == "JSFunction", b.Kind == "JSBoundFunction", b.Kind == "HeapNumber", b.Kind == "SharedFunctionInfo":
		text += ": " + b.Text
	case b.Kind == "Symbol", b.Kind == "Oddball", b.Kind == "Hole", strings.HasSuffix(b.Kind, "String"), b.Text != "":
		text += ": " + strconv.Quote(b.Text)
	case b.Class != "" && b.Kind != "JS"+b.Class:
		text += ": " + b.Class
	}
	if b.Weak {
		text = "weak " + text
	}
	return text
}

// WriteText writes the value's word and description.
func (b Brief) WriteText(w io.Writer) error {
	_, err := fmt.Fprintf(w, "0x%s: %s\n", b.Address, b)
	return err
}

// Addresses returns the value itself.
func (b Brief) Addresses() []v8.Value { return []v8.Value{v8.Value(b.Address)} }

// A V8String is a string and how V8 represents it.
type V8String struct {
	Address Address `json:"address"`
	Length  int     `json:"length"` // in UTF-16 code units
	Text    string  `json:"text"`
	Cut     bool    `json:"cut,omitempty"` // the text is only the beginning
	Parts   *Part   `json:"parts,omitempty"`
}

// A Part is a string from which another is made, or that string itself.
type Part struct {
	Address Address `json:"address"`
	Kind    string  `json:"kind"`
	Length  int     `json:"length"`
	Offset  int     `json:"offset,omitempty"` // of a slice, in its parent
	Text    string  `json:"text,omitempty"`   // if it has no parts
	Parts   []*Part `json:"parts,omitempty"`
	Trouble string  `json:"trouble,omitempty"`
}

// Bounds on how far a string is taken apart.
const (
	maxStringDepth = 1 << 6
	maxStringParts = 1 << 10
)

// V8Str reads the string v, with its parts if requested.
func V8Str(h *v8.Heap, v v8.Value, withParts bool) (*V8String, error) {
	o, err := h.Object(v)
	if err != nil {
		return nil, err
	}
	if !h.IsString(o) {
		return nil, fmt.Errorf("read string: it is a %s", o.Map.KindName())
	}
	s := &V8String{Address: Address(v)}
	if s.Text, s.Length, err = h.Text(v, value.MaxText); err != nil {
		return nil, err
	}
	s.Cut = s.Length > value.MaxText
	if withParts {
		left := maxStringParts
		s.Parts = partOf(h, v, maxStringDepth, &left)
	}
	return s, nil
}

// partOf describes the string v and its parts.
func partOf(h *v8.Heap, v v8.Value, depth int, left *int) *Part {
	p := &Part{Address: Address(v)}
	*left--
	o, err := h.Object(v)
	if err != nil || !h.IsString(o) {
		p.Trouble = errors.Join(errors.New("no string"), err).Error()
		return p
	}
	p.Kind = o.Map.KindName()
	text, length, err := h.Text(v, maxBrief)
	if p.Length = length; err != nil {
		p.Trouble = err.Error()
	}
	fields := stringParts[p.Kind]
	if len(fields) == 0 {
		p.Text = text
	}
	if at, err := h.FieldOf(o, "SlicedString", "offset"); err == nil && p.Kind == "SlicedString" {
		p.Offset, _ = at.Smi()
	}
	for _, field := range fields {
		if depth == 0 || *left <= 0 {
			p.Trouble = "made of more parts than are shown"
			break
		}
		part, err := h.FieldOf(o, p.Kind, field)
		if err != nil {
			p.Trouble = err.Error()
			continue
		}
		p.Parts = append(p.Parts, partOf(h, part, depth-1, left))
	}
	return p
}

// stringParts are the fields in which strings refer to others.
var stringParts = map[string][]string{
	"ConsString": {"first", "second"}, "SlicedString": {"parent"}, "ThinString": {"actual"},
}

// WriteText writes the text, after its parts if there are any.
func (s *V8String) WriteText(w io.Writer) error {
	if s.Parts != nil {
		if err := s.Parts.write(w, ""); err != nil {
			return err
		}
	}
	text := s.Text
	if s.Cut {
		text += "…"
	}
	_, err := fmt.Fprintln(w, text)
	return err
}

// Addresses returns the string's address.
func (s *V8String) Addresses() []v8.Value { return []v8.Value{v8.Value(s.Address)} }

func (p *Part) write(w io.Writer, margin string) error {
	fmt.Fprintf(w, "%s%s %s\n", margin, p.Address, p.Kind) // an error is returned again below
	_, err := fmt.Fprintf(w, "%s    length: %d\n", margin, p.Length)
	switch {
	case p.Trouble != "":
		_, err = fmt.Fprintf(w, "%s    <bad>: %s\n", margin, p.Trouble)
	case p.Kind == "SlicedString":
		_, err = fmt.Fprintf(w, "%s    offset: %d\n", margin, p.Offset)
	case len(p.Parts) == 0:
		_, err = fmt.Fprintf(w, "%s    value: %q\n", margin, p.Text)
	}
	for i, part := range p.Parts {
		fmt.Fprintf(w, "%s    ptr%d: %s\n", margin, i+1, part.Address)
		err = part.write(w, margin+"        ")
	}
	return err
}

// Values are V8 words in order, such as the elements of an array.
type Values struct {
	Address Address   `json:"address,omitempty"` // of the object that holds them, if there is one
	Values  []Indexed `json:"values"`

	indices bool
}

// An Indexed is a value with its index.
type Indexed struct {
	Index int `json:"index"`
	Brief
}

// WriteText writes an address per line, with its index and description if requested.
func (a *Values) WriteText(w io.Writer) error {
	for _, v := range a.Values {
		text := v.Address.String()
		if v.Kind == unboxed {
			text = v.Text
		}
		if a.indices {
			text = fmt.Sprintf("%6d: %s (%v)", v.Index, text, v.Brief)
		}
		if _, err := fmt.Fprintln(w, text); err != nil {
			return err
		}
	}
	return nil
}

// unboxed is the kind of a number that an array holds without a heap object.
const unboxed = "double"

// Addresses returns the values.
func (a *Values) Addresses() []v8.Value {
	var values []v8.Value
	for _, v := range a.Values {
		if v.Kind != unboxed {
			values = append(values, v8.Value(v.Address))
		}
	}
	return values
}
