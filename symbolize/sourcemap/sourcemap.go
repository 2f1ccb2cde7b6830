// Package sourcemap reads source maps (ECMA-426, version 3): where in the original
// sources a position of a generated script comes from, and how a function was called
// there. A map is written by others and may be hostile: what it can cost is bounded.
//
// It has a decoder of its own. The one library for Go, go-sourcemap, has the previous
// line's segment for positions on lines without segments, ignores segments that have no
// source, and does not sort: on the output of tsc, swc and webpack, 26 to 96 % of its
// answers were those of npm's source-map. It does not say where a segment begins, so
// that cannot be corrected from outside.
package sourcemap

import (
	"math"
	"sort"
	"strings"
	"unicode/utf16"

	"ustack/symbolize/contain"
)

// MaxBytes bounds a map in JSON.
const MaxBytes = 64 << 20

// A Map maps positions in a generated script to the sources that it was generated from.
// Its methods may be called concurrently, but for AddContent and DropContent.
type Map struct {
	sources []string // resolved
	names   []string
	packed  []byte  // the segments, sorted: see packer
	points  []point // one for each pointStep segments

	content map[string]string // the texts of sources, by name; nil without AddContent
}

// A Position is a place in an original source.
type Position struct {
	File         string // as the map names it, joined to where the map is
	Line, Column int    // from 1; the column is in UTF-16 code units
	Name         string // of the function or variable there; empty if the map has none
}

// Parse reads a map. Its relative sources are relative to base, the path or URL of the
// map, or of the script that contains it.
func Parse(data []byte, base string) (m *Map, err error) {
	defer contain.Panic(&err, "read a source map")
	d, err := decode(data)
	if err != nil {
		return nil, err
	}
	m = new(Map)
	return m, m.add(d, base)
}

// Size returns about how many bytes the map takes in memory.
func (m *Map) Size() int {
	const header = 16 // of a string
	size := cap(m.packed) + len(m.points)*pointSize
	for _, texts := range [][]string{m.sources, m.names} {
		for _, text := range texts {
			size += header + len(text)
		}
	}
	for _, text := range m.content { // the names are those of sources
		size += 2*header + len(text)
	}
	return size
}

// DropContent forgets what AddContent has added.
func (m *Map) DropContent() { m.content = nil }

// Original returns where the position at line and column of the generated script comes
// from; line and column are from 1. It is that of the last segment on the line which does
// not begin after it. ok is false if there is none, or if it comes from no source.
func (m *Map) Original(line, column int) (p Position, ok bool) {
	if line < 1 || column < 1 || line > math.MaxInt32 || column > math.MaxInt32 {
		return Position{}, false
	}
	s, ok := m.find(int32(line-1), int32(column-1))
	if !ok || s.source < 0 || m.sources[s.source] == "" {
		return Position{}, false
	}
	p = Position{File: m.sources[s.source], Line: int(s.sourceLine) + 1, Column: int(s.sourceColumn) + 1}
	if s.name >= 0 {
		p.Name = m.names[s.name]
	}
	return p, true
}

// beforeStart lists what may stand between the end of a function's name and its start,
// which for V8 is the parenthesis of its parameters, the first character of an arrow
// function, or a class that has no constructor.
var beforeStart = []string{
	"", "=", ":", "=function", ":function", "=function*", "=async function",
	"{constructor", "=class{constructor",
	" = ", " = function",
}

// Function is Original for the start of a function that V8 calls name. Name is what the
// source calls it: the name that the map gives for the place of the function's own name
// in the script; empty if it gives none.
func (m *Map) Function(line, column int, name string) (p Position, ok bool) {
	p, ok = m.Original(line, column)
	p.Name = ""
	name = name[strings.LastIndexByte(name, '.')+1:] // "Foo.bar", from what it is assigned to
	if !ok || name == "" {
		return p, ok
	}
	length := len(utf16.Encode([]rune(name)))
	p.Name = m.nameAt(line, column+len("class "), length)
	for _, between := range beforeStart {
		if p.Name != "" {
			break
		}
		found := m.nameAt(line, column-len(between)-length, length)
		if !strings.HasPrefix(between, " ") || strings.HasPrefix(name, found) {
			p.Name = found // code with spaces is not minified: its names at most got a suffix
		}
	}
	return p, true
}

// nameAt returns the name of the identifier of that length at a position of the script.
// It is empty unless a segment with a name begins there, and none within the identifier.
func (m *Map) nameAt(line, column, length int) string {
	if column < 1 {
		return ""
	}
	s, ok := m.find(int32(line-1), int32(column-1+length-1))
	if !ok || s.name < 0 || int(s.column) != column-1 {
		return ""
	}
	return m.names[s.name]
}

// find returns the last segment on the line that does not begin after column.
func (m *Map) find(line, column int32) (found segment, ok bool) {
	after := func(s *segment) bool { return s.line > line || s.line == line && s.column > column }
	n := sort.Search(len(m.points), func(i int) bool { return after(&m.points[i].segment) })
	if n == 0 {
		return segment{}, false
	}
	found = m.points[n-1].segment
	rest := m.packed[m.points[n-1].next:]
	for s := found; len(rest) > 0; {
		if rest = unpack(rest, &s); after(&s) {
			break
		}
		found = s
	}
	return found, found.line == line
}
