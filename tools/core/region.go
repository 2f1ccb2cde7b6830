package core

import "debug/elf"

// A Region is a range of the process's addresses.
type Region struct {
	Start, End uint64       // up to, not including, End
	Held       uint64       // bytes from Start on that the core contains
	Perms      elf.ProgFlag // what access the process had
}

// Regions returns the process's mappings, by address. A mapping may be split
// into several, where the core omits pages.
func (f *File) Regions() []Region {
	regions := make([]Region, len(f.segments))
	for i, s := range f.segments {
		regions[i] = Region{s.start, s.end, s.size, s.flags}
	}
	return regions
}

// Cut returns how many bytes of memory are missing because the core was
// truncated: 0 for a complete one.
func (f *File) Cut() uint64 {
	var cut uint64
	for _, s := range f.segments {
		has := uint64(len(f.data)) - min(s.offset, uint64(len(f.data)))
		cut += s.size - min(s.size, has)
	}
	return cut
}
