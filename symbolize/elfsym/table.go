package elfsym

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"ustack/symbolize/internal/radix"
)

const (
	maxSymbols   = 1 << 22 // of one table; a browser's has about one million
	usualSymbols = 1 << 18 // enough for node; what holds more of them grows
	maxName      = 8 << 10 // bytes; node 26's longest has 975

	entrySize = 24       // of an Elf64_Sym
	chunk     = 64 << 10 // bytes read at once when reading a whole table
	shortName = 128      // bytes read for a name at first: most are shorter
)

// A table is one symbol table and its strings, both still in the file.
type table struct {
	section string // its name, for errors
	r       io.ReaderAt
	at      int64 // offset of the entries
	count   uint32
	strings *io.SectionReader
}

// An entry is a symbol as stored in the table.
type entry struct {
	name    uint32 // offset in strings
	info    uint8
	section elf.SectionIndex
	address uint64
	size    uint64
}

func (e entry) typ() elf.SymType  { return elf.ST_TYPE(e.info) }
func (e entry) bind() elf.SymBind { return elf.ST_BIND(e.info) }

// defined reports whether e stands for something in this file that needs a name.
func (e entry) defined() bool {
	return e.section != elf.SHN_UNDEF && e.name != 0 && e.typ() != elf.STT_SECTION && e.typ() != elf.STT_FILE
}

// symbol returns e as the symbol of that name.
func (e entry) symbol(name string) Symbol {
	return Symbol{Name: name, Address: e.address, Size: e.size, Type: e.typ(), Bind: e.bind()}
}

func newTable(e *elf.File, r io.ReaderAt, s *elf.Section) (*table, error) {
	if s.FileSize/entrySize > maxSymbols {
		return nil, fmt.Errorf("%d symbols, more than %d", s.FileSize/entrySize, maxSymbols)
	}
	if int64(s.Link) >= int64(len(e.Sections)) || e.Sections[s.Link].Type != elf.SHT_STRTAB {
		return nil, fmt.Errorf("section %d holds no strings", s.Link)
	}
	names := e.Sections[s.Link]
	if (s.Flags|names.Flags)&elf.SHF_COMPRESSED != 0 {
		return nil, errors.New("it is compressed, which symbol tables are not")
	}
	return &table{
		section: s.Name,
		r:       r,
		at:      int64(s.Offset),
		count:   uint32(s.FileSize / entrySize),
		strings: io.NewSectionReader(r, int64(names.Offset), int64(names.FileSize)),
	}, nil
}

// entries calls visit for each symbol of the table.
func (t *table) entries(visit func(index uint32, e entry)) error {
	buf := make([]byte, chunk/entrySize*entrySize)
	for index := uint32(0); index < t.count; {
		n := min(t.count-index, uint32(len(buf)/entrySize))
		part := buf[:n*entrySize]
		if got, err := t.r.ReadAt(part, t.at+int64(index)*entrySize); got < len(part) {
			return fmt.Errorf("read symbols from %d: %w", index, err)
		}
		for ; len(part) > 0; part = part[entrySize:] {
			visit(index, decode(part))
			index++
		}
	}
	return nil
}

// entry reads one symbol.
func (t *table) entry(index uint32) (entry, error) {
	var buf [entrySize]byte
	if n, err := t.r.ReadAt(buf[:], t.at+int64(index)*entrySize); n < entrySize {
		return entry{}, fmt.Errorf("read symbol %d: %w", index, err)
	}
	return decode(buf[:]), nil
}

func decode(b []byte) entry {
	return entry{
		name:    word(b),
		info:    b[4],
		section: elf.SectionIndex(binary.LittleEndian.Uint16(b[6:])),
		address: binary.LittleEndian.Uint64(b[8:]),
		size:    binary.LittleEndian.Uint64(b[16:]),
	}
}

// name reads the string at offset, without any version that a linker added
// ("memcpy@@GLIBC_2.14").
func (t *table) name(offset uint32) (string, error) {
	for _, size := range []int{shortName, maxName} {
		w := window{r: t.strings, buf: make([]byte, 0, size)}
		if name, ok := w.at(int64(offset)); ok {
			return string(name), nil
		}
	}
	return "", fmt.Errorf("read name at %d: no end within %d bytes", offset, maxName)
}

// names calls visit with the name of each defined symbol, in the order of the
// strings, so that the file is read once from start to end. Names that cannot be
// read are skipped. The bytes are only valid during the call.
func (t *table) names(visit func(index uint32, name []byte)) error {
	keys := make([]uint64, 0, min(t.count, usualSymbols)) // offset of the name, index
	err := t.entries(func(index uint32, e entry) {
		if e.defined() {
			keys = append(keys, uint64(e.name)<<32|uint64(index))
		}
	})
	radix.Sort(keys)
	w := window{r: t.strings, buf: make([]byte, 0, chunk)}
	for _, key := range keys {
		if name, ok := w.at(int64(key >> 32)); ok {
			visit(uint32(key), name)
		}
	}
	return err
}

// A window is the part of a section that was read last.
type window struct {
	r     io.ReaderAt
	start int64
	buf   []byte // its capacity is how much is read at once
}

// at returns the string at offset up to its zero byte or its version, false if it
// does not end within one read or within maxName.
func (w *window) at(offset int64) ([]byte, bool) {
	s, ok := w.held(offset)
	if !ok && len(s) < maxName {
		n, _ := w.r.ReadAt(w.buf[:cap(w.buf)], offset) // on a short read, the bytes read decide
		w.buf, w.start = w.buf[:n], offset
		s, ok = w.held(offset)
	}
	return s, ok
}

// bytes returns the n bytes at offset, false if they cannot be read.
func (w *window) bytes(offset int64, n int) ([]byte, bool) {
	if offset < w.start || offset+int64(n) > w.start+int64(len(w.buf)) {
		got, _ := w.r.ReadAt(w.buf[:cap(w.buf)], offset) // on a short read, the bytes read decide
		w.buf, w.start = w.buf[:got], offset
	}
	if at := offset - w.start; at+int64(n) <= int64(len(w.buf)) {
		return w.buf[at : at+int64(n)], true
	}
	return nil, false
}

// held returns the part of the string that is in the window, and whether it is
// complete.
func (w *window) held(offset int64) ([]byte, bool) {
	if offset < w.start || offset-w.start >= int64(len(w.buf)) {
		return nil, false
	}
	s := w.buf[offset-w.start:]
	s = s[:min(len(s), maxName)]
	n := bytes.IndexByte(s, 0)
	if n < 0 {
		return s, false
	}
	if version := bytes.IndexByte(s[:n], '@'); version > 0 {
		n = version
	}
	return s[:n], true
}
