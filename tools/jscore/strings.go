package jscore

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"unicode/utf8"

	"ustack/symbolize/v8"
	"ustack/symbolize/v8/heap"
)

// StringOptions say which strings to report. The zero value reports all.
type StringOptions struct {
	Contains string // only those with this in their first 1024 characters
	Least    int    // only those of at least that many characters
	Live     bool   // only those that are live
	Limit    int    // of the texts reported; 100 if 0
}

const (
	maxStringText = 1 << 10 // characters by which strings are compared
	maxTexts      = 1 << 22 // different strings; further ones are only counted
	shownText     = 72      // characters
)

// A Text is strings that are equal, as far as they are compared: in their first 1024
// characters and their lengths.
type Text struct {
	Text    string  `json:"text"`   // its beginning
	Length  int     `json:"length"` // in UTF-16 code units
	Count   int     `json:"count"`
	Bytes   uint64  `json:"bytes"`   // of all these strings, without the strings they are parts of
	Address Address `json:"address"` // tagged, of one of them

	object heap.ID
	part   heap.ID // the part of it that holds its text
}

// Texts are a process's strings.
type Texts struct {
	Texts  []*Text     `json:"texts"` // largest in bytes first
	Count  int         `json:"count"` // strings
	Bytes  uint64      `json:"bytes"`
	More   int         `json:"more"` // different strings that are not reported
	Doubts heap.Doubts `json:"doubts"`
}

// Strings returns which strings exist, and how many of each. Once ctx is done it returns
// at once, with those found so far.
func (g *Graph) Strings(ctx context.Context, o StringOptions) *Texts {
	if o.Limit <= 0 {
		o.Limit = defaultLimit
	}
	t := &Texts{Doubts: g.Doubts}
	r := g.newTextReader(o.Contains)
	type key struct {
		hash   uint64
		length int
	}
	found := map[key]*Text{}
	for id := range g.All(ctx) {
		if !g.heap.IsString(v8.Object{Map: g.Map(id)}) || o.Live && !g.IsLive(id) {
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
func (t *Texts) keep(g *Graph, limit int) {
	slices.SortFunc(t.Texts, func(a, b *Text) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.object, b.object))
	})
	t.More += max(0, len(t.Texts)-limit)
	t.Texts = t.Texts[:min(len(t.Texts), limit)]
	for _, same := range t.Texts {
		same.Address = Address(g.Object(same.object).Ref())
		text, _, _ := g.heap.Text(g.Object(same.part).Ref(), maxStringText) // it could be read before
		same.Text = string([]rune(text)[:min(shownText, utf8.RuneCountInString(text))])
	}
}

// WriteText writes a table.
func (t *Texts) WriteText(w io.Writer) error {
	out := bufio.NewWriter(w)
	fmt.Fprintf(out, "%16s %9s %12s %10s %s\n", "STRING", "#STRINGS", "BYTES", "LENGTH", "TEXT")
	for _, s := range t.Texts {
		text := strconv.Quote(s.Text)
		if s.Length > shownText {
			text += "…"
		}
		fmt.Fprintf(out, "%16s %9d %12d %10d %s\n", s.Address, s.Count, s.Bytes, s.Length, text)
	}
	fmt.Fprintf(out, "%16s %9d %12d\n", "total", t.Count, t.Bytes)
	if t.More > 0 {
		fmt.Fprintf(out, "and %d more texts\n", t.More)
	}
	writeDoubts(out, t.Doubts)
	return out.Flush()
}

// Addresses returns the address of one string of each text.
func (t *Texts) Addresses() []v8.Value {
	addresses := make([]v8.Value, len(t.Texts))
	for i, s := range t.Texts {
		addresses[i] = v8.Value(s.Address)
	}
	return addresses
}
