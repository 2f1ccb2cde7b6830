package elfsym

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"math"
)

// Address returns where the byte at offset in the file is loaded. If several
// segments load the same byte, one that holds code is preferred. Pass the offset
// of the exact byte, such as a program counter's, not that of a mapping's first
// byte: mappings begin at whole pages, where the file may still hold another
// segment.
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

// Bias returns the load bias of the file's code in a process that has mapped size
// bytes of it, from offset on, at start. ok is false if no segment has one.
func (f *File) Bias(start, offset, size uint64) (bias uint64, ok bool) {
	for _, p := range f.loads {
		if p.Flags&elf.PF_X != 0 && p.Off < end(offset, size) && offset < end(p.Off, p.Filesz) {
			return start - offset + p.Off - p.Vaddr, true
		}
	}
	return 0, false
}

// Offset returns the file offset of the byte loaded at address. It is false for
// bytes that no segment loads or that the file does not hold, such as .bss.
func (f *File) Offset(address uint64) (offset uint64, ok bool) {
	p, ok := f.segment(address)
	if !ok || address-p.Vaddr >= p.Filesz {
		return 0, false
	}
	return p.Off + (address - p.Vaddr), true
}

// ReadAt fills p with the contents of the file as loaded at address, before
// relocation; bytes that the file does not hold, such as .bss, are zero. The
// count is below len(p) only with an error.
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

// Constant reports whether the file holds size bytes at address that a loaded
// program cannot write to.
func (f *File) Constant(address, size uint64) bool {
	s, ok := f.segment(address)
	return ok && s.Flags&elf.PF_W == 0 && address-s.Vaddr < s.Filesz && size <= s.Filesz-(address-s.Vaddr)
}

// Bounds on a search.
const (
	searchStep  = 1 << 20
	maxSearched = 512 << 20 // bytes of a segment; the largest of Node.js have 90 MB
	maxFound    = 64
)

// Search returns the addresses at which the file holds pattern where a loaded program
// cannot write, the first maxFound of them.
func (f *File) Search(pattern []byte) (addresses []uint64, err error) {
	buffer := make([]byte, searchStep+len(pattern)-1)
	for _, p := range f.loads {
		if p.Flags&elf.PF_W != 0 {
			continue
		}
		size := min(p.Filesz, maxSearched)
		for from := uint64(0); from < size; from += searchStep {
			part := buffer[:min(uint64(len(buffer)), size-from)]
			if _, err := f.r.ReadAt(part, int64(p.Off+from)); err != nil {
				return addresses, fmt.Errorf("search %d bytes at %#x: %w", len(part), p.Vaddr+from, err)
			}
			for at := 0; len(addresses) < maxFound; at++ {
				next := bytes.Index(part[at:], pattern)
				if next < 0 {
					break
				}
				at += next
				addresses = append(addresses, p.Vaddr+from+uint64(at))
			}
		}
	}
	return addresses, nil
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

// end returns start+size, or the highest address if that overflows.
func end(start, size uint64) uint64 {
	if size > math.MaxUint64-start {
		return math.MaxUint64
	}
	return start + size
}

func word(b []byte) uint32 { return binary.LittleEndian.Uint32(b) }
