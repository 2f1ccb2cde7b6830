package trace

import (
	"bytes"
	enc "encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"unicode/utf16"

	"ustack/bpf"
	"ustack/symbolize/sourcemap"
	"ustack/symbolize/v8/code"
)

// The text of a process's scripts is gone once it exits. If it was not read in time,
// lines come from where the program got it: a file below the process's root, or node's
// own binary, which holds the sources of the node: modules. Unless V8 used the text in
// place in the binary, it is trusted only if it is as long as the script and has, at
// the function's position, what the kernel read there.

const (
	maxScriptFile = 64 << 20 // bytes of a script's file
	maxModule     = 4 << 20  // units of a source in a binary
	maxFound      = 16       // matches of a function's text in a binary
	searchStep    = 1 << 20  // bytes of a binary at a time
	maxRoots      = 256      // root directories of ended processes kept open
)

// An opening is how a function's source begins, or where its script's source is in
// the binary and how long it is.
type opening struct {
	start, units int    // in UTF-16 units
	text         string // UTF-8; empty where it could not be read
	whole        bool   // the script ends with it
	address      uint64 // in the binary's file, if it is there; 0: not known
	width        int    // bytes per unit at address
}

// opened returns what n says about a function's source.
func opened(n *bpf.TraceName, g *target) opening {
	o := opening{
		start: int(n.Start), units: int(n.Units), width: 2,
		text:  string(n.Text[:min(int(n.Length), len(n.Text))]),
		whole: n.Flags&uint32(bpf.TraceNameFlagNAME_TRUNCATED|bpf.TraceNameFlagNAME_PARTIAL) == 0,
	}
	if n.Address != 0 {
		o.address = n.Address - g.bias
	}
	if n.Flags&uint32(bpf.TraceNameFlagNAME_ONE_BYTE) != 0 {
		o.width = 1
	}
	return o
}

// matches reports whether source, in UTF-16 units, has the opening at its position.
func (o opening) matches(source []uint16) bool {
	if o.text == "" || len(source) != o.units || o.start > len(source) {
		return false
	}
	rest := source[o.start:]
	// A unit takes at least one byte: anything further cannot be in the text.
	found := string(utf16.Decode(rest[:min(len(rest), len(o.text)+1)]))
	if o.whole {
		return found == o.text
	}
	return strings.HasPrefix(found, o.text)
}

// ended holds the text of the script whose file was read last. Only one goroutine
// uses it at a time.
type ended struct {
	key    scriptKey
	source []uint16
	mapURL string // of its source map, as the file says
	err    error  // why it could not be read
}

// Text handles a kernel record about how a function's source begins. If the script
// could not be read, Text looks the line up elsewhere.
func (t *Table) Text(raw []byte) {
	n := Decode[bpf.TraceName](raw)
	key := scriptKey{n.Owner, n.Script}
	t.mutex.Lock()
	fn, known := t.functions[n.Id]
	s := t.scripts[key]
	g := t.owners[uint32(n.Owner>>32)]
	if !known || s.source != nil || !s.gone || s.wasm || s.name == "" || g == nil || g.binary == nil || g.binary.elf == nil {
		t.mutex.Unlock()
		return
	}
	o := opened(n, g)
	t.mutex.Unlock()
	line, column, err := t.ended.find(t, g, key, s.name, o)
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if err != nil {
		if t.dropped.lines++; t.dropped.lines == 1 {
			t.dropped.linesErr = fmt.Errorf("%s of process %d: %w", s.name, g.process.PID(), err)
		}
		return
	}
	fn.line, fn.column = line, column
	t.functions[n.Id] = fn
	if s = t.scripts[key]; t.ended.key == key && s.mapURL == "" {
		s.mapURL = t.ended.mapURL
		t.keepScript(key, s)
	}
}

// errOtherText reports that a text is not the script's.
var errOtherText = errors.New("the text is not the same")

func (e *ended) find(t *Table, g *target, key scriptKey, name string, o opening) (line, column int, err error) {
	if o.address != 0 && g.binary.elf.Constant(o.address, uint64(o.units*o.width)) {
		return inBinary(g.binary, o)
	}
	if e.key != key {
		e.key = key
		if strings.HasPrefix(name, "node:") { // V8 has it from a snapshot
			e.mapURL = ""
			e.source, e.err = searchSource(g.binary.file, o)
		} else {
			e.source, e.mapURL, e.err = t.readScriptFile(g, name)
		}
	}
	if e.err != nil {
		return 0, 0, e.err
	}
	const byteOrderMark = 0xfeff // stripped from CommonJS modules before they are compiled
	if len(e.source) == o.units+1 && e.source[0] == byteOrderMark {
		e.source = e.source[1:]
	}
	if !o.matches(e.source) {
		return 0, 0, errOtherText
	}
	return position(e.source[:o.start])
}

// position returns the line and column, from 1, of what comes after text.
func position(text []uint16) (line, column int, err error) {
	source, err := code.NewSource(text)
	if err != nil {
		return 0, 0, err
	}
	line, column = source.Position(len(text))
	return line, column, nil
}

// readScriptFile reads a script's file, in UTF-16 units, below the root directory of
// the process that ran it. It returns the URL of the source map that the script names.
func (t *Table) readScriptFile(g *target, name string) (source []uint16, mapURL string, err error) {
	file, ok := sourcemap.Path(name)
	if !ok || g.root == nil {
		return nil, "", errors.New("it is not a file")
	}
	f, err := t.files.Below(g.root, file)
	if err != nil {
		return nil, "", err
	}
	defer f.Close()
	content, err := io.ReadAll(io.NewSectionReader(f, 0, maxScriptFile+1))
	if err != nil {
		return nil, "", err
	}
	if len(content) > maxScriptFile {
		return nil, "", fmt.Errorf("it has more than %d bytes", maxScriptFile)
	}
	text := string(content)
	return utf16.Encode([]rune(text)), strings.Clone(sourcemap.URL(text)), nil
}

// inBinary returns the line and column of a function whose source is in the binary
// that the process runs.
func inBinary(b *binary, o opening) (line, column int, err error) {
	if o.units > maxModule || o.start > o.units {
		return 0, 0, errOtherText
	}
	text := make([]byte, o.start*o.width)
	if _, err := b.elf.ReadAt(text, o.address); err != nil {
		return 0, 0, err
	}
	return position(decode(text, o.width))
}

// decode returns the units of a text that uses width bytes for each.
func decode(text []byte, width int) []uint16 {
	units := make([]uint16, len(text)/width)
	for i := range units {
		if width == 1 {
			units[i] = uint16(text[i])
		} else {
			units[i] = enc.NativeEndian.Uint16(text[2*i:])
		}
	}
	return units
}

// encode returns units in width bytes each; false if they do not fit.
func encode(units []uint16, width int) ([]byte, bool) {
	var text []byte
	for _, u := range units {
		if width == 1 && u > math.MaxUint8 {
			return nil, false
		}
		text = append(text, enc.NativeEndian.AppendUint16(nil, u)[:width]...)
	}
	return text, true
}

// searchSource returns the only source in file that has the opening at its position:
// an array of bytes or of UTF-16 units. A file may hold the same source twice.
func searchSource(file io.ReaderAt, o opening) ([]uint16, error) {
	if o.text == "" || o.units > maxModule {
		return nil, errOtherText
	}
	var found []uint16
	for width := 1; width <= 2; width++ {
		pattern, ok := encode(utf16.Encode([]rune(o.text)), width)
		if !ok {
			continue
		}
		offsets, err := search(file, pattern)
		if err != nil {
			return nil, err
		}
		for _, offset := range offsets {
			text := make([]byte, o.units*width)
			if _, err := file.ReadAt(text, offset-int64(o.start*width)); err != nil {
				continue // it would begin before the file, or end after it
			}
			source := decode(text, width)
			switch {
			case !o.matches(source):
			case found != nil && !slices.Equal(found, source):
				return nil, errors.New("the binary has the function's text in several places")
			default:
				found = source
			}
		}
	}
	if found == nil {
		return nil, errOtherText
	}
	return found, nil
}

// search returns where file has pattern, at most maxFound offsets.
func search(file io.ReaderAt, pattern []byte) (offsets []int64, err error) {
	text := make([]byte, searchStep+len(pattern)-1)
	for from := int64(0); ; from += searchStep {
		n, err := file.ReadAt(text, from)
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		for at := 0; at < n; at++ {
			i := bytes.Index(text[at:n], pattern)
			if i < 0 {
				break
			}
			at += i
			if offsets = append(offsets, from+int64(at)); len(offsets) == maxFound {
				return offsets, nil
			}
		}
		if err != nil { // the end of the file
			return offsets, nil
		}
	}
}
