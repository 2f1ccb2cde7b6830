package jscore

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"
	"unicode/utf16"

	"ustack/symbolize/space"
	"ustack/symbolize/v8"
	"ustack/symbolize/v8/heap"
	"ustack/symbolize/v8/value"
)

// Bounds on a search for text.
const (
	maxSought    = 1 << 12 // bytes of the text
	maxTexts     = 1 << 16 // places that are listed
	searchBlock  = 1 << 20 // bytes read at once
	shownContext = 24      // bytes shown before and after the text
)

// FoundTexts are the places in memory that hold a text.
type FoundTexts struct {
	Text   string      `json:"text"`
	Places []FoundText `json:"places"`
	Cut    bool        `json:"cut,omitempty"` // there are more
}

// A FoundText is one of them.
type FoundText struct {
	Address  Address `json:"address"`
	Encoding string  `json:"encoding"` // "utf-8", "latin-1" or "utf-16"
	Region   string  `json:"region"`
	Object   *Brief  `json:"object,omitempty"` // of V8's that contains it
	Context  string  `json:"context"`          // the text with what is around it

	length int // in bytes
}

// A pattern is a text in one encoding.
type pattern struct {
	encoding string
	bytes    []byte
}

// patterns returns a text in the encodings in which C, C++ and V8 keep it.
func patterns(text string) []pattern {
	all := []pattern{{"utf-8", []byte(text)}}
	var latin []byte
	isLatin, isASCII := true, true
	for _, r := range text {
		isASCII = isASCII && r < 0x80
		isLatin = isLatin && r < 0x100
		latin = append(latin, byte(r))
	}
	if isLatin && !isASCII {
		all = append(all, pattern{"latin-1", latin})
	}
	var wide []byte
	for _, unit := range utf16.Encode([]rune(text)) {
		wide = binary.LittleEndian.AppendUint16(wide, unit)
	}
	return append(all, pattern{"utf-16", wide})
}

// SearchText finds a text in the process's memory, in every encoding. Once ctx is done it
// returns ctx's error.
func (d *Dump) SearchText(ctx context.Context, text string) (*FoundTexts, error) {
	if text == "" || len(text) > maxSought {
		return nil, fmt.Errorf("search for a text of %d bytes: needs 1 to %d", len(text), maxSought)
	}
	found := &FoundTexts{Text: text, Places: []FoundText{}}
	sought := patterns(text)
	for _, r := range d.Regions() {
		for at, block := range d.blocks(ctx, r.Start, r.End) {
			for _, p := range sought {
				found.add(p, at, block)
			}
		}
		if len(found.Places) > maxTexts {
			break
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	slices.SortFunc(found.Places, func(a, b FoundText) int { return cmp.Compare(a.Address, b.Address) })
	if len(found.Places) > maxTexts {
		found.Places, found.Cut = found.Places[:maxTexts], true
	}
	for i := range found.Places {
		d.describeText(&found.Places[i])
	}
	return found, nil
}

// blocks yields memory with its address, in blocks that overlap by the longest pattern's
// length; it leaves out zeros and what cannot be read.
func (d *Dump) blocks(ctx context.Context, start, end uint64) func(yield func(uint64, []byte) bool) {
	const overlap = 2 * maxSought
	return func(yield func(uint64, []byte) bool) {
		buffer := make([]byte, searchBlock+overlap)
		for at := start; at < end && ctx.Err() == nil; {
			next, ok := d.NextData(at)
			if !ok || next >= end {
				return
			}
			at = max(at, next&^7)
			n, _ := d.ReadAt(buffer[:min(uint64(len(buffer)), end-at)], at)
			if n > 0 && !yield(at, buffer[:n]) {
				return
			}
			step := uint64(searchBlock)
			if n < searchBlock { // what follows cannot be read: continue behind that page
				step = (at+uint64(n))&^(space.PageSize-1) + space.PageSize - at
			}
			at += step
		}
	}
}

// add adds the places in a block that hold a pattern and begin within searchBlock: the
// next block has the others.
func (f *FoundTexts) add(p pattern, at uint64, block []byte) {
	for from := 0; len(f.Places) <= maxTexts; {
		i := bytes.Index(block[from:], p.bytes)
		if i < 0 || from+i >= searchBlock {
			return
		}
		from += i
		f.Places = append(f.Places, FoundText{Address: Address(at + uint64(from)), Encoding: p.encoding, length: len(p.bytes)})
		from++
	}
}

// describeText says what a text is in.
func (d *Dump) describeText(t *FoundText) {
	address := uint64(t.Address)
	r, ok := d.Region(address)
	if !ok {
		return
	}
	t.Region = d.regionName(r)
	if _, inFile := d.Part(address); !inFile && d.v8.Heap != nil {
		if o, ok := heap.ObjectAround(d.v8.Heap, address, r.Start); ok {
			brief := value.BriefOf(d.v8.Heap, o.Ref())
			t.Object = &brief
		}
	}
	before := min(shownContext, address-r.Start)
	if t.Encoding == "utf-16" {
		before &^= 1
	}
	b := make([]byte, before+uint64(t.length)+shownContext)
	n, _ := d.ReadAt(b, address-before) // what can be read
	t.Context = contextText(b[:n], t.Encoding)
}

// contextText returns bytes as text, with a dot for each that is not printable.
func contextText(b []byte, encoding string) string {
	text := string(bytes.ToValidUTF8(b, []byte(".")))
	switch encoding {
	case "utf-16":
		var units []uint16
		for i := 0; i+1 < len(b); i += 2 {
			units = append(units, binary.LittleEndian.Uint16(b[i:]))
		}
		text = string(utf16.Decode(units))
	case "latin-1":
		runes := make([]rune, len(b))
		for i, c := range b {
			runes[i] = rune(c)
		}
		text = string(runes)
	}
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || r == unicode.ReplacementChar {
			return '.'
		}
		return r
	}, text)
}

// WriteText writes a line for each place.
func (f *FoundTexts) WriteText(w io.Writer) error {
	var all error
	for _, t := range f.Places {
		in := t.Region
		if t.Object != nil {
			in = fmt.Sprintf("%s (%s)", t.Object.Address, t.Object.Kind)
		}
		_, err := fmt.Fprintf(w, "%12s %-7s %s: %s\n", t.Address, t.Encoding, in, t.Context)
		all = errors.Join(all, err)
	}
	if f.Cut {
		_, err := fmt.Fprintf(w, "(more than %d; the rest is not shown)\n", maxTexts)
		all = errors.Join(all, err)
	}
	return all
}

// Addresses returns the objects that hold the text, and where it is elsewhere.
func (f *FoundTexts) Addresses() []v8.Value {
	values := make([]v8.Value, len(f.Places))
	for i, t := range f.Places {
		if values[i] = v8.Value(t.Address); t.Object != nil {
			values[i] = v8.Value(t.Object.Address)
		}
	}
	return values
}
