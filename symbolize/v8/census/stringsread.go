package census

import (
	"hash/maphash"
	"slices"
	"strings"

	"ustack/symbolize/v8"
	"ustack/symbolize/v8/heap"
)

// A textReader reads the beginnings of strings. A program that appends to a string again
// and again leaves a chain of strings, each made of the previous one and an addition.
// Their common beginning is read only once; otherwise the time would be quadratic in the
// length of the chain.
type textReader struct {
	*heap.Graph
	contains []string // the strings must contain one of these
	seed     maphash.Seed
	first    int                  // offset of the first of the two strings that a string consists of
	parts    map[heap.ID]heap.ID  // by string: its first part, if that holds all of the beginning
	known    map[heap.ID]readText // by such a part
}

// A readText is what is cached of a string's beginning.
type readText struct {
	hash   uint64
	length int     // of the string
	part   heap.ID // the string, or the part of it from which the text was read
	wanted bool    // it could be read and contains the required text
}

func newTextReader(g *heap.Graph, contains string) *textReader {
	first, _ := g.Heap().Offset("ConsString", "first") // every V8 has it
	forms := []string{contains}
	if exact := v8.UnescapeSurrogates(contains); exact != contains {
		forms = append(forms, exact)
	}
	return &textReader{
		Graph: g, contains: forms, seed: maphash.MakeSeed(), first: first,
		parts: map[heap.ID]heap.ID{}, known: map[heap.ID]readText{},
	}
}

// read reads the beginning of a string.
func (r *textReader) read(id heap.ID) readText {
	part := r.part(id)
	if part == id {
		return r.beginning(id)
	}
	text, ok := r.known[part]
	if !ok {
		text = r.beginning(part)
		r.known[part] = text
	}
	_, text.length, _ = r.Heap().Text(r.Object(id).Ref(), 0) // longFirst has read a length there
	return text
}

func (r *textReader) beginning(id heap.ID) readText {
	text, length, err := r.Heap().Exact(r.Object(id).Ref(), maxStringText)
	wanted := err == nil && slices.ContainsFunc(r.contains, func(one string) bool { return strings.Contains(text, one) })
	return readText{maphash.String(r.seed, text), length, id, wanted}
}

// part returns the innermost first part of a string that holds all of its beginning: the
// string itself if it has no such part.
func (r *textReader) part(id heap.ID) heap.ID {
	var passed []heap.ID
	for {
		if end, ok := r.parts[id]; ok {
			id = end
			break
		}
		next, ok := r.longFirst(id)
		if !ok {
			break
		}
		r.parts[id] = id // ends a cyclic chain
		passed = append(passed, id)
		id = next
	}
	for _, p := range passed {
		r.parts[p] = id
	}
	return id
}

// longFirst returns the first of the two strings that a string consists of, if it is at
// least as long as what is read.
func (r *textReader) longFirst(id heap.ID) (heap.ID, bool) {
	if r.Map(id).Kind != "ConsString" {
		return 0, false
	}
	v, err := r.Heap().Field(r.Object(id), r.first)
	if err != nil {
		return 0, false
	}
	first, ok := r.Find(v.Address())
	if !ok || !v.IsObject() {
		return 0, false
	}
	_, length, err := r.Heap().Text(v, 0)
	return first, err == nil && length >= maxStringText
}
