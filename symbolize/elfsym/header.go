package elfsym

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
)

// Limits on headers. Programs and libraries have some 40 sections, whose names
// take less than a kilobyte, and some 15 segments.
const (
	maxSections     = 1 << 12
	maxSectionNames = 1 << 14 // bytes; debug/elf copies a name for each section
	maxSegments     = 1 << 10

	headerSize  = 64 // of an Elf64_Ehdr
	sectionSize = 64 // of an Elf64_Shdr
	segmentSize = 56 // of an Elf64_Phdr
)

// ErrNotELF reports that a file does not begin as an ELF file does.
var ErrNotELF = errors.New("bad magic number: not an ELF file")

// Parse reads the headers of a 64-bit little-endian ELF file. Unlike elf.NewFile
// it uses little memory whatever the file says. The contents of sections are
// still hostile: check their size before reading them, and expect no random
// access to compressed ones.
func Parse(r io.ReaderAt) (*elf.File, error) {
	h := &headers{ReaderAt: r}
	var err error
	if h.first, err = h.part(0, headerSize); err != nil {
		return nil, fmt.Errorf("read ELF header: %w", err)
	}
	if err := h.check(); err != nil {
		return nil, fmt.Errorf("read ELF header: %w", err)
	}
	e, err := elf.NewFile(h)
	if err != nil {
		return nil, fmt.Errorf("read ELF header: %w", err)
	}
	return e, nil
}

// headers is a file whose header and section headers were read once, so that
// checks on them stay valid even if the file changes.
type headers struct {
	io.ReaderAt
	first    []byte // the file's header
	at       int64  // of the section headers
	sections []byte
}

// ReadAt reads from the file, or from the saved headers.
func (h *headers) ReadAt(p []byte, offset int64) (int, error) {
	for _, kept := range []struct {
		at   int64
		data []byte
	}{{0, h.first}, {h.at, h.sections}} {
		if within := offset - kept.at; within >= 0 && within+int64(len(p)) <= int64(len(kept.data)) {
			return copy(p, kept.data[within:]), nil
		}
	}
	return h.ReaderAt.ReadAt(p, offset)
}

// part reads size bytes at offset.
func (h *headers) part(offset int64, size int) ([]byte, error) {
	data := make([]byte, size)
	if n, err := h.ReaderAt.ReadAt(data, offset); n < size {
		return nil, fmt.Errorf("%d bytes at %#x: %w", size, offset, err)
	}
	return data, nil
}

// check rejects headers that would take much memory to read.
func (h *headers) check() error {
	if string(h.first[:4]) != elf.ELFMAG {
		return ErrNotELF
	}
	class, data := elf.Class(h.first[elf.EI_CLASS]), elf.Data(h.first[elf.EI_DATA])
	if class != elf.ELFCLASS64 || data != elf.ELFDATA2LSB {
		return fmt.Errorf("%v %v (only 64 bits, little endian, are known)", class, data)
	}
	var e elf.Header64
	if _, err := binary.Decode(h.first, binary.LittleEndian, &e); err != nil {
		return err
	}
	switch {
	case e.Phnum > maxSegments || e.Phnum > 0 && e.Phentsize != segmentSize:
		return fmt.Errorf("%d segments with headers of %d bytes", e.Phnum, e.Phentsize)
	case e.Shoff == 0 && e.Shnum == 0:
		return nil
	case e.Shnum == 0 || e.Shnum > maxSections || e.Shentsize != sectionSize || e.Shoff > math.MaxInt64:
		return fmt.Errorf("%d sections with headers of %d bytes", e.Shnum, e.Shentsize)
	case e.Shstrndx >= e.Shnum:
		return fmt.Errorf("the names of sections are in section %d of %d", e.Shstrndx, e.Shnum)
	}
	var err error
	h.at = int64(e.Shoff)
	if h.sections, err = h.part(h.at, int(e.Shnum)*sectionSize); err != nil || e.Shstrndx == 0 {
		return err
	}
	var names elf.Section64
	if _, err := binary.Decode(h.sections[int(e.Shstrndx)*sectionSize:], binary.LittleEndian, &names); err != nil {
		return err
	}
	if names.Size > maxSectionNames || elf.SectionFlag(names.Flags)&elf.SHF_COMPRESSED != 0 {
		return fmt.Errorf("the names of sections take %d bytes, or are compressed", names.Size)
	}
	return nil
}
