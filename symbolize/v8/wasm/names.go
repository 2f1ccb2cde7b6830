package wasm

import (
	"bytes"
	"cmp"
	"errors"
	"slices"
	"unicode/utf8"

	"ustack/symbolize/v8"
)

// Bounds on a module's bytes. V8 allows 1 GiB of them.
const (
	maxWireBytes   = 4 << 30
	maxNameSection = 64 << 20 // 1,000,000 functions with names of 60 bytes
	maxSections    = 1 << 12  // V8 knows some 20; the rest are custom sections
	maxName        = 512      // bytes of a function's name, as for JavaScript
	maxParses      = 16       // of modules at one address: a target must not keep us busy
	maxNames       = 4 << 20  // of all modules together: 64 MiB
	maxNativeWords = 0x200 / wordSize
	headerBytes    = 8 // magic number and version
	customSection  = 0
	functionNames  = 1  // subsection of the section "name"
	maxLEB         = 5  // bytes of a u32
	headBytes      = 32 // of a section: number, size, and the name of a custom one
)

var (
	magic       = []byte("\x00asm\x01\x00\x00\x00")
	errNoNames  = errors.New("no names in this WebAssembly module")
	errTooShort = errors.New("a WebAssembly module ends too early")
)

// moduleNames says where in a module's bytes the names of its functions are. The
// names themselves are read on demand: another module may have replaced this one.
type moduleNames struct {
	data, size uint64      // the bytes
	entries    []nameEntry // by index
	parses     int         // how often entries were parsed
}

// A nameEntry is an entry of a name section: index, length and name.
type nameEntry struct {
	index uint32
	bytes uint32 // of the whole entry
	at    uint64 // from the start of the module's bytes
}

// lookup returns the name of a function; ok is false if it has no valid name.
func (n *moduleNames) lookup(mem v8.Memory, module uint64, index int) (name string, ok bool) {
	for range 2 { // again if the module was replaced
		data, size, err := wireBytes(mem, module)
		if err != nil {
			return "", false
		}
		if n.data != data || n.size != size {
			if n.parses++; n.parses > maxParses {
				return "", false
			}
			n.data, n.size, n.entries = data, size, readNames(mem, data, size)
		}
		i, found := slices.BinarySearchFunc(n.entries, uint32(index), func(e nameEntry, i uint32) int { return cmp.Compare(e.index, i) })
		if len(n.entries) == 0 {
			return "", false
		}
		nearest := n.entries[min(i, len(n.entries)-1)] // if it has not changed, no others have been added
		if name, ok := nearest.read(mem, data); ok {
			return name, found && utf8.ValidString(name)
		}
		n.data, n.size = 0, 0
	}
	return "", false
}

// read reads the entry's name from memory; ok is false if the entry has changed.
func (e nameEntry) read(mem v8.Memory, data uint64) (name string, ok bool) {
	b := make([]byte, min(e.bytes, maxName+2*maxLEB))
	if _, err := mem.ReadAt(b, data+e.at); err != nil {
		return "", false
	}
	r := lebReader{b}
	index, length := r.u32(), r.u32()
	head := len(b) - len(r.rest)
	if r.rest == nil || index != e.index || uint64(head)+uint64(length) != uint64(e.bytes) {
		return "", false
	}
	if int(length) <= min(len(r.rest), maxName) {
		return string(r.rest[:length]), true
	}
	cut := r.rest[:min(len(r.rest), maxName)]
	for len(cut) > 0 && !utf8.Valid(cut) && len(cut) > maxName-utf8.UTFMax {
		cut = cut[:len(cut)-1]
	}
	return string(cut) + "…", true
}

// wireBytes finds the bytes that a module was compiled from: NativeModule has a
// shared_ptr to a vector of them, recognized by the header of a module.
func wireBytes(mem v8.Memory, module uint64) (data, size uint64, err error) {
	var words [maxNativeWords]uint64
	if err := v8.ReadWords(mem, module, words[:]); err != nil {
		return 0, 0, err
	}
	for _, p := range words {
		if p == 0 || p%wordSize != 0 {
			continue
		}
		var vector [2]uint64
		var head [headerBytes]byte
		if v8.ReadWords(mem, p, vector[:]) != nil || vector[1] < headerBytes || vector[1] > maxWireBytes {
			continue
		}
		if _, err := mem.ReadAt(head[:], vector[0]); err == nil && bytes.Equal(head[:], magic) {
			return vector[0], vector[1], nil
		}
	}
	return 0, 0, errNoNames
}

// readNames finds the names of functions in a module's bytes. It returns none if
// the names are absent or damaged.
func readNames(mem v8.Memory, data, size uint64) []nameEntry {
	at, end, err := nameSection(mem, data, size)
	if err != nil {
		return nil
	}
	section := make([]byte, end-at)
	if _, err := mem.ReadAt(section, data+at); err != nil {
		return nil
	}
	r := lebReader{section}
	for len(r.rest) > 0 {
		id := r.byte()
		length := r.u32()
		if uint64(length) > uint64(len(r.rest)) {
			return nil
		}
		if id == functionNames {
			names := lebReader{r.rest[:length]}
			return names.nameMap(end - uint64(len(r.rest)) + uint64(length))
		}
		r.rest = r.rest[length:]
	}
	return nil
}

// nameSection returns where the content of the custom section "name" is.
func nameSection(mem v8.Memory, data, size uint64) (start, end uint64, err error) {
	at := uint64(headerBytes)
	for range maxSections {
		if at >= size {
			return 0, 0, errNoNames
		}
		head := make([]byte, min(headBytes, size-at))
		if _, err := mem.ReadAt(head, data+at); err != nil {
			return 0, 0, err
		}
		r := lebReader{head}
		id := r.byte()
		length := uint64(r.u32())
		begin := at + uint64(len(head)-len(r.rest))
		end := begin + length
		if r.rest == nil || end > size {
			return 0, 0, errTooShort
		}
		if id == customSection && r.u32() == 4 && bytes.HasPrefix(r.rest, []byte("name")) {
			start := at + uint64(len(head)-len(r.rest)) + 4
			if start > end || end-start > maxNameSection {
				return 0, 0, errNoNames
			}
			return start, end, nil
		}
		at = end
	}
	return 0, 0, errNoNames
}

// A lebReader decodes a module's bytes. rest is nil if they ended too early.
type lebReader struct{ rest []byte }

func (r *lebReader) byte() byte {
	if len(r.rest) == 0 {
		r.rest = nil
		return 0
	}
	b := r.rest[0]
	r.rest = r.rest[1:]
	return b
}

func (r *lebReader) u32() uint32 {
	var n uint32
	for i := range maxLEB {
		b := r.byte()
		n |= uint32(b&0x7f) << (7 * i)
		if b&0x80 == 0 {
			return n
		}
	}
	r.rest = nil
	return 0
}

// nameMap reads the names of functions, which end at end in the module's bytes.
// If a function has two names the first wins, as in V8.
func (r *lebReader) nameMap(end uint64) []nameEntry {
	var names []nameEntry
	count := r.u32()
	for range min(count, maxFunctions) {
		before := len(r.rest)
		index := r.u32()
		length := r.u32()
		if r.rest == nil || uint64(length) > uint64(len(r.rest)) {
			break
		}
		r.rest = r.rest[length:]
		names = append(names, nameEntry{index, uint32(before - len(r.rest)), end - uint64(before)})
	}
	slices.SortStableFunc(names, func(a, b nameEntry) int { return cmp.Compare(a.index, b.index) })
	return slices.CompactFunc(names, func(a, b nameEntry) bool { return a.index == b.index })
}
