package sourcemap

import (
	"bytes"
	"encoding/json"
	"fmt"

	"ustack/symbolize/contain"
)

// AddContent adds to the Map the texts of its sources, as far as data, which it was parsed
// from, has them.
func (m *Map) AddContent(data []byte) (err error) {
	defer contain.Panic(&err, "read the sources in a source map")
	var d struct {
		content
		Sections []struct{ Map content } `json:"sections"`
	}
	if err := json.Unmarshal(withoutGuard(data), &d); err != nil {
		return fmt.Errorf("%w: %w", errNotMap, err)
	}
	parts := []content{d.content}
	if len(d.Sections) > 0 {
		parts = nil
		for _, s := range d.Sections {
			parts = append(parts, s.Map)
		}
	}
	first := 0
	m.content = make(map[string]string)
	for _, p := range parts {
		for i, text := range p.Texts {
			if at := first + i; text != nil && i < len(p.Sources) && at < len(m.sources) && m.sources[at] != "" {
				m.content[m.sources[at]] = *text
			}
		}
		first += len(p.Sources)
	}
	return nil
}

// A content is what a flat map says of its sources' texts.
type content struct {
	Sources texts  `json:"sources"`
	Texts   bodies `json:"sourcesContent"`
}

// bodies are texts; nil for those that the map does not have.
type bodies []*string

// UnmarshalJSON bounds the number of texts.
func (b *bodies) UnmarshalJSON(data []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(data))
	if _, err := decoder.Token(); err != nil { // the bracket
		return err
	}
	for decoder.More() {
		if len(*b) == maxTexts {
			return errTexts
		}
		var text *string
		if err := decoder.Decode(&text); err != nil {
			return err
		}
		*b = append(*b, text)
	}
	return nil
}

// Content returns the text of a source, as Position names it, if AddContent has found it.
func (m *Map) Content(file string) (text string, ok bool) {
	if m == nil {
		return "", false
	}
	text, ok = m.content[file]
	return text, ok
}
