package census

import (
	"cmp"
	"context"
	"slices"

	"ustack/symbolize/v8"
	"ustack/symbolize/v8/heap"
	"ustack/symbolize/v8/value"
)

// StringOptions say which strings to report. The zero value reports all.
type StringOptions struct {
	Contains string // only those with this in their first 1024 characters; \ud800 may also stand for a lone surrogate
	Least    int    // only those of at least that many characters
	Live     bool   // only those that are live
	Limit    int    // of the texts reported; 100 if 0
}

const (
	maxStringText = 1 << 10 // characters by which strings are compared
	maxTexts      = 1 << 22 // different strings; further ones are only counted
	defaultTexts  = 100
)

// ShownText is how many characters of a string are reported.
const ShownText = 72

// A Text is strings that are equal, as far as they are compared: in their first 1024
// characters and their lengths.
type Text struct {
	Text    value.Text    `json:"text"`   // its beginning
	Length  int           `json:"length"` // in UTF-16 code units
	Count   int           `json:"count"`
	Bytes   uint64        `json:"bytes"`   // of all these strings, without the strings they are parts of
	Address value.Address `json:"address"` // tagged, of one of them

	object heap.ID
	part   heap.ID // the part of it that holds its text
}

// A StringCensus counts strings.
type StringCensus struct {
	Texts  []*Text     `json:"texts"` // largest in bytes first
	Count  int         `json:"count"` // strings
	Bytes  uint64      `json:"bytes"`
	More   int         `json:"more"` // different strings that are not reported
	Doubts heap.Doubts `json:"doubts"`
}

// Strings returns which strings exist, and how many of each. Once ctx is done it returns
// at once, with those found so far.
func Strings(ctx context.Context, g *heap.Graph, o StringOptions) *StringCensus {
	if o.Limit <= 0 {
		o.Limit = defaultTexts
	}
	t := &StringCensus{Doubts: g.Doubts}
	r := newTextReader(g, o.Contains)
	type key struct {
		hash   uint64
		length int
	}
	found := map[key]*Text{}
	for id := range g.All(ctx) {
		if !g.Heap().IsString(v8.Object{Map: g.Map(id)}) || o.Live && !g.IsLive(id) {
			continue
		}
		text := r.read(id)
		if !text.wanted || text.length < o.Least {
			continue
		}
		t.Count++
		t.Bytes += g.Bytes(id)
		k := key{text.hash, text.length}
		same, ok := found[k]
		if !ok {
			if len(found) >= maxTexts {
				t.More++
				continue
			}
			same = &Text{Length: text.length, object: id, part: text.part}
			found[k] = same
			t.Texts = append(t.Texts, same)
		}
		same.Count++
		same.Bytes += g.Bytes(id)
	}
	t.keep(g, o.Limit)
	return t
}

// keep keeps the texts that take the most bytes, and fills in their contents.
func (t *StringCensus) keep(g *heap.Graph, limit int) {
	slices.SortFunc(t.Texts, func(a, b *Text) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.object, b.object))
	})
	t.More += max(0, len(t.Texts)-limit)
	t.Texts = t.Texts[:min(len(t.Texts), limit)]
	for _, same := range t.Texts {
		same.Address = value.Address(g.Object(same.object).Ref())
		text, _, _ := g.Heap().Exact(g.Object(same.part).Ref(), maxStringText) // it could be read before
		same.Text = value.Text(v8.CutExact(text, ShownText))
	}
}
