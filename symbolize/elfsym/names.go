package elfsym

import (
	"cmp"
	"debug/elf"
	"hash/maphash"
	"iter"
	"slices"

	"ustack/symbolize/internal/radix"
)

const (
	maxSameName = 64      // symbols of one name that are considered
	maxMatches  = 1 << 16 // symbols of one table that have a prefix; node has some 3,000 for each prefix in use
)

// Symbol returns the symbol with that raw name, a function, variable or other. Of
// several, it prefers one that is not local, then .symtab's.
func (f *File) Symbol(name string) (Symbol, bool) {
	if known := f.known.Load(); known != nil && startsWith(name, known.prefixes) {
		return known.symbol(name)
	}
	return preferred(func(yield func(Symbol) bool) {
		for ref := range f.candidates(name) {
			if s, ok := f.symbol(ref); ok && s.Name == name && !yield(s) {
				return
			}
		}
	})
}

// preferred returns the first symbol that is not local, or else the first.
func preferred(all iter.Seq[Symbol]) (s Symbol, found bool) {
	for next := range all {
		if next.Bind != elf.STB_LOCAL {
			return next, true
		}
		if !found {
			s, found = next, true
		}
	}
	return s, found
}

// Symbols yields each symbol whose raw name starts with one of the prefixes, in the order
// of the file's strings. A symbol that is in several tables is yielded once. Symbols
// reads the strings of the whole file, some 20 ms for node, unless they are known.
func (f *File) Symbols(prefixes ...string) iter.Seq[Symbol] {
	return func(yield func(Symbol) bool) {
		known := f.known.Load()
		if known == nil || !known.all(prefixes) {
			known, _ = f.find(prefixes)
		}
		type identity struct {
			name    string
			address uint64
		}
		seen := make(map[identity]int) // by the table that they are in first
		for _, s := range known.symbols {
			if !startsWith(s.Name, prefixes) {
				continue
			}
			id := identity{s.Name, s.Address}
			table, ok := seen[id]
			if !ok {
				seen[id] = s.ref.table()
			} else if table != s.ref.table() {
				continue
			}
			if !yield(s.Symbol) {
				return
			}
		}
	}
}

// Know reads the symbols whose raw names start with the prefixes, so that Symbol and
// Symbols find them without reading all the file's strings again.
func (f *File) Know(prefixes ...string) {
	if known, complete := f.find(prefixes); complete {
		f.known.Store(known)
	}
}

// A selection is the symbols whose names start with one of some prefixes, table by table
// in the order of the file's strings.
type selection struct {
	prefixes []string
	symbols  []selected
}

type selected struct {
	Symbol
	ref reference
}

// find reads the symbols that have a prefix. The selection is complete unless there are
// too many.
func (f *File) find(prefixes []string) (found *selection, complete bool) {
	found, complete = &selection{prefixes: prefixes}, true
	for i, t := range f.tables {
		var matches []uint32
		_ = t.names(func(index uint32, name []byte) { // Partial reports damage
			if !startsWith(name, prefixes) {
				return
			}
			if len(matches) == maxMatches {
				complete = false
				return
			}
			matches = append(matches, index)
		})
		for _, index := range matches {
			if s, ok := f.symbol(refer(i, index)); ok {
				found.symbols = append(found.symbols, selected{s, refer(i, index)})
			}
		}
	}
	return found, complete
}

// all reports whether the selection has all symbols that start with one of these prefixes.
func (x *selection) all(prefixes []string) bool {
	return !slices.ContainsFunc(prefixes, func(p string) bool { return !startsWith(p, x.prefixes) })
}

// symbol finds the preferred symbol of a name.
func (x *selection) symbol(name string) (Symbol, bool) {
	var same []selected
	for _, s := range x.symbols {
		if s.Name == name && len(same) < maxSameName {
			same = append(same, s)
		}
	}
	slices.SortFunc(same, func(a, b selected) int { return cmp.Compare(a.ref, b.ref) })
	return preferred(func(yield func(Symbol) bool) {
		for _, s := range same {
			if !yield(s.Symbol) {
				return
			}
		}
	})
}

// startsWith reports whether name starts with one of the prefixes.
func startsWith[T string | []byte](name T, prefixes []string) bool {
	for _, p := range prefixes {
		if len(name) >= len(p) && string(name[:len(p)]) == p {
			return true
		}
	}
	return false
}

// symbol reads the symbol that ref refers to.
func (f *File) symbol(ref reference) (Symbol, bool) {
	t := f.tables[ref.table()]
	e, err := t.entry(ref.index())
	if err != nil {
		return Symbol{}, false
	}
	name, err := t.name(e.name)
	if err != nil {
		return Symbol{}, false
	}
	return Symbol{Name: name, Address: e.address, Size: e.size, Type: e.typ(), Bind: e.bind()}, true
}

// A nameIndex finds symbols by their names' hashes: sorted entries of 32 bits of
// the hash, then the reference. Each index has its own seed, so that no file can
// be made whose names collide.
type nameIndex struct {
	seed maphash.Seed
	keys []uint64
}

func (f *File) indexNames() nameIndex {
	x := nameIndex{seed: maphash.MakeSeed(), keys: make([]uint64, 0, f.usualCount())}
	for i, t := range f.tables {
		_ = t.names(func(index uint32, name []byte) { // Partial reports damage
			x.keys = append(x.keys, maphash.Bytes(x.seed, name)>>32<<32|uint64(refer(i, index)))
		})
	}
	x.keys = slices.Clip(x.keys)
	radix.Sort(x.keys)
	return x
}

// candidates yields the symbols that may have that name, in the order of the
// tables.
func (f *File) candidates(name string) iter.Seq[reference] {
	return func(yield func(reference) bool) {
		x := f.names()
		hash := maphash.String(x.seed, name) >> 32 << 32
		first, _ := slices.BinarySearch(x.keys, hash)
		for i, key := range x.keys[first:] {
			if i == maxSameName || key>>32<<32 != hash || !yield(reference(key)) {
				return
			}
		}
	}
}
