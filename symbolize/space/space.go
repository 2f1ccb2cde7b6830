// Package space describes the address space of a process: what is mapped where, the
// memory, and the files whose code it runs, with their symbols and unwind tables. A
// running process, a snapshot and a core are alike: each is a Source with the mappings.
package space

import (
	"bytes"
	"cmp"
	"debug/elf"
	"errors"
	"slices"
	"strings"

	"ustack/symbolize/elfsym"
)

// A Region is a range of a process's addresses that are mapped alike.
type Region struct {
	Start, End  uint64 // up to, not including, End
	Write, Exec bool   // what the process may do there
	File        string // that is mapped; empty for anonymous memory
}

// A Mapping maps a part of a file.
type Mapping struct {
	Start, End uint64 // addresses up to, not including, End
	Offset     uint64 // in the file, of Start
	Path       string // as named in the process's mount namespace; ends in " (deleted)" if removed
}

// An Aux is an entry of the auxiliary vector, with which the kernel tells a program
// about itself.
type Aux struct{ Type, Value uint64 }

// Errors of a Source for memory that it does not have: see Space.ReadAt.
var (
	ErrUnmapped = errors.New("no memory there")
	ErrLeftOut  = errors.New("not in the core, which leaves it to the file")
)

// A Source has a process's memory.
type Source interface {
	// ReadAt fills p with the memory at address. It fails with ErrUnmapped or ErrLeftOut
	// where a file may have what it has not.
	ReadAt(p []byte, address uint64) (int, error)
	// NextData returns the first address, from address on, at which there may be something
	// other than zeros; ok is false if only zeros follow.
	NextData(address uint64) (next uint64, ok bool)
}

// A Prefetcher is memory that may have to be read from a disk.
type Prefetcher interface {
	// Prefetch has the page at address read, and does not wait for it.
	Prefetch(address uint64)
}

// A Layout is what the kernel says about a process's memory.
type Layout struct {
	Regions  []Region // by address; the files in Mappings need not be named
	Mappings []Mapping
	Auxv     []Aux
}

// A Space is an address space. It is not safe for concurrent use.
type Space struct {
	source  Source
	auxv    []Aux
	regions []Region
	modules []*Module // that have code, by address; the program first
	parts   []Part    // of modules, by address
}

// New returns the address space whose memory source has. The files that the process had
// mapped are found with f: see Module.Err. Close closes them.
func New(source Source, l Layout, f Finder) *Space {
	s := &Space{source: source, auxv: l.Auxv}
	s.describe(l, &f)
	return s
}

// Close closes the modules' files.
func (s *Space) Close() error {
	var err error
	for _, m := range s.modules {
		err = errors.Join(err, m.close())
	}
	return err
}

// Modules returns the files that have code, by address; the program first.
func (s *Space) Modules() []*Module { return s.modules }

// Types of the auxiliary vector (include/uapi/linux/auxvec.h).
const (
	auxEntry = 9  // the program's entry point
	auxRoom  = 25 // 16 random bytes, above the vector on the first stack
	auxVDSO  = 33 // the kernel's code in the process
)

// aux returns the value of that type in the auxiliary vector.
func (s *Space) aux(kind uint64) (uint64, bool) {
	for _, a := range s.auxv {
		if a.Type == kind {
			return a.Value, true
		}
	}
	return 0, false
}

// describe finds out what is mapped where, and opens the files that have code.
func (s *Space) describe(l Layout, f *Finder) {
	s.regions = regionsOf(l)
	s.addLeftOut(l.Mappings)
	s.modules = modulesOf(l.Mappings, func(m Mapping) bool {
		r, ok := s.Region(m.Start)
		return ok && r.Exec
	})
	entry, _ := s.aux(auxEntry)
	slices.SortStableFunc(s.modules, func(a, b *Module) int { return cmp.Compare(b.order(entry), a.order(entry)) })
	for i, m := range s.modules {
		id, known := s.buildID(m)
		m.buildID, m.lacksID = id, !known
		f.open(m, i == 0)
		m.data = m.ELF == nil && m.buildID == "" && errors.Is(m.Err, elfsym.ErrNotELF) && m.order(entry) == 0
		for _, mapping := range m.mappings {
			s.parts = append(s.parts, Part{mapping, m})
		}
	}
	s.addVDSO()
	slices.SortFunc(s.parts, func(a, b Part) int { return cmp.Compare(a.Start, b.Start) })
}

// regionsOf returns the regions with the files that are mapped there.
func regionsOf(l Layout) []Region {
	var regions []Region
	for _, r := range l.Regions {
		at, found := slices.BinarySearchFunc(l.Mappings, r.Start, func(m Mapping, address uint64) int {
			return compareRange(m.Start, m.End, address)
		})
		if found {
			r.File = l.Mappings[at].Path
		}
		regions = append(regions, r)
	}
	return regions
}

// Renew has the process's regions be those of l. It reports whether the files that have
// code are mapped as New has found them: otherwise only a new Space knows them.
func (s *Space) Renew(l Layout) (same bool) {
	s.regions = regionsOf(l)
	for _, r := range s.regions {
		if p, ok := s.Part(r.Start); r.Exec && r.File != "" && (!ok || p.Path != r.File || p.Start > r.Start || p.End < r.End) {
			return false
		}
	}
	return true
}

// addLeftOut adds the parts of files that the core does not even mention: gdb leaves out
// code that is the same as in its file.
func (s *Space) addLeftOut(names []Mapping) {
	runs := make(map[string]bool) // by path
	for _, m := range names {
		if m.Offset == 0 {
			var magic [len(elf.ELFMAG)]byte
			_, err := s.source.ReadAt(magic[:], m.Start)
			runs[m.Path] = strings.HasPrefix(m.Path, "/") && (err != nil || string(magic[:]) == elf.ELFMAG)
		}
	}
	var left []Region
	for _, m := range names {
		if _, ok := s.Region(m.Start); !ok {
			left = append(left, Region{Start: m.Start, End: m.End, Exec: runs[m.Path], File: m.Path})
		}
	}
	s.regions = append(s.regions, left...)
	slices.SortFunc(s.regions, func(a, b Region) int { return cmp.Compare(a.Start, b.Start) })
}

// VDSO is the path of the mapping of code that the kernel gives each process. It is the
// same for all of them and is in no file.
const VDSO = "[vdso]"

// maxVDSO bounds the vdso's image: it takes two or three pages.
const maxVDSO = 1 << 20

// ReadVDSO reads the vdso's image, which a process has mapped from start to end.
func ReadVDSO(mem Source, start, end uint64) ([]byte, error) {
	image := make([]byte, min(end-start, maxVDSO))
	_, err := mem.ReadAt(image, start)
	return image, err
}

// addVDSO adds a module for the code that the kernel gives each process.
func (s *Space) addVDSO() {
	start, ok := s.aux(auxVDSO)
	r, mapped := s.Region(start)
	if !ok || !mapped || r.File != "" {
		return
	}
	image, err := ReadVDSO(s.source, r.Start, r.End)
	if err != nil {
		return
	}
	mapping := Mapping{Start: r.Start, End: r.Start + uint64(len(image)), Path: VDSO}
	m := &Module{Path: VDSO, found: VDSO, mappings: []Mapping{mapping}}
	if m.use(bytes.NewReader(image)) == nil {
		s.modules = append(s.modules, m)
		s.parts = append(s.parts, Part{mapping, m})
	}
}
