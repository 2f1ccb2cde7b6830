package libuv

import (
	"bytes"
	"debug/elf"
	enc "encoding/binary"
	"errors"
	"io"
	"sort"

	"ustack/symbolize/elfsym"
)

// An Image is the code of an ELF file, function by function. The bounds of functions
// are known without symbols: strip leaves the unwind tables.
type Image struct {
	file *elf.File
	base uint64 // address of .eh_frame_hdr
	rows []byte // its rows, by start
	// pointer reads the address stored at an address, as the loader has left it.
	pointer func(at uint64) (address uint64, ok bool)
}

const (
	rowSize     = 8       // bytes: the offsets of a function's start and its .eh_frame entry, from base
	maxRows     = 4 << 20 // Node.js has 130,000, the largest browsers less than a million
	maxFunction = 1 << 16 // bytes decoded of one function: few are longer
	maxTraced   = 1 << 12 // bytes: the longest libuv function that is traced has about 1500
)

// header is how .eh_frame_hdr begins as GNU ld, gold and lld write it (LSB Core,
// 10.6.2): version 1; then where .eh_frame is, relative to here, the number of rows, and
// rows relative to the header, all in 32 bits.
var header = []byte{1, 0x1b, 0x03, 0x3b}

var errNoFunctions = errors.New("find functions: there is no usual .eh_frame_hdr")

// Open reads an ELF file, which must stay open. pointer reads relocated data from
// a process, at addresses as in the file.
func Open(r io.ReaderAt, pointer func(at uint64) (uint64, bool)) (*Image, error) {
	file, err := elfsym.Parse(r)
	if err != nil {
		return nil, err
	}
	if file.Machine != elf.EM_X86_64 && file.Machine != elf.EM_AARCH64 {
		return nil, errNoFunctions
	}
	im := &Image{file: file, pointer: pointer}
	for _, p := range im.file.Progs {
		if p.Type == elf.PT_GNU_EH_FRAME {
			im.base, im.rows = p.Vaddr, readRows(p)
		}
	}
	if len(im.rows) == 0 {
		return nil, errNoFunctions
	}
	return im, nil
}

// readRows returns the rows of .eh_frame_hdr; none if its format is not the usual one.
func readRows(p *elf.Prog) []byte {
	const count, first = 8, 12 // offsets in the header
	var start [first]byte
	if _, err := p.ReadAt(start[:], 0); err != nil || !bytes.HasPrefix(start[:], header) {
		return nil
	}
	n := uint64(enc.LittleEndian.Uint32(start[count:]))
	if n > maxRows || first+rowSize*n > p.Filesz {
		return nil
	}
	rows := make([]byte, rowSize*n)
	if _, err := p.ReadAt(rows, first); err != nil {
		return nil
	}
	return rows
}

// relative returns the address that 32 bits give relative to origin.
func relative(bits []byte, origin uint64) uint64 {
	return origin + uint64(int64(int32(enc.LittleEndian.Uint32(bits))))
}

// size returns the size in bytes of the function that starts at address; 0 if none
// starts there.
func (im *Image) size(address uint64) uint64 {
	n := len(im.rows) / rowSize
	at := sort.Search(n, func(i int) bool { return relative(im.rows[i*rowSize:], im.base) >= address })
	if at == n || relative(im.rows[at*rowSize:], im.base) != address {
		return 0
	}
	// An entry of .eh_frame (LSB Core, 10.6.1.1.2): its length, a reference, the function's
	// start, relative to here, and the function's length, all in 32 bits.
	const start, length = 8, 12
	var description [16]byte
	from := relative(im.rows[at*rowSize+4:], im.base)
	if !im.read(description[:], from) || relative(description[start:], from+start) != address {
		return 0
	}
	return uint64(enc.LittleEndian.Uint32(description[length:]))
}

// start returns the start of the function that holds address; 0 if none does.
func (im *Image) start(address uint64) uint64 {
	n := len(im.rows) / rowSize
	after := sort.Search(n, func(i int) bool { return relative(im.rows[i*rowSize:], im.base) > address })
	if after == 0 {
		return 0
	}
	start := relative(im.rows[(after-1)*rowSize:], im.base)
	if address-start >= im.size(start) {
		return 0
	}
	return start
}

// starts reports whether a function starts at address.
func (im *Image) starts(address uint64) bool { return im.size(address) > 0 }

// code returns the machine code of the function that starts at address; nil if none
// does, or it is too long.
func (im *Image) code(address uint64) []byte {
	size := im.size(address)
	if size == 0 || size > maxFunction {
		return nil
	}
	code := make([]byte, size)
	if !im.read(code, address) {
		return nil
	}
	return code
}

// offset returns the file offset of the byte at address.
func (im *Image) offset(address uint64) (offset uint64, ok bool) {
	if p := im.segment(address); p != nil {
		return p.Off + (address - p.Vaddr), true
	}
	return 0, false
}

// read fills p with the file's contents for address.
func (im *Image) read(p []byte, address uint64) bool {
	s := im.segment(address)
	if s == nil {
		return false
	}
	_, err := s.ReadAt(p, int64(address-s.Vaddr))
	return err == nil
}

// segment returns the segment that is loaded at address; nil if there is none.
func (im *Image) segment(address uint64) *elf.Prog {
	for _, p := range im.file.Progs {
		if p.Type == elf.PT_LOAD && address >= p.Vaddr && address-p.Vaddr < p.Filesz {
			return p
		}
	}
	return nil
}

// constant returns the address stored at an address to which the process cannot write.
func (im *Image) constant(at uint64) (address uint64, ok bool) {
	for _, p := range im.file.Progs {
		fixed := p.Type == elf.PT_LOAD && p.Flags&elf.PF_W == 0 || p.Type == elf.PT_GNU_RELRO
		if fixed && at >= p.Vaddr && at-p.Vaddr < p.Filesz {
			return im.pointer(at)
		}
	}
	return 0, false
}

// trace follows the function that starts at address; the result is empty if no function
// does, or it is too long.
func (im *Image) trace(address uint64) effects {
	follow := traceCode
	if im.file.Machine == elf.EM_AARCH64 {
		follow = traceARM
	}
	if im.size(address) > maxTraced {
		return effects{}
	}
	return follow(im.code(address), address, im.constant)
}
