package jscore

import (
	"bytes"
	"cmp"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"ustack/symbolize/space"
	"ustack/tools/core"
)

// A part is a range of addresses that maps a module's file.
type part struct {
	core.Mapping
	module *module
}

// Regions returns the process's mappings, by address.
func (d *Dump) Regions() []space.Region { return d.regions }

// NextData returns the first address, from address on, at which the core may hold
// something other than zeros; ok is false if there is none.
func (d *Dump) NextData(address uint64) (next uint64, ok bool) { return d.core.NextData(address) }

// ReadAt fills p with the process's memory at address: from the core or, if the core
// leaves it out, from the file that was mapped there. The count is below len(p) only
// with an error.
func (d *Dump) ReadAt(p []byte, address uint64) (int, error) {
	done := 0
	for {
		n, err := d.core.ReadAt(p[done:], address+uint64(done))
		done += n
		if err == nil || !errors.Is(err, core.ErrLeftOut) && !errors.Is(err, core.ErrUnmapped) {
			return done, err
		}
		n, fileErr := d.readFile(p[done:], address+uint64(done))
		if fileErr != nil {
			return done, errors.Join(err, fileErr)
		}
		done += n
	}
}

// readFile fills p from the file mapped at address, as far as the mapping reaches.
func (d *Dump) readFile(p []byte, address uint64) (int, error) {
	at, ok := d.partAt(address)
	if !ok {
		return 0, fmt.Errorf("read memory at %#x: %w", address, core.ErrUnmapped)
	}
	if at.module.file == nil {
		return 0, at.module.err
	}
	p = p[:min(uint64(len(p)), at.End-address)]
	n, err := at.module.file.ReadAt(p, int64(address-at.Start+at.Offset))
	if n == len(p) || n > 0 {
		return n, nil
	}
	return 0, fmt.Errorf("read %s: %w", at.module.found, err)
}

// partAt returns the part of a module that contains address.
func (d *Dump) partAt(address uint64) (part, bool) {
	at, found := slices.BinarySearchFunc(d.parts, address, func(p part, address uint64) int {
		return compareRange(p.Start, p.End, address)
	})
	if !found {
		return part{}, false
	}
	return d.parts[at], true
}

// region returns the region that contains address.
func (d *Dump) region(address uint64) (space.Region, bool) { return regionAt(d.regions, address) }

func regionAt(regions []space.Region, address uint64) (space.Region, bool) {
	at, found := slices.BinarySearchFunc(regions, address, func(r space.Region, address uint64) int {
		return compareRange(r.Start, r.End, address)
	})
	if !found {
		return space.Region{}, false
	}
	return regions[at], true
}

// compareRange returns 0 if address is in [start, end), otherwise on which side of it
// the range is.
func compareRange(start, end, address uint64) int {
	switch {
	case end <= address:
		return -1
	case start > address:
		return 1
	}
	return 0
}

func (d *Dump) word(address uint64) (uint64, error) {
	var b [8]byte
	_, err := d.ReadAt(b[:], address)
	return binary.LittleEndian.Uint64(b[:]), err
}

// Types of the auxiliary vector (include/uapi/linux/auxvec.h).
const (
	auxEntry = 9  // the program's entry point
	auxRoom  = 25 // 16 random bytes, above the vector on the first stack
	auxVDSO  = 33 // the kernel's code in the process
)

// aux returns the value of that type in the auxiliary vector.
func (d *Dump) aux(kind uint64) (uint64, bool) {
	for _, a := range d.core.Auxv() {
		if a.Type == kind {
			return a.Value, true
		}
	}
	return 0, false
}

// describe finds out what is mapped where, and opens the files that have code.
func (d *Dump) describe(f finder) {
	names := d.core.Mappings()
	for _, r := range d.core.Regions() {
		region := space.Region{Start: r.Start, End: r.End, Write: r.Perms&elf.PF_W != 0, Exec: r.Perms&elf.PF_X != 0}
		at, found := slices.BinarySearchFunc(names, r.Start, func(m core.Mapping, address uint64) int {
			return compareRange(m.Start, m.End, address)
		})
		if found {
			region.File = names[at].Path
		}
		d.regions = append(d.regions, region)
	}
	d.addLeftOut(names)
	d.modules = modulesOf(names, func(m core.Mapping) bool {
		r, ok := d.region(m.Start)
		return ok && r.Exec
	})
	entry, _ := d.aux(auxEntry)
	slices.SortStableFunc(d.modules, func(a, b *module) int { return cmp.Compare(b.order(entry), a.order(entry)) })
	for i, m := range d.modules {
		m.buildID = d.buildID(m)
		f.open(m, i == 0)
		if m.elf != nil && m.elf.Partial() != nil {
			d.lacks(m.path, m.elf.Partial(), "some of its functions have no names")
		}
		if m.err != nil {
			d.lacks(m.path, m.err, "its code has no names, and frames that it left no pointer for are not found")
		}
		for _, mapping := range m.mappings {
			d.parts = append(d.parts, part{mapping, m})
		}
	}
	d.addVDSO()
	slices.SortFunc(d.parts, func(a, b part) int { return cmp.Compare(a.Start, b.Start) })
}

// addLeftOut adds the parts of files that the core does not even mention: gdb leaves out
// code that is the same as in its file.
func (d *Dump) addLeftOut(names []core.Mapping) {
	runs := make(map[string]bool) // by path
	for _, m := range names {
		if m.Offset == 0 {
			var magic [len(elf.ELFMAG)]byte
			_, err := d.core.ReadAt(magic[:], m.Start)
			runs[m.Path] = strings.HasPrefix(m.Path, "/") && (err != nil || string(magic[:]) == elf.ELFMAG)
		}
	}
	var left []space.Region
	for _, m := range names {
		if _, ok := d.region(m.Start); !ok {
			left = append(left, space.Region{Start: m.Start, End: m.End, Exec: runs[m.Path], File: m.Path})
		}
	}
	d.regions = append(d.regions, left...)
	slices.SortFunc(d.regions, func(a, b space.Region) int { return cmp.Compare(a.Start, b.Start) })
}

// maxVDSO bounds the vdso's image: it takes two or three pages.
const maxVDSO = 1 << 20

// addVDSO adds a module for the code that the kernel gives each process.
func (d *Dump) addVDSO() {
	start, ok := d.aux(auxVDSO)
	r, mapped := d.region(start)
	if !ok || !mapped || r.File != "" {
		return
	}
	image := make([]byte, min(r.End-r.Start, maxVDSO))
	if _, err := d.core.ReadAt(image, r.Start); err != nil {
		return
	}
	const path = "[vdso]"
	mapping := core.Mapping{Start: r.Start, End: r.Start + uint64(len(image)), Path: path}
	m := &module{path: path, found: path, mappings: []core.Mapping{mapping}}
	if m.use(bytes.NewReader(image)) == nil {
		d.modules = append(d.modules, m)
		d.parts = append(d.parts, part{mapping, m})
	}
}
