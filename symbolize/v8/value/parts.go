package value

import (
	"errors"
	"fmt"
	"io"

	"ustack/symbolize/v8"
)

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

// Parts describes how V8 represents the string v.
func Parts(h *v8.Heap, v v8.Value) *Part {
	left := maxStringParts
	return partOf(h, v, maxStringDepth, &left)
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
	text, length, err := h.Exact(v, MaxBrief)
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

// Render writes the string and its parts, below each other and further to the right.
func (p *Part) Render(w io.Writer, margin string) error {
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
		err = part.Render(w, margin+"        ")
	}
	return err
}
