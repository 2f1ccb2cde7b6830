package v8

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
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
	tagged   uint64
	from, to int
}

// A stringReader yields the characters of one string in order.
type stringReader struct {
	heap
	visit func(units []uint16)
	rest  []piece
	bytes []byte // buffer for a part's characters, grown as needed
	units []uint16
}

// text returns the string's first maxName characters.
func (h heap) text(tagged uint64) (string, error) {
	o, err := h.object(tagged)
	if err != nil {
		return "", err
	}
	n, err := h.length(o)
	if err != nil {
		return "", err
	}
	var units []uint16
	r := &stringReader{heap: h, visit: func(u []uint16) { units = append(units, u...) }}
	if err := r.read(piece{tagged, 0, min(n, maxName)}); err != nil {
		return "", err
	}
	return string(utf16.Decode(units)), nil
}

// length returns the number of UTF-16 code units in the string o.
func (h heap) length(o object) (int, error) {
	if !h.isString(o) {
		return 0, fmt.Errorf("read string at %#x: it has type %d", o.address, o.typ)
	}
	n, err := h.uint32(o.address + stringLength)
	if err != nil {
		return 0, fmt.Errorf("read string at %#x: %w", o.address, err)
	}
	return int(n), nil
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
	o, err := r.object(p.tagged)
	if err != nil {
		return err
	}
	n, err := r.length(o)
	if err != nil {
		return err
	}
	if p.from < 0 || p.from > p.to || p.to > n {
		return fmt.Errorf("read string at %#x: characters %d to %d of %d", o.address, p.from, p.to, n)
	}
	switch o.typ & representation {
	case sequential:
		return r.characters(o, o.address+stringFirst, p)
	case external:
		data, err := r.externalData(o)
		if err != nil {
			return err
		}
		return r.characters(o, data, p)
	case cons:
		return r.cons(o, p)
	case sliced:
		return r.sliced(o, p)
	case thin:
		actual, err := r.field(o, stringFirst)
		r.rest = append(r.rest, piece{actual, p.from, p.to})
		return err
	}
	return fmt.Errorf("read string at %#x: it has type %d", o.address, o.typ)
}

// externalData returns the address of the characters of an external string.
func (r *stringReader) externalData(o object) (uint64, error) {
	if o.typ&uncached == 0 {
		return r.field(o, stringSecond)
	}
	if r.layout.ExternalData == 0 {
		return 0, fmt.Errorf("read string at %#x: its data is known to its C++ object alone", o.address)
	}
	resource, err := r.field(o, stringFirst)
	if err != nil {
		return 0, err
	}
	return r.word(resource + uint64(r.layout.ExternalData))
}

func (r *stringReader) cons(o object, p piece) error {
	first, err := r.field(o, stringFirst)
	if err != nil {
		return err
	}
	second, err := r.field(o, stringSecond)
	if err != nil {
		return err
	}
	left, err := r.object(first)
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

func (r *stringReader) sliced(o object, p piece) error {
	parent, err := r.field(o, stringFirst)
	if err != nil {
		return err
	}
	offset, err := r.smiField(o, stringSecond)
	if err != nil {
		return err
	}
	r.rest = append(r.rest, piece{parent, p.from + offset, p.to + offset})
	return nil
}

// characters visits p's characters, which begin at data.
func (r *stringReader) characters(o object, data uint64, p piece) error {
	width := 2
	if o.typ&oneByte != 0 {
		width = 1
	}
	for at := p.from; at < p.to; {
		n := min(p.to-at, chunkSize/width)
		r.bytes, r.units = slices.Grow(r.bytes[:0], n*width), slices.Grow(r.units[:0], n)
		b, units := r.bytes[:n*width], r.units[:n]
		if _, err := r.mem.ReadAt(b, data+uint64(at*width)); err != nil {
			return fmt.Errorf("read string at %#x: %w", o.address, err)
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
