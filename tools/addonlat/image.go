package addonlat

import (
	"bytes"
	"debug/elf"
	enc "encoding/binary"
	"errors"
	"io"
	"sort"

	"ustack/symbolize/elfsym"
)

// An image is the code of an ELF file, function by function. Where functions
// begin and end is known without symbols: strip leaves the tables by which stacks
// are unwound.
type image struct {
	file *elf.File
	base uint64 // address of .eh_frame_hdr
	rows []byte // its rows, by start
	// pointer reads an address at an address, as the loader has left it there.
	pointer func(at uint64) (address uint64, ok bool)
}

const (
	rowSize     = 8       // bytes: where a function starts and where .eh_frame describes it, from base
	maxRows     = 4 << 20 // Node.js has 130,000, the largest browsers less than a million
	maxFunction = 1 << 16 // bytes that are decoded of one: few are longer
	maxTraced   = 1 << 12 // bytes: libuv's longest that is followed has some 1500
)

// header is how .eh_frame_hdr begins as GNU ld, gold and lld write it (LSB Core,
// 10.6.2): version 1; then where .eh_frame is, from here, how many rows there are,
// and rows relative to the header, all in 32 bits.
var header = []byte{1, 0x1b, 0x03, 0x3b}

var errNoFunctions = errors.New("find functions: there is no usual .eh_frame_hdr")

// openImage reads an ELF file, which must stay open. What is relocated in it, pointer
// reads in a process, with addresses as they are in the file.
func openImage(r io.ReaderAt, pointer func(at uint64) (uint64, bool)) (*image, error) {
	file, err := elfsym.Parse(r)
	if err != nil {
		return nil, err
	}
	im := &image{file: file, pointer: pointer}
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

// readRows returns the rows of .eh_frame_hdr; none if it is not as usual.
func readRows(p *elf.Prog) []byte {
	const count, first = 8, 12 // where they are
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

// relative returns the address that 32 bits mean, from origin.
func relative(bits []byte, origin uint64) uint64 {
	return origin + uint64(int64(int32(enc.LittleEndian.Uint32(bits))))
}

// size returns how many bytes the function that starts at address has; 0 if none
// starts there.
func (im *image) size(address uint64) uint64 {
	n := len(im.rows) / rowSize
	at := sort.Search(n, func(i int) bool { return relative(im.rows[i*rowSize:], im.base) >= address })
	if at == n || relative(im.rows[at*rowSize:], im.base) != address {
		return 0
	}
	// .eh_frame's description (LSB Core, 10.6.1.1.2): its length, a reference, where
	// the function starts, from here, and the function's length, all in 32 bits.
	const start, length = 8, 12
	var description [16]byte
	from := relative(im.rows[at*rowSize+4:], im.base)
	if !im.read(description[:], from) || relative(description[start:], from+start) != address {
		return 0
	}
	return uint64(enc.LittleEndian.Uint32(description[length:]))
}

// start returns where the function starts that holds address; 0 if none does.
func (im *image) start(address uint64) uint64 {
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
func (im *image) starts(address uint64) bool { return im.size(address) > 0 }

// code returns the machine code of the function that starts at address; nil if
// none does, or one that is too long.
func (im *image) code(address uint64) []byte {
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

// offset returns where in the file the byte at address is.
func (im *image) offset(address uint64) (offset uint64, ok bool) {
	if p := im.segment(address); p != nil {
		return p.Off + (address - p.Vaddr), true
	}
	return 0, false
}

// read fills p with what the file has for address.
func (im *image) read(p []byte, address uint64) bool {
	s := im.segment(address)
	if s == nil {
		return false
	}
	_, err := s.ReadAt(p, int64(address-s.Vaddr))
	return err == nil
}

// segment returns the part of the file that is loaded at address; nil if none is.
func (im *image) segment(address uint64) *elf.Prog {
	for _, p := range im.file.Progs {
		if p.Type == elf.PT_LOAD && address >= p.Vaddr && address-p.Vaddr < p.Filesz {
			return p
		}
	}
	return nil
}

// constant returns the address that is kept at an address which the process cannot
// write to.
func (im *image) constant(at uint64) (address uint64, ok bool) {
	for _, p := range im.file.Progs {
		fixed := p.Type == elf.PT_LOAD && p.Flags&elf.PF_W == 0 || p.Type == elf.PT_GNU_RELRO
		if fixed && at >= p.Vaddr && at-p.Vaddr < p.Filesz {
			return im.pointer(at)
		}
	}
	return 0, false
}

// trace follows the function that starts at address; empty if none does, or one
// that is too long.
func (im *image) trace(address uint64) *tracer {
	if im.size(address) > maxTraced {
		return &tracer{}
	}
	return trace(im.code(address), address, im.constant)
}
