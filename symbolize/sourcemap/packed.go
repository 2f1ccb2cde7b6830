package sourcemap

import (
	"encoding/binary"
	"errors"
	"unsafe"
)

// A segment maps the text of a generated script from a position on, up to the next
// segment or the line's end. All its numbers are from 0.
type segment struct {
	line, column             int32 // in the script
	source                   int32 // index; -1: the text comes from no source
	sourceLine, sourceColumn int32
	name                     int32 // index; -1: none
}

// before reports whether s begins before t.
func (s *segment) before(t *segment) bool {
	return s.line < t.line || s.line == t.line && s.column < t.column
}

// A point is a segment that a search may begin at.
type point struct {
	segment
	next uint32 // where in the packed segments the following one is
}

const (
	pointStep = 64
	pointSize = int(unsafe.Sizeof(point{}))
)

// maxSegments bounds the segments of a map. The largest bundles have some millions.
const maxSegments = 1 << 23

var (
	errSegments  = errors.New("the source map has too many segments")
	errUnordered = errors.New("the segments of the source map are not in order")
)

// A packer packs segments in order. A packed segment begins with a byte of flags; then
// come the differences from the segment before it as varints, those which the flags say.
type packer struct {
	packed []byte
	points []point
	count  int
	last   segment
}

const (
	hasLine   = 1 << iota // the line differs; the column is not a difference
	hasSource             // the segment has a source
	newSource             // another one than the segment before
	hasName
)

// add appends a segment. It is an error that wraps errUnordered if it begins before the
// one added last.
func (p *packer) add(s segment) error {
	switch {
	case p.count == maxSegments:
		return errSegments
	case p.count > 0 && s.before(&p.last):
		return errUnordered
	}
	from := p.last
	if s.source < 0 { // the next difference is from the source before
		s.sourceLine, s.sourceColumn = from.sourceLine, from.sourceColumn
	}
	flags := byte(0)
	if s.line != from.line {
		flags |= hasLine
		from.column = 0
	}
	if s.source >= 0 {
		flags |= hasSource
		if s.source != from.source {
			flags |= newSource
		}
	}
	if s.name >= 0 {
		flags |= hasName
	}
	p.packed = append(p.packed, flags)
	put := func(now, before int32) { p.packed = binary.AppendVarint(p.packed, int64(now)-int64(before)) }
	if flags&hasLine != 0 {
		put(s.line, from.line)
	}
	put(s.column, from.column)
	if flags&newSource != 0 {
		put(s.source, 0)
	}
	if flags&hasSource != 0 {
		put(s.sourceLine, from.sourceLine)
		put(s.sourceColumn, from.sourceColumn)
	}
	if flags&hasName != 0 {
		put(s.name, 0)
	}
	if p.count%pointStep == 0 {
		p.points = append(p.points, point{s, uint32(len(p.packed))})
	}
	p.count++
	p.last = s
	return nil
}

// unpack reads the segment that packed begins with into s, which holds the one before,
// and returns what follows.
func unpack(packed []byte, s *segment) (rest []byte) {
	flags := packed[0]
	packed = packed[1:]
	take := func() int32 {
		v, n := binary.Varint(packed)
		packed = packed[n:]
		return int32(v)
	}
	if flags&hasLine != 0 {
		s.line += take()
		s.column = 0
	}
	s.column += take()
	switch {
	case flags&newSource != 0:
		s.source = take()
	case flags&hasSource == 0:
		s.source = -1
	}
	if flags&hasSource != 0 {
		s.sourceLine += take()
		s.sourceColumn += take()
	}
	s.name = -1
	if flags&hasName != 0 {
		s.name = take()
	}
	return packed
}
