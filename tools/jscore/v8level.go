package jscore

import (
	"fmt"
	"io"

	"ustack/symbolize/v8"
	"ustack/symbolize/v8/value"
)

// A V8String is a string and how V8 represents it.
type V8String struct {
	Address Address     `json:"address"`
	Length  int         `json:"length"` // in UTF-16 code units
	Text    value.Text  `json:"text"`
	Cut     bool        `json:"cut,omitempty"` // the text is only the beginning
	Parts   *value.Part `json:"parts,omitempty"`
}

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
	text, length, err := h.Exact(v, -1)
	if err != nil {
		return nil, err
	}
	s.Text, s.Length = value.Text(text), length
	s.Cut = s.Length > v8.MaxExact
	if withParts {
		s.Parts = value.Parts(h, v)
	}
	return s, nil
}

// WriteText writes the text, after its parts if there are any.
func (s *V8String) WriteText(w io.Writer) error {
	if s.Parts != nil {
		if err := s.Parts.Render(w, ""); err != nil {
			return err
		}
	}
	text := string(s.Text)
	if s.Cut {
		text += "…"
	}
	_, err := fmt.Fprintln(w, v8.EscapeSurrogates(text, func(text string) string { return text }))
	return err
}

// Addresses returns the string's address.
func (s *V8String) Addresses() []v8.Value { return []v8.Value{v8.Value(s.Address)} }

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
			text = string(v.Text)
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
