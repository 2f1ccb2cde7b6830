// Package elfsym reads the symbols of an ELF file: the name at an address, the
// address of a name, and the bytes at either.
//
// Three numbers locate code, and the package distinguishes them. An offset counts
// bytes from the start of the file. An address is where the file asks to be
// loaded. The address at which a process really loaded it is up to the process;
// it exceeds the file's address by the load bias.
//
// Files are read, never mapped: if a file shrinks while it is mapped, the reader
// gets SIGBUS, and the target controls its files. Names stay in the file until
// needed. An open file thus costs 12 to 24 bytes per function, and 8 more per
// symbol after the first lookup by name.
package elfsym

import (
	"bytes"
	"cmp"
	"debug/elf"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/mikelolasagasti/xz"

	"ustack/symbolize/contain"
	"ustack/symbolize/internal/interval"
)

// Limits on what a file may make us read or hold. The largest binaries we know
// of, browsers with all their symbols, stay below half of each limit.
const (
	maxDebugData  = 64 << 20 // bytes of .gnu_debugdata, packed and unpacked
	maxDictionary = 64 << 20 // what xz -9 needs
	maxNotes      = 64 << 10 // bytes of one note segment
)

// A File is an open ELF file. Its methods may be called concurrently.
type File struct {
	r       io.ReaderAt
	typ     elf.Type
	machine elf.Machine
	entry   uint64
	loads   []elf.ProgHeader // PT_LOAD, in the file's order
	tls     elf.ProgHeader
	unwind  elf.ProgHeader // PT_GNU_EH_FRAME
	code    []region       // sorted by start
	buildID string

	tables    []*table // .symtab, .dynsym and .gnu_debugdata's .symtab, if they exist
	stripped  bool
	partial   error
	functions interval.Map // maps an address to a reference
	names     func() nameIndex
	known     atomic.Pointer[selection] // nil: none
	expected  []string                  // see Expect
}

// A region is a range of addresses that may hold code.
type region struct{ start, end uint64 }

// Open reads r as a 64-bit little-endian ELF file: a file, or a whole image such
// as the vdso in a bytes.Reader. Closing the File closes r if r is an io.Closer;
// if Open fails, the caller still owns r.
func Open(r io.ReaderAt) (f *File, err error) {
	defer contain.Panic(&err, "read ELF file")
	e, err := Parse(r)
	if err != nil {
		return nil, err
	}
	f = &File{r: r, typ: e.Type, machine: e.Machine, entry: e.Entry}
	for _, p := range e.Progs {
		switch p.Type {
		case elf.PT_LOAD:
			f.loads = append(f.loads, p.ProgHeader)
		case elf.PT_TLS:
			f.tls = p.ProgHeader
		case elf.PT_GNU_EH_FRAME:
			f.unwind = p.ProgHeader
		case elf.PT_NOTE:
			f.readNotes(p)
		}
	}
	f.findCode(e)
	f.openTables(e)
	f.indexFunctions()
	f.names = sync.OnceValue(f.indexNames)
	return f, nil
}

// Close closes the reader given to Open. It may be called on a nil File.
func (f *File) Close() error {
	if f == nil {
		return nil
	}
	if c, ok := f.r.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

// Type is elf.ET_EXEC for a file that loads at its own addresses, elf.ET_DYN for
// one that loads anywhere: libraries and position-independent programs.
func (f *File) Type() elf.Type { return f.typ }

// Machine is the architecture of the code.
func (f *File) Machine() elf.Machine { return f.machine }

// Entry is the address at which a program begins; 0 in most libraries.
func (f *File) Entry() uint64 { return f.entry }

// BuildID is the linker's identifier in hexadecimal, empty if the file has none.
func (f *File) BuildID() string { return f.buildID }

// TLSSize is the size in bytes of the block of thread-local variables.
func (f *File) TLSSize() uint64 { return f.tls.Memsz }

// TLSAlign is that block's alignment in bytes: 0 or 1 means none.
func (f *File) TLSAlign() uint64 { return f.tls.Align }

// UnwindHeader returns the address and size in bytes of the index of the unwind
// tables (.eh_frame_hdr); size is 0 if the file has none.
func (f *File) UnwindHeader() (address, size uint64) { return f.unwind.Vaddr, f.unwind.Memsz }

// CodeEnd returns the end of the code section or segment that holds address.
func (f *File) CodeEnd(address uint64) (end uint64, ok bool) {
	for _, r := range f.code {
		if address >= r.start && address < r.end {
			return r.end, true
		}
	}
	return 0, false
}

// Stripped reports whether only exported symbols are left: the file has neither
// .symtab nor .gnu_debugdata.
func (f *File) Stripped() bool { return f.stripped }

// Partial returns the error that makes some of the file's symbols unavailable,
// nil if none: a damaged table does not keep the others from being read.
func (f *File) Partial() error { return f.partial }

// openTables finds the symbol tables and unpacks .gnu_debugdata.
func (f *File) openTables(e *elf.File) {
	f.stripped = true
	for _, name := range []string{".symtab", ".dynsym"} {
		if f.addTable(e, f.r, name) && name == ".symtab" {
			f.stripped = false
		}
	}
	packed := e.Section(".gnu_debugdata")
	if packed == nil {
		return
	}
	f.stripped = false
	image, err := unpack(packed)
	if err != nil {
		f.damaged(".gnu_debugdata", err)
		return
	}
	r := bytes.NewReader(image)
	inner, err := Parse(r)
	if err != nil {
		f.damaged(".gnu_debugdata", err)
		return
	}
	f.addTable(inner, r, ".symtab")
}

// addTable adds e's symbol table of that name and reports whether e has it.
func (f *File) addTable(e *elf.File, r io.ReaderAt, name string) bool {
	section := e.Section(name)
	if section == nil || section.Type == elf.SHT_NOBITS {
		return false
	}
	t, err := newTable(e, r, section)
	if err != nil {
		f.damaged(name, err)
		return true
	}
	f.tables = append(f.tables, t)
	return true
}

func (f *File) damaged(section string, err error) {
	f.partial = errors.Join(f.partial, fmt.Errorf("read symbols of %s: %w", section, err))
}

// unpack returns the ELF image in s, an xz file. The section itself may be
// compressed too; then it has no random access.
func unpack(s *elf.Section) ([]byte, error) {
	if s.FileSize > maxDebugData || s.Size > maxDebugData {
		return nil, fmt.Errorf("%d bytes, more than %d", max(s.FileSize, s.Size), maxDebugData)
	}
	r, err := xz.NewReader(io.LimitReader(s.Open(), int64(s.Size)), maxDictionary)
	if err != nil {
		return nil, err
	}
	image, err := io.ReadAll(io.LimitReader(r, maxDebugData+1))
	if err != nil {
		return nil, err
	}
	if len(image) > maxDebugData {
		return nil, fmt.Errorf("more than %d bytes unpacked", maxDebugData)
	}
	return bytes.Clone(image), nil
}

// findCode records where code is: executable sections, or whole segments in a
// file without section headers.
func (f *File) findCode(e *elf.File) {
	const code = elf.SHF_ALLOC | elf.SHF_EXECINSTR
	for _, s := range e.Sections {
		if s.Flags&code == code {
			f.code = append(f.code, region{s.Addr, end(s.Addr, s.Size)})
		}
	}
	bySections := f.code != nil
	for _, p := range f.loads {
		if !bySections && p.Flags&elf.PF_X != 0 {
			f.code = append(f.code, region{p.Vaddr, end(p.Vaddr, p.Memsz)})
		}
	}
	slices.SortFunc(f.code, func(a, b region) int { return cmp.Compare(a.start, b.start) })
}

// readNotes searches a note segment for the build id. Each note is three words
// (name's size, content's size, type), name and content, both padded to 4.
func (f *File) readNotes(p *elf.Prog) {
	const typeBuildID = 3 // NT_GNU_BUILD_ID
	notes := make([]byte, min(p.Filesz, maxNotes))
	n, _ := p.ReadAt(notes, 0) // a short segment has fewer notes
	notes = notes[:n]
	for len(notes) >= 12 {
		name, content := uint64(word(notes)), uint64(word(notes[4:]))
		typ := word(notes[8:])
		notes = notes[12:]
		contentAt := (name + 3) &^ 3
		next := contentAt + (content+3)&^3
		if contentAt+content > uint64(len(notes)) {
			return
		}
		if typ == typeBuildID && string(notes[:name]) == "GNU\x00" {
			f.buildID = hex.EncodeToString(notes[contentAt : contentAt+content])
			return
		}
		notes = notes[min(next, uint64(len(notes))):]
	}
}
