package sourcemap

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

// Bounds on what a map may list.
const (
	maxTexts     = 1 << 20 // names, or sources
	maxText      = 4 << 10 // bytes of one of them; more is cut off
	maxSections  = 1 << 14
	maxUnordered = 1 << 20 // segments that are sorted
)

// A document is a source map in JSON: a flat one, or one with sections.
type document struct {
	Version int `json:"version"`
	flat
	Sections sections `json:"sections"`
}

// A flat map has no sections. Fields that are not used, such as the sources' text, are
// left out.
type flat struct {
	Root     string  `json:"sourceRoot"`
	Sources  texts   `json:"sources"`
	Names    texts   `json:"names"`
	Mappings string  `json:"mappings"`
	Nested   present `json:"sections"`
}

// A section is a map for the script from a position on.
type section struct {
	Offset struct{ Line, Column int32 }
	Map    *flat
}

// present reports whether a field exists. The field is not read.
type present bool

// UnmarshalJSON ignores the value.
func (p *present) UnmarshalJSON([]byte) error {
	*p = true
	return nil
}

// texts are strings. A null is empty.
type texts []string

// UnmarshalJSON bounds the number of strings before it makes them: most of it may be
// commas.
func (t *texts) UnmarshalJSON(data []byte) error {
	if bytes.Count(data, []byte{','}) >= maxTexts {
		return errTexts
	}
	return json.Unmarshal(data, (*[]string)(t))
}

// sections are in the order of their positions.
type sections []section

// UnmarshalJSON bounds the number of sections, and of what they list together.
func (s *sections) UnmarshalJSON(data []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(data))
	count := 0
	if _, err := decoder.Token(); err != nil { // the bracket
		return err
	}
	for decoder.More() {
		if len(*s) == maxSections {
			return fmt.Errorf("the source map has more than %d sections", maxSections)
		}
		var one section
		if err := decoder.Decode(&one); err != nil {
			return err
		}
		if one.Map == nil || one.Map.Nested {
			return errors.New("a section of the source map has no mappings of its own")
		}
		if count += len(one.Map.Sources) + len(one.Map.Names); count > maxTexts {
			return errTexts
		}
		*s = append(*s, one)
	}
	return nil
}

var (
	errNotMap = errors.New("it is not a source map")
	errTexts  = fmt.Errorf("the source map lists more than %d names or sources", maxTexts)
)

// decode reads JSON, which may begin with a line against cross-site inclusion.
func decode(data []byte) (*document, error) {
	if len(data) > MaxBytes {
		return nil, fmt.Errorf("the source map has more than %d bytes", MaxBytes)
	}
	d := new(document)
	if err := json.Unmarshal(withoutGuard(data), d); err != nil {
		return nil, fmt.Errorf("%w: %w", errNotMap, err)
	}
	if d.Version != 3 {
		return nil, fmt.Errorf("the source map has version %d (only 3 is known)", d.Version)
	}
	return d, nil
}

// withoutGuard returns a map without a line against cross-site inclusion.
func withoutGuard(data []byte) []byte {
	if bytes.HasPrefix(data, []byte(")]}")) {
		_, data, _ = bytes.Cut(data, []byte{'\n'})
	}
	return data
}

// add adds what the document maps.
func (m *Map) add(d *document, base string) error {
	parts := d.Sections
	if len(parts) == 0 {
		parts = sections{{Map: &d.flat}}
	}
	segments, err := m.join(parts, base)
	if err != nil {
		return err
	}
	p := packer{packed: make([]byte, 0, room(parts))}
	err = segments(p.add)
	if errors.Is(err, errUnordered) {
		p = packer{}
		err = sorted(segments, &p)
	}
	m.packed, m.points = slices.Clip(p.packed), p.points
	return err
}

// room returns about how many bytes packed segments need.
func room(parts sections) int {
	size := 0
	for _, p := range parts {
		size += len(p.Map.Mappings)
	}
	return size
}

// join adds the sources and names of all parts, and returns what passes their segments
// to a function until that returns an error.
func (m *Map) join(parts sections, base string) (func(add func(segment) error) error, error) {
	readers := make([]reader, len(parts))
	for i, p := range parts {
		if p.Offset.Line < 0 || p.Offset.Column < 0 {
			return nil, errNegative
		}
		r := reader{
			text: p.Map.Mappings, sources: len(p.Map.Sources), names: len(p.Map.Names),
			origin: segment{line: p.Offset.Line, column: p.Offset.Column, source: int32(len(m.sources)), name: int32(len(m.names))},
			end:    segment{line: math.MaxInt32},
		}
		if i > 0 {
			if r.origin.before(&readers[i-1].origin) {
				return nil, errUnordered
			}
			readers[i-1].end = r.origin
		}
		readers[i] = r
		for _, source := range p.Map.Sources {
			m.sources = append(m.sources, cut(resolve(base, p.Map.Root, source)))
		}
		for _, name := range p.Map.Names {
			m.names = append(m.names, cut(name))
		}
	}
	return func(add func(segment) error) error {
		for i, r := range readers {
			if i > 0 { // what comes before the section's first segment is not the previous one's
				if err := add(segment{line: r.origin.line, column: r.origin.column, source: -1, name: -1}); err != nil {
					return err
				}
			}
			if err := r.read(add); err != nil {
				return err
			}
		}
		return nil
	}, nil
}

// cut bounds a text.
func cut(text string) string {
	if len(text) <= maxText {
		return text
	}
	return strings.ToValidUTF8(text[:maxText], "") + "…"
}

// sorted packs segments that are not in order.
func sorted(segments func(add func(segment) error) error, p *packer) error {
	var all []segment
	err := segments(func(s segment) error {
		if len(all) == maxUnordered {
			return errUnordered
		}
		all = append(all, s)
		return nil
	})
	if err != nil {
		return err
	}
	slices.SortStableFunc(all, func(s, t segment) int {
		return cmp.Or(cmp.Compare(s.line, t.line), cmp.Compare(s.column, t.column))
	})
	for _, s := range all {
		if err := p.add(s); err != nil {
			return err
		}
	}
	return nil
}
