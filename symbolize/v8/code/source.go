package code

import (
	"errors"
	"fmt"
	"reflect"
	"sort"
	"unicode/utf16"
	"unicode/utf8"

	"ustack/symbolize/v8"
)

// maxLines bounds the lines of a source; each takes four bytes here.
const maxLines = 8 << 20

// ErrNotScript means that an address does not hold the requested script: the
// collector has moved it or dropped it.
var ErrNotScript = errors.New("the script is not there any more")

// ErrTooLong means that a text has more characters than may be read.
var ErrTooLong = errors.New("the text is too long")

var errTooManyLines = errors.New("read source: it has too many lines")

// A Source maps positions in a script to lines. It keeps where each line starts,
// not the text. The zero value is an empty source.
type Source struct {
	starts       []uint32 // of the lines after the first, in UTF-16 code units
	length       int
	fixed        bool
	line, column int // of the first character in its file, from 0
}

// Position returns the line and column, from 1, of an offset in UTF-16 code
// units, as V8 counts them; 0, 0 for an offset outside of the source.
func (s *Source) Position(offset int) (line, column int) {
	if offset < 0 || offset > s.length {
		return 0, 0
	}
	n := sort.Search(len(s.starts), func(i int) bool { return int(s.starts[i]) > offset })
	if n == 0 {
		return s.line + 1, s.column + offset + 1
	}
	return s.line + n + 1, offset - int(s.starts[n-1]) + 1
}

// Offset is the inverse of Position; ok is false if no offset is at that line and column.
func (s *Source) Offset(line, column int) (offset int, ok bool) {
	if s == nil || column < 1 {
		return 0, false
	}
	switch n := line - s.line - 1; {
	case n == 0:
		offset = column - s.column - 1
	case n > 0 && n <= len(s.starts):
		offset = int(s.starts[n-1]) + column - 1
	default:
		return 0, false
	}
	gotLine, gotColumn := s.Position(offset)
	return offset, gotLine == line && gotColumn == column
}

// Fixed reports whether the text was where V8 moves no objects: it is longer than what V8
// keeps on pages together with other objects.
func (s *Source) Fixed() bool { return s != nil && s.fixed }

// Lines returns the number of lines kept; a nil source has none.
func (s *Source) Lines() int {
	if s == nil {
		return 0
	}
	return len(s.starts) + 1
}

// maxScriptName bounds the characters of a script's name.
const maxScriptName = 4 << 10

// ScriptName returns the name of the script whose Script object is at addr (tagged or
// not), or its source URL if it has none; empty if it has neither.
func ScriptName(h *v8.Heap, addr uint64) string {
	l := &h.Binary().Layout
	for _, field := range []uint16{l.ScriptName, l.ScriptSourceURL} {
		v, err := h.Field(v8.Object{Address: v8.Ref(addr).Address()}, int(field))
		if err != nil {
			continue
		}
		if name, _, _ := h.Text(v, maxScriptName); name != "" { // an error: it is not a string
			return name
		}
	}
	return ""
}

// ReadScript reads the lines of the script with that id whose Script object is at
// addr (tagged or not). If addr no longer holds it, ReadScript returns
// ErrNotScript.
func ReadScript(h *v8.Heap, addr uint64, id int) (Source, error) {
	o, err := h.Object(v8.Ref(addr))
	if err != nil {
		return Source{}, fmt.Errorf("read script %d: %w", id, err)
	}
	if err := checkScript(h, o, id); err != nil {
		return Source{}, fmt.Errorf("read script %d: %w", id, err)
	}
	s, err := readSource(h, o)
	if err != nil {
		return Source{}, fmt.Errorf("read script %d: %w", id, err)
	}
	// The process may be running: what was read is the script's only if it is still
	// here.
	if err := checkScript(h, o, id); err != nil {
		return Source{}, fmt.Errorf("read script %d: %w", id, err)
	}
	return s, nil
}

// ReadMapURL reads the URL that the script with that id, whose Script object is at addr,
// gives for its source map, of at most limit characters; it is empty if the script gives
// none. A longer one is ErrTooLong. If addr no longer holds the script, ReadMapURL returns
// ErrNotScript; if the URL moves meanwhile, what it reads there is an error, too.
func ReadMapURL(h *v8.Heap, addr uint64, id, limit int) (string, error) {
	url, err := readMapURL(h, addr, id, limit)
	if err != nil {
		return "", fmt.Errorf("read the source map's URL of script %d: %w", id, err)
	}
	return url, nil
}

func readMapURL(h *v8.Heap, addr uint64, id, limit int) (string, error) {
	o, err := h.Object(v8.Ref(addr))
	if err != nil {
		return "", err
	}
	text, err := h.Field(o, int(h.Binary().Layout.ScriptSourceMapURL))
	if err != nil {
		return "", err
	}
	url, err := h.Object(text)
	if err != nil {
		return "", err
	}
	if !h.IsString(url) {
		return "", checkScript(h, o, id) // undefined
	}
	_, length, err := h.Text(text, 0)
	if err != nil {
		return "", err
	}
	if length > limit {
		return "", fmt.Errorf("%w: it has %d characters (at most %d are read)", ErrTooLong, length, limit)
	}
	mapURL, err := characters(h, text, length)
	if err != nil {
		return "", err
	}
	return mapURL, checkScript(h, o, id)
}

// ReadText reads the text of the script with that id, whose Script object is at addr, of
// at most limit UTF-16 code units. If addr no longer holds the script, ReadText returns
// ErrNotScript.
func ReadText(h *v8.Heap, addr uint64, id, limit int) (string, error) {
	text, err := readText(h, addr, id, limit)
	if err != nil {
		return "", fmt.Errorf("read the text of script %d: %w", id, err)
	}
	return text, nil
}

func readText(h *v8.Heap, addr uint64, id, limit int) (string, error) {
	o, err := h.Object(v8.Ref(addr))
	if err != nil {
		return "", err
	}
	source, err := h.Field(o, int(h.Binary().Layout.ScriptSource))
	if err != nil {
		return "", err
	}
	_, length, err := h.Text(source, 0)
	if err != nil {
		return "", err
	}
	if length > limit {
		return "", fmt.Errorf("it has %d characters (at most %d are read)", length, limit)
	}
	text, err := characters(h, source, length)
	if err != nil {
		return "", err
	}
	if now, err := h.Field(o, int(h.Binary().Layout.ScriptSource)); err != nil || now != source {
		return "", ErrNotScript // the text moved while it was read
	}
	return text, checkScript(h, o, id)
}

// characters reads a string of that length in UTF-8.
func characters(h *v8.Heap, text v8.Value, length int) (string, error) {
	bytes := make([]byte, 0, length)
	var high rune // the first half of a surrogate pair that a part has ended with; 0: none
	err := h.Characters(text, func(units []uint16) {
		if high != 0 && len(units) > 0 {
			units = append([]uint16{uint16(high)}, units...)
			high = 0
		}
		if last := len(units) - 1; last >= 0 && units[last] >= firstHigh && units[last] <= lastHigh {
			high, units = rune(units[last]), units[:last]
		}
		for _, r := range utf16.Decode(units) {
			bytes = utf8.AppendRune(bytes, r)
		}
	})
	if high != 0 {
		bytes = utf8.AppendRune(bytes, utf8.RuneError)
	}
	return string(bytes), err
}

// The range of the first units of UTF-16's surrogate pairs.
const firstHigh, lastHigh = 0xd800, 0xdbff

// checkScript returns ErrNotScript unless o is the script with that id.
func checkScript(h *v8.Heap, o v8.Object, id int) error {
	now, err := h.Object(o.Ref())
	if err != nil {
		return err
	}
	got, err := h.SmiField(now, int(h.Binary().Layout.ScriptID))
	if now != o || o.Map.Type != h.Binary().Layout.Script || err != nil || got != id {
		return ErrNotScript
	}
	return nil
}

func readSource(h *v8.Heap, script v8.Object) (Source, error) {
	var s Source
	var err error
	l := &h.Binary().Layout
	if s.line, err = h.SmiField(script, int(l.ScriptLineOffset)); err != nil {
		return Source{}, err
	}
	if s.column, err = h.SmiField(script, int(l.ScriptColumnOffset)); err != nil {
		return Source{}, err
	}
	text, err := h.Field(script, int(l.ScriptSource))
	if err != nil {
		return Source{}, err
	}
	lines, err := readLines(h, text)
	if err != nil {
		return Source{}, err
	}
	if now, err := h.Field(script, int(l.ScriptSource)); err != nil || now != text {
		return Source{}, ErrNotScript // the text moved while it was read
	}
	s.fixed = lines.length > maxMoved && h.IsFlat(text)
	return lines.finish(s)
}

// maxMoved is more characters than an object has that V8 moves: a longer one has pages of its
// own.
const maxMoved = 256 << 10

// readLines finds the lines of a text. It reads a text of several parts twice: the process
// may be joining them meanwhile.
func readLines(h *v8.Heap, text v8.Value) (lineScanner, error) {
	var lines, again lineScanner
	if err := h.Characters(text, lines.scan); err != nil || h.IsFlat(text) {
		return lines, err
	}
	if err := h.Characters(text, again.scan); err != nil {
		return lines, err
	}
	if !reflect.DeepEqual(lines, again) {
		return lines, ErrNotScript
	}
	return lines, nil
}

// NewSource returns the lines of a text, in UTF-16 code units.
func NewSource(text []uint16) (Source, error) {
	var lines lineScanner
	lines.scan(text)
	return lines.finish(Source{})
}

// A lineScanner finds where lines start: after \n, \r\n, a lone \r, and the
// separators U+2028 and U+2029.
type lineScanner struct {
	starts []uint32
	length int
	cr     bool // the last unit was \r
	full   bool
}

func (s *lineScanner) scan(units []uint16) {
	for _, u := range units {
		if s.cr && u != '\n' {
			s.start()
		}
		s.length++
		s.cr = u == '\r'
		if u == '\n' || u == 0x2028 || u == 0x2029 {
			s.start()
		}
	}
}

// start records that a line starts at the next unit.
func (s *lineScanner) start() {
	if len(s.starts) == maxLines {
		s.full = true
		return
	}
	s.starts = append(s.starts, uint32(s.length))
}

// finish adds the lines found to source.
func (s *lineScanner) finish(source Source) (Source, error) {
	if s.cr {
		s.start()
	}
	if s.full {
		return Source{}, errTooManyLines
	}
	source.starts, source.length = s.starts, s.length
	return source, nil
}
