package ustack

import (
	enc "encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path"
	"strings"
	"unicode/utf16"

	"ustack/bpf"
	"ustack/symbolize/v8"
)

// A process that ends takes the text of its scripts with it. Where it was not read
// in time, lines come from where the program had it from: a file below the process's
// root, or node's own binary, in which the sources of the node: modules stay. A file
// is believed only if it is as long as the script and has, at the function's place,
// what the kernel read there.

const (
	maxScriptFile = 64 << 20 // bytes of a script's file
	maxModule     = 4 << 20  // units of a source in a binary
	maxRoots      = 256      // root folders of ended processes that are kept open
)

// An opening is how a function's source begins, or where its script's source lies in
// the binary, and how long that is.
type opening struct {
	start, units int    // in UTF-16 units
	text         string // UTF-8; empty where it could not be read
	whole        bool   // the script ends with it
	address      uint64 // in the binary's file, if it is not elsewhere; 0: not known
	width        int    // bytes of a unit at address
}

// opened returns what n says of a function's source.
func opened(n *bpf.JsprofName, g *target) opening {
	o := opening{
		start: int(n.Start), units: int(n.Units), width: 2,
		text:  string(n.Text[:min(int(n.Length), len(n.Text))]),
		whole: n.Flags&uint32(bpf.JsprofNameFlagNAME_TRUNCATED|bpf.JsprofNameFlagNAME_PARTIAL) == 0,
	}
	if n.Address != 0 {
		o.address = n.Address - g.bias()
	}
	if n.Flags&uint32(bpf.JsprofNameFlagNAME_ONE_BYTE) != 0 {
		o.width = 1
	}
	return o
}

// matches reports whether source, in UTF-16 units, has the opening at its place.
func (o opening) matches(source []uint16) bool {
	if o.text == "" || len(source) != o.units || o.start > len(source) {
		return false
	}
	rest := source[o.start:]
	// A unit takes one byte at least: what follows cannot be in the text.
	found := string(utf16.Decode(rest[:min(len(rest), len(o.text)+1)]))
	if o.whole {
		return found == o.text
	}
	return strings.HasPrefix(found, o.text)
}

// ended has the text of the script whose file was read last. One goroutine uses it at
// a time.
type ended struct {
	key    scriptKey
	source []uint16
	err    error // why it could not be read
}

// Text takes in a record of the kernel's about how a function's source begins. If its
// script could not be read, its line is looked up elsewhere.
func (t *Table) Text(raw []byte) {
	n := Decode[bpf.JsprofName](raw)
	key := scriptKey{n.Owner, n.Script}
	t.mutex.Lock()
	fn, known := t.functions[n.Id]
	s := t.scripts[key]
	g := t.owners[uint32(n.Owner>>32)]
	if !known || s.source != nil || s.wasm || s.name == "" || g == nil || g.binary == nil || g.binary.elf == nil {
		t.mutex.Unlock()
		return
	}
	o := opened(n, g)
	t.mutex.Unlock()
	line, column, err := t.ended.find(t, g, key, s.name, o)
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if err != nil {
		t.trouble(fmt.Errorf("process %d ended before %s could be read: some functions have no line: %w", g.process.PID(), s.name, err))
		return
	}
	fn.line, fn.column = line, column
	t.functions[n.Id] = fn
}

// errOtherText says that a text is not the script's.
var errOtherText = errors.New("the text is not the same")

func (e *ended) find(t *Table, g *target, key scriptKey, name string, o opening) (line, column int, err error) {
	if o.address != 0 && g.binary.elf.Constant(o.address, uint64(o.units*o.width)) {
		return inBinary(g.binary, o)
	}
	if e.key != key {
		e.key = key
		e.source, e.err = t.readScriptFile(g, name)
	}
	if e.err != nil {
		return 0, 0, e.err
	}
	const byteOrderMark = 0xfeff // CommonJS modules are compiled without it
	if len(e.source) == o.units+1 && e.source[0] == byteOrderMark {
		e.source = e.source[1:]
	}
	if !o.matches(e.source) {
		return 0, 0, errOtherText
	}
	return position(e.source[:o.start])
}

// position returns the line and column, from 1, of what follows text.
func position(text []uint16) (line, column int, err error) {
	source, err := v8.NewSource(text)
	if err != nil {
		return 0, 0, err
	}
	line, column = source.Position(len(text))
	return line, column, nil
}

// readScriptFile reads the file of a script, below the root of the process that ran
// it, in UTF-16 units.
func (t *Table) readScriptFile(g *target, name string) ([]uint16, error) {
	file, ok := filePath(name)
	if !ok || g.root == nil {
		return nil, errors.New("it is not a file")
	}
	f, err := t.files.Below(g.root, file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.NewSectionReader(f, 0, maxScriptFile+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxScriptFile {
		return nil, fmt.Errorf("it has more than %d bytes", maxScriptFile)
	}
	return utf16.Encode([]rune(string(text))), nil
}

// filePath returns the path of a script's file: V8 names modules by URL.
func filePath(name string) (string, bool) {
	if after, ok := strings.CutPrefix(name, "file://"); ok {
		after, _, _ = strings.Cut(after, "?") // what tells two imports of one file apart
		after, _, _ = strings.Cut(after, "#")
		unescaped, err := url.PathUnescape(after)
		if err != nil {
			return "", false
		}
		name = unescaped
	}
	return name, path.IsAbs(name) && !strings.ContainsRune(name, 0)
}

// inBinary returns the line and column of a function in a source that lies in the
// binary that the process runs.
func inBinary(b *binary, o opening) (line, column int, err error) {
	if o.units > maxModule || o.start > o.units {
		return 0, 0, errOtherText
	}
	text := make([]byte, o.start*o.width)
	if _, err := b.elf.ReadAt(text, o.address); err != nil {
		return 0, 0, err
	}
	units := make([]uint16, o.start)
	for i := range units {
		if o.width == 1 {
			units[i] = uint16(text[i])
		} else {
			units[i] = enc.NativeEndian.Uint16(text[2*i:])
		}
	}
	return position(units)
}
