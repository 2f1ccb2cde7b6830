package core

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"math"
	"runtime"

	"ustack/symbolize/process"
)

// maxHole is the most zero bytes between two runs of pages that one segment
// spans, as a hole in the file: a lower limit would create thousands of
// segments, a higher one files that appear much larger than they are.
const maxHole = 1 << 20

// A segment is what a PT_LOAD program header describes: the first size bytes of
// the span are in the file, as zeros where no page is held. The rest is not in
// the file.
type segment struct {
	span
	flags  elf.ProgFlag
	held   []span
	size   uint64
	offset uint64 // in the file
}

// A layout says where everything is in the file.
type layout struct {
	header   []byte // everything before the first segment's bytes
	segments []segment
	size     uint64 // of the file, holes included
}

// layOut lays out a core of regions and notes.
func layOut(regions []region, notes []byte) layout {
	var all []segment
	for _, r := range regions {
		all = append(all, r.segments()...)
	}
	const file, program, section = uint64(64), uint64(56), uint64(64) // sizes of ELF's headers
	extra := uint64(0)
	if len(all)+1 >= manyHeaders {
		extra = section
	}
	notesAt := file + program*uint64(len(all)+1) + extra
	next := roundUp(notesAt+uint64(len(notes)), pageSize())
	var header bytes.Buffer
	put := func(v any) { binary.Write(&header, binary.LittleEndian, v) } // writing to a Buffer cannot fail
	put(fileHeader(len(all) + 1))
	put(elf.Prog64{Type: uint32(elf.PT_NOTE), Off: notesAt, Filesz: uint64(len(notes)), Align: noteAlign})
	for i := range all {
		s := &all[i]
		s.offset = next
		next += s.size
		put(elf.Prog64{
			Type: uint32(elf.PT_LOAD), Flags: uint32(s.flags), Off: s.offset, Vaddr: s.start,
			Filesz: s.size, Memsz: s.span.size(), Align: pageSize(),
		})
	}
	if extra > 0 { // how ELF stores a count that does not fit in the file header
		put(elf.Section64{Info: uint32(len(all) + 1)})
	}
	header.Write(notes)
	return layout{header.Bytes(), all, next}
}

// manyHeaders is the count of program headers that means "see section 0".
const manyHeaders = 0xffff

// machines are ELF's numbers for the supported architectures.
var machines = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}

// Machine returns the architecture of this machine.
func Machine() elf.Machine { return machines[runtime.GOARCH] }

func fileHeader(programs int) elf.Header64 {
	h := elf.Header64{
		Type: uint16(elf.ET_CORE), Machine: uint16(Machine()), Version: uint32(elf.EV_CURRENT),
		Phoff: 64, Ehsize: 64, Phentsize: 56, Phnum: uint16(min(programs, manyHeaders)),
	}
	if programs >= manyHeaders {
		h.Shoff, h.Shentsize, h.Shnum = 64+56*uint64(programs), 64, 1
	}
	copy(h.Ident[:], elf.ELFMAG)
	h.Ident[elf.EI_CLASS] = byte(elf.ELFCLASS64)
	h.Ident[elf.EI_DATA] = byte(elf.ELFDATA2LSB)
	h.Ident[elf.EI_VERSION] = byte(elf.EV_CURRENT)
	return h
}

// segments splits a region where no page is held.
func (r region) segments() []segment {
	hole := uint64(maxHole)
	switch {
	case r.Deleted:
		hole = math.MaxUint64 // a hole reads as zero, which is right for memory without a name
	case r.File():
		hole = 0 // what is omitted has the file's contents, not zeros
	}
	var all []segment
	last := segment{span: span{r.Start, r.End}, flags: flags(r.Perms)}
	for _, s := range r.held {
		if end := last.start + last.size; s.start > end && s.start-end > hole {
			before := last
			before.end = s.start
			all = append(all, before)
			last = segment{span: span{s.start, r.End}, flags: last.flags}
		}
		last.held = append(last.held, s)
		last.size = s.end - last.start
	}
	if r.Deleted && len(r.held) > 0 {
		last.size = last.span.size()
	}
	return append(all, last)
}

func flags(p process.Perms) elf.ProgFlag {
	var f elf.ProgFlag
	if p.Read() {
		f |= elf.PF_R
	}
	if p.Write() {
		f |= elf.PF_W
	}
	if p.Exec() {
		f |= elf.PF_X
	}
	return f
}

// roundUp returns the least multiple of unit, a power of two, that is at least
// n.
func roundUp(n, unit uint64) uint64 { return (n + unit - 1) &^ (unit - 1) }
