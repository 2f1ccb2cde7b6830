package core

import "debug/elf"

// A Region is a range of the process's addresses.
type Region struct {
	Start, End uint64       // up to, not including, End
	Held       uint64       // bytes from Start on that the core has
	Perms      elf.ProgFlag // what the process might do there
}

// Regions are the process's mappings, by address. One may be in several parts,
// where the core leaves pages out.
func (f *File) Regions() []Region {
	regions := make([]Region, len(f.segments))
	for i, s := range f.segments {
		regions[i] = Region{s.start, s.end, s.size, s.flags}
	}
	return regions
}

// Cut returns how many bytes of memory the core says it has, but ends before:
// 0 for a whole one.
func (f *File) Cut() uint64 {
	var cut uint64
	for _, s := range f.segments {
		has := uint64(len(f.data)) - min(s.offset, uint64(len(f.data)))
		cut += s.size - min(s.size, has)
	}
	return cut
}
