package unwind

import (
	"cmp"
	"debug/elf"
	"encoding/binary"
	"math"
	"math/bits"
	"slices"

	"ustack/symbolize/unwind/x86"
)

// Limits on code that is analyzed.
const (
	maxCode     = 64 << 20
	maxFunction = 1 << 20
	maxTable    = 32 << 20 // bytes of a table of symbols or relocations
)

// A region is executable code of a file, by its address there.
type region struct {
	start uint32
	code  []byte
}

func (r region) end() uint32 { return r.start + uint32(len(r.code)) }

// A set is a set of addresses from first on.
type set struct {
	first uint32
	words []uint64
}

func newSet(all Span) set { return set{all.Start, make([]uint64, (all.End-all.Start)/64+1)} }

func (s *set) add(address uint32) {
	if at := address - s.first; at/64 < uint32(len(s.words)) {
		s.words[at/64] |= 1 << (at % 64)
	}
}

func (s *set) remove(address uint32) {
	if at := address - s.first; at/64 < uint32(len(s.words)) {
		s.words[at/64] &^= 1 << (at % 64)
	}
}

func (s *set) has(address uint32) bool {
	at := address - s.first
	return at/64 < uint32(len(s.words)) && s.words[at/64]>>(at%64)&1 != 0
}

// next returns the first address that is not before start; end if there is none before
// end.
func (s *set) next(start, end uint32) uint32 {
	for address := start; address < end; {
		at := address - s.first
		if at/64 >= uint32(len(s.words)) {
			break
		}
		if word := s.words[at/64] >> (at % 64); word != 0 {
			return min(end, address+uint32(bits.TrailingZeros64(word)))
		}
		address += 64 - at%64
	}
	return end
}

// An image is the code of a file, and what is known of where functions begin.
type image struct {
	regions []region
	starts  set // what is called
	likely  set // what pointers lead to
	jumped  set // what jumps from other functions lead to
	jumps   map[uint32]state

	tails []Span // jumps from where to where, as far as functions' starts matter for them

	work int // instructions that were followed, about
}

// from returns the code from an address on.
func (m *image) from(address uint32) []byte {
	for _, r := range m.regions {
		if address >= r.start && address < r.end() {
			return r.code[address-r.start:]
		}
	}
	return nil
}

func (m *image) jump(to uint32, s state) {
	if len(m.jumps) < maxRows {
		m.jumped.add(to)
		m.jumps[to] = s
	}
}

// findStarts notes where functions begin as far as code says, which a table covers or not.
func (m *image) findStarts(part Span, covered bool) {
	code := m.from(part.Start)
	for at := 0; at < min(len(code), int(part.End-part.Start)); {
		i := x86.Decode(code[at:])
		at += int(i.Length)
		to := part.Start + uint32(at) + uint32(i.Value)
		switch i.Kind {
		case x86.Call:
			m.starts.add(to)
		case x86.Address:
			m.likely.add(to)
		case x86.Jump:
			if covered {
				m.likely.add(to)
			} else if len(m.tails) < maxRows {
				m.tails = append(m.tails, Span{part.Start + uint32(at), to})
			}
		}
	}
}

// findTails notes where jumps lead that leave their function, once most starts are known:
// they may be the last calls of it.
func (m *image) findTails() {
	for _, t := range m.tails {
		low, high := min(t.Start, t.End), max(t.Start, t.End)
		if m.starts.next(low, high) < high {
			m.likely.add(t.End)
		}
	}
	m.tails = nil
}

// newImage returns an image of code in a range of addresses, without the code.
func newImage(all Span) *image {
	return &image{starts: newSet(all), likely: newSet(all), jumped: newSet(all), jumps: make(map[uint32]state)}
}

// read reads a part of a section's code.
func (m *image) read(s *elf.Section, part Span) {
	code := make([]byte, part.End-part.Start)
	if n, _ := s.ReadAt(code, int64(uint64(part.Start)-s.Addr)); n == len(code) {
		m.regions = append(m.regions, region{part.Start, code})
	}
}

// executable returns the sections of a file that have code, by address.
func executable(f *elf.File) []*elf.Section {
	var all []*elf.Section
	total := uint64(0)
	for _, s := range f.Sections {
		if s.Flags&(elf.SHF_EXECINSTR|elf.SHF_COMPRESSED) != elf.SHF_EXECINSTR || s.Type != elf.SHT_PROGBITS ||
			s.Addr == 0 || s.Size == 0 || s.Size > maxCode || s.Addr > math.MaxUint32-maxCode {
			continue
		}
		if total += s.Size; total > maxCode {
			break
		}
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b *elf.Section) int { return cmp.Compare(a.Addr, b.Addr) })
	end := uint64(0)
	return slices.DeleteFunc(all, func(s *elf.Section) bool {
		overlaps := s.Addr < end
		end = max(end, s.Addr+s.Size)
		return overlaps
	})
}

// findSymbols notes the functions that a file exports, and pointers to code.
func (m *image) findSymbols(f *elf.File) {
	for _, s := range f.Sections {
		pointers := s.Flags&(elf.SHF_WRITE|elf.SHF_ALLOC) == elf.SHF_WRITE|elf.SHF_ALLOC && s.Type != elf.SHT_NOBITS
		if s.Type != elf.SHT_DYNSYM && s.Type != elf.SHT_RELA && !pointers || s.Size > maxTable || s.Flags&elf.SHF_COMPRESSED != 0 {
			continue
		}
		data, err := s.Data()
		switch {
		case err != nil:
		case pointers:
			for ; len(data) >= 8; data = data[8:] {
				m.note(&m.likely, binary.LittleEndian.Uint64(data))
			}
		default:
			m.findEntries(s.Type, data)
		}
	}
}

// findEntries does so for a table of symbols or of relocations, whose entries have the same size.
func (m *image) findEntries(of elf.SectionType, data []byte) {
	for ; len(data) >= elf.Sym64Size; data = data[elf.Sym64Size:] {
		second, third := binary.LittleEndian.Uint64(data[8:]), binary.LittleEndian.Uint64(data[16:])
		switch {
		case of == elf.SHT_RELA && second == uint64(elf.R_X86_64_RELATIVE):
			m.note(&m.likely, third)
		case of == elf.SHT_DYNSYM && elf.ST_TYPE(data[4]) == elf.STT_FUNC:
			m.note(&m.starts, second)
		}
	}
}

func (m *image) note(s *set, address uint64) {
	if address <= math.MaxUint32 {
		s.add(uint32(address))
	}
}
