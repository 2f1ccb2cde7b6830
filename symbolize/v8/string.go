package v8

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf16"
)

// A string's instance type says how its characters are stored. These bits are the
// same in every supported version of V8.
const (
	representation = 7
	sequential     = 0
	cons           = 1
	external       = 2
	sliced         = 3
	thin           = 5
	oneByte        = 8
	uncached       = 0x10 // external, without a copy of the pointer to its data
)

// Limits on the strings of a target, which may be of any size or damaged. V8's
// longest string has 2^29-24 characters.
const (
	maxName   = 1 << 10  // characters of a name; the rest is cut off
	maxSource = 64 << 20 // characters of a script's source; the largest bundles have 30 million
	maxPieces = 1 << 16  // parts of a source: V8 flattens it before it compiles it
	chunkSize = 32 << 10 // bytes read at a time
)

var errTooManyParts = errors.New("read string: it has too many parts")

// A piece is a range of a string's characters still to be read.
type piece struct {
	string   Value
	from, to int
}

// A stringReader yields the characters of one string in order.
type stringReader struct {
	*Heap
	visit func(units []uint16)
	rest  []piece
	bytes []byte // buffer for a part's characters, grown as needed
	units []uint16
}

// Text returns at most limit characters of the string v, of any form, and its
// full length, both in UTF-16 code units. A limit below 0 means maxSource.
func (h *Heap) Text(v Value, limit int) (text string, length int, err error) {
	o, err := h.stringAt(v)
	if err != nil {
		return "", 0, err
	}
	return h.textOf(o, limit)
}

func (h *Heap) textOf(o Object, limit int) (text string, length int, err error) {
	if limit < 0 || limit > maxSource {
		limit = maxSource
	}
	if length, err = h.length(o); err != nil {
		return "", 0, err
	}
	end := min(length, limit)
	text, ok := h.asciiText(o, end)
	if !ok {
		text, err = h.TextBetween(o.Ref(), 0, end)
	}
	return text, length, err
}

// asciiText returns the first n characters of o, which has as many, if they are few, in
// one place and ASCII, as those of nearly all names are.
func (h *Heap) asciiText(o Object, n int) (text string, ok bool) {
	if o.Map.Type&(representation|oneByte) != sequential|oneByte || n == 0 || n > len(h.short) {
		return "", false
	}
	b := h.short[:n]
	if _, err := h.mem.ReadAt(b, o.Address+stringFirst); err != nil || slices.Max(b) > unicode.MaxASCII {
		return "", false
	}
	return string(b), true
}

// stringAt is Object for a string, of which it returns the original if the collector
// has moved it: V8 may say where to before it has copied more than the map.
func (h *Heap) stringAt(v Value) (Object, error) {
	o, err := h.Object(v)
	if err == nil {
		o.Address = v.Address()
	}
	return o, err
}

// TextBetween returns the characters of a string in the range [from, to).
func (h *Heap) TextBetween(v Value, from, to int) (string, error) {
	var b strings.Builder
	rest, err := h.unitsAfterASCII(v, from, to, &b)
	if err != nil {
		return "", err
	}
	for _, r := range utf16.Decode(rest) {
		b.WriteRune(r)
	}
	return b.String(), nil
}

// unitsAfterASCII writes the characters in the range [from, to) up to the first that is not
// ASCII, and returns the rest.
func (h *Heap) unitsAfterASCII(v Value, from, to int, b *strings.Builder) (rest []uint16, err error) {
	err = h.characters(v, from, to, func(units []uint16) {
		if rest == nil {
			units = units[writeASCII(b, units):]
		}
		rest = append(rest, units...)
	})
	return rest, err
}

// writeASCII writes units up to the first that is not ASCII, and returns their number.
func writeASCII(b *strings.Builder, units []uint16) int {
	n := slices.IndexFunc(units, func(unit uint16) bool { return unit > unicode.MaxASCII })
	if n < 0 {
		n = len(units)
	}
	b.Grow(n)
	for _, unit := range units[:n] {
		b.WriteByte(byte(unit))
	}
	return n
}

// Characters visits all characters of the string v in order, some at a time, in a
// buffer that is used again.
func (h *Heap) Characters(v Value, visit func(units []uint16)) error {
	o, err := h.stringAt(v)
	if err != nil {
		return err
	}
	n, err := h.length(o)
	if err != nil {
		return err
	}
	return h.characters(v, 0, n, visit)
}

// IsFlat reports whether the characters of the string v are in one place that v itself
// refers to, not in other strings.
func (h *Heap) IsFlat(v Value) bool {
	o, err := h.Object(v)
	if err != nil || !h.IsString(o) {
		return false
	}
	shape := o.Map.Type & representation
	return shape == sequential || shape == external
}

// characters visits the characters of a string in the range [from, to).
func (h *Heap) characters(v Value, from, to int, visit func(units []uint16)) error {
	if to-from > maxSource {
		return fmt.Errorf("read string at %#x: %d characters, more than %d", v.Address(), to-from, maxSource)
	}
	r := &stringReader{Heap: h, visit: visit}
	return r.read(piece{v, from, to})
}

// Name returns at most maxName characters of a string, and "" for anything else.
func (h *Heap) Name(v Value) (string, error) {
	if !v.IsObject() {
		return "", nil
	}
	o, err := h.stringAt(v)
	if err != nil || !h.IsString(o) {
		return "", err
	}
	text, _, err := h.textOf(o, maxName)
	return text, err
}

// length returns the number of UTF-16 code units in the string o.
func (h *Heap) length(o Object) (int, error) {
	if !h.IsString(o) {
		return 0, fmt.Errorf("read string at %#x: it has type %d", o.Address, o.Map.Type)
	}
	n, err := h.Uint32(o, stringLength)
	return int(n), err
}

// read visits the characters of whole, part by part, from the left. For a string
// that refers to itself it stops at the limit: a part has at least one character,
// and is reached through at most three others.
func (r *stringReader) read(whole piece) error {
	limit := min(4*(whole.to-whole.from)+4, maxPieces)
	r.rest = append(r.rest[:0], whole)
	for range limit {
		if len(r.rest) == 0 {
			return nil
		}
		p := r.rest[len(r.rest)-1]
		r.rest = r.rest[:len(r.rest)-1]
		if p.from == p.to {
			continue
		}
		if err := r.part(p); err != nil {
			return err
		}
	}
	return errTooManyParts
}

// part visits p's characters, or pushes p's parts before the rest.
func (r *stringReader) part(p piece) error {
	o, err := r.stringAt(p.string)
	if err != nil {
		return err
	}
	n, err := r.length(o)
	if err != nil {
		return err
	}
	if p.from < 0 || p.from > p.to || p.to > n {
		return fmt.Errorf("read string at %#x: characters %d to %d of %d", o.Address, p.from, p.to, n)
	}
	switch o.Map.Type & representation {
	case sequential:
		return r.run(o, o.Address+stringFirst, p)
	case external:
		data, err := r.externalData(o)
		if err != nil {
			return err
		}
		return r.run(o, data, p)
	case cons:
		return r.cons(o, p)
	case sliced:
		return r.sliced(o, p)
	case thin:
		actual, err := r.Field(o, stringFirst)
		r.rest = append(r.rest, piece{actual, p.from, p.to})
		return err
	}
	return fmt.Errorf("read string at %#x: it has type %d", o.Address, o.Map.Type)
}

// externalData returns the address of the characters of an external string.
func (r *stringReader) externalData(o Object) (uint64, error) {
	if o.Map.Type&uncached == 0 {
		data, err := r.Field(o, stringSecond)
		return uint64(data), err
	}
	if r.layout.ExternalData == 0 {
		return 0, fmt.Errorf("read string at %#x: its data is known to its C++ object alone", o.Address)
	}
	resource, err := r.Field(o, stringFirst)
	if err != nil {
		return 0, err
	}
	return r.Word(uint64(resource) + uint64(r.layout.ExternalData))
}

func (r *stringReader) cons(o Object, p piece) error {
	first, err := r.Field(o, stringFirst)
	if err != nil {
		return err
	}
	second, err := r.Field(o, stringSecond)
	if err != nil {
		return err
	}
	left, err := r.stringAt(first)
	if err != nil {
		return err
	}
	n, err := r.length(left)
	if err != nil {
		return err
	}
	if p.to > n {
		r.rest = append(r.rest, piece{second, max(p.from-n, 0), p.to - n})
	}
	if p.from < n {
		r.rest = append(r.rest, piece{first, p.from, min(p.to, n)})
	}
	return nil
}

func (r *stringReader) sliced(o Object, p piece) error {
	parent, err := r.Field(o, stringFirst)
	if err != nil {
		return err
	}
	offset, err := r.SmiField(o, stringSecond)
	if err != nil {
		return err
	}
	r.rest = append(r.rest, piece{parent, p.from + offset, p.to + offset})
	return nil
}

// run visits p's characters, which begin at data.
func (r *stringReader) run(o Object, data uint64, p piece) error {
	width := 2
	if o.Map.Type&oneByte != 0 {
		width = 1
	}
	for at := p.from; at < p.to; {
		n := min(p.to-at, chunkSize/width)
		r.bytes, r.units = slices.Grow(r.bytes[:0], n*width), slices.Grow(r.units[:0], n)
		b, units := r.bytes[:n*width], r.units[:n]
		if _, err := r.mem.ReadAt(b, data+uint64(at*width)); err != nil {
			return fmt.Errorf("read string at %#x: %w", o.Address, err)
		}
		for i := range n {
			if width == 1 {
				units[i] = uint16(b[i])
			} else {
				units[i] = binary.LittleEndian.Uint16(b[2*i:])
			}
		}
		r.visit(units)
		at += n
	}
	return nil
}
