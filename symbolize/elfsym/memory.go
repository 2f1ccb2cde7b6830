package elfsym

import (
	"debug/elf"
	"encoding/binary"
	"fmt"
	"math"
)

// Address returns where the byte at offset in the file is loaded. A segment
// that holds code is preferred where several load the same byte. Ask for the very
// byte, such as a program counter's, not for a mapping's first: mappings
// begin at whole pages, and there the file may still hold another segment.
func (f *File) Address(offset uint64) (address uint64, ok bool) {
	for _, p := range f.loads {
		if offset < p.Off || offset-p.Off >= p.Filesz {
			continue
		}
		if !ok || p.Flags&elf.PF_X != 0 {
			address, ok = p.Vaddr+(offset-p.Off), true
		}
		if p.Flags&elf.PF_X != 0 {
			break
		}
	}
	return address, ok
}

// Bias returns what a process has loaded the file's code above the addresses in it,
// of which it has mapped size bytes from offset on at start; false if no segment has one.
func (f *File) Bias(start, offset, size uint64) (bias uint64, ok bool) {
	for _, p := range f.loads {
		if p.Flags&elf.PF_X != 0 && p.Off < end(offset, size) && offset < end(p.Off, p.Filesz) {
			return start - offset + p.Off - p.Vaddr, true
		}
	}
	return 0, false
}

// Offset returns where in the file the byte loaded at address is. It is false
// for what no segment loads and for what the file does not hold, such as .bss.
func (f *File) Offset(address uint64) (offset uint64, ok bool) {
	p, ok := f.segment(address)
	if !ok || address-p.Vaddr >= p.Filesz {
		return 0, false
	}
	return p.Off + (address - p.Vaddr), true
}

// ReadAt fills p with what the file has for address when it is loaded, before
// relocation; what the file does not hold, such as .bss, is zero. The count is
// below len(p) only with an error.
func (f *File) ReadAt(p []byte, address uint64) (int, error) {
	done := 0
	for done < len(p) {
		at := address + uint64(done)
		s, ok := f.segment(at)
		if !ok {
			return done, fmt.Errorf("read %d bytes at %#x: no segment there", len(p), at)
		}
		within := at - s.Vaddr
		if within >= s.Filesz {
			n := min(s.Memsz-within, uint64(len(p)-done))
			clear(p[done : done+int(n)])
			done += int(n)
			continue
		}
		n := min(s.Filesz-within, uint64(len(p)-done))
		got, err := f.r.ReadAt(p[done:done+int(n)], int64(s.Off+within))
		done += got
		if uint64(got) < n {
			return done, fmt.Errorf("read %d bytes at %#x: %w", len(p), at, err)
		}
	}
	return done, nil
}

// Constant reports whether the file holds size bytes at address that a loaded program
// cannot write to.
func (f *File) Constant(address, size uint64) bool {
	s, ok := f.segment(address)
	return ok && s.Flags&elf.PF_W == 0 && address-s.Vaddr < s.Filesz && size <= s.Filesz-(address-s.Vaddr)
}

// segment returns the segment that loads address.
func (f *File) segment(address uint64) (elf.ProgHeader, bool) {
	for _, p := range f.loads {
		if address >= p.Vaddr && address-p.Vaddr < p.Memsz {
			return p, true
		}
	}
	return elf.ProgHeader{}, false
}

// end is start+size, or the end of all addresses if that is beyond it.
func end(start, size uint64) uint64 {
	if size > math.MaxUint64-start {
		return math.MaxUint64
	}
	return start + size
}

func word(b []byte) uint32 { return binary.LittleEndian.Uint32(b) }
