package postmortem

import (
	"hash/maphash"
	"strings"
)

// A textReader reads the beginnings of strings. A program that makes a string longer
// again and again leaves a row of them, each of the one before and some more: their
// common beginning is read once, or else a row would take the square of its length.
type textReader struct {
	*Graph
	contains string // what is wanted
	seed     maphash.Seed
	first    int             // where in a string that consists of two the first one is
	parts    map[ID]ID       // by string: its first part, if that has all of its beginning
	known    map[ID]readText // by such a part
}

// A readText is what is kept of a string's beginning.
type readText struct {
	hash   uint64
	length int  // of the string
	part   ID   // the string, or the part of it that the text was read from
	wanted bool // it could be read, and has what it must contain
}

func (g *Graph) newTextReader(contains string) *textReader {
	first, _ := g.heap.Offset("ConsString", "first") // no V8 lacks it
	return &textReader{
		Graph: g, contains: contains, seed: maphash.MakeSeed(), first: first,
		parts: map[ID]ID{}, known: map[ID]readText{},
	}
}

// read reads the beginning of a string.
func (r *textReader) read(id ID) readText {
	part := r.part(id)
	if part == id {
		return r.beginning(id)
	}
	text, ok := r.known[part]
	if !ok {
		text = r.beginning(part)
		r.known[part] = text
	}
	_, text.length, _ = r.heap.Text(r.Object(id).Ref(), 0) // longFirst has read a length there
	return text
}

func (r *textReader) beginning(id ID) readText {
	text, length, err := r.heap.Text(r.Object(id).Ref(), maxStringText)
	wanted := err == nil && strings.Contains(text, r.contains)
	return readText{maphash.String(r.seed, text), length, id, wanted}
}

// part returns the innermost first part of a string that has all of its beginning:
// the string itself if it has no such part.
func (r *textReader) part(id ID) ID {
	var passed []ID
	for {
		if end, ok := r.parts[id]; ok {
			id = end
			break
		}
		next, ok := r.longFirst(id)
		if !ok {
			break
		}
		r.parts[id] = id // ends a row that comes back here
		passed = append(passed, id)
		id = next
	}
	for _, p := range passed {
		r.parts[p] = id
	}
	return id
}

// longFirst returns the first of the two strings that a string consists of, if that
// is not shorter than what is read.
func (r *textReader) longFirst(id ID) (ID, bool) {
	if r.Map(id).Kind != "ConsString" {
		return 0, false
	}
	v, err := r.heap.Field(r.Object(id), r.first)
	if err != nil {
		return 0, false
	}
	first, ok := r.Find(v.Address())
	if !ok || !v.IsObject() {
		return 0, false
	}
	_, length, err := r.heap.Text(v, 0)
	return first, err == nil && length >= maxStringText
}
