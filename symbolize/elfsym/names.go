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
	if known := f.known.Load(); known != nil && begins(known.prefixes, name) {
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
		wanted := newPrefixSet(prefixes)
		known := f.known.Load()
		if known == nil || !known.all(prefixes) {
			known, _ = f.find(wanted)
		}
		type identity struct {
			name    string
			address uint64
		}
		seen := make(map[identity]int) // by the table that they are in first
		for _, s := range known.symbols {
			if !begins(wanted, s.Name) {
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

// Expect has Know read the symbols whose raw names start with the prefixes, too. It is called before Know.
func (f *File) Expect(prefixes ...string) { f.expected = append(f.expected, prefixes...) }

// Know reads the symbols whose raw names start with the prefixes, so that Symbol and
// Symbols find them without reading all the file's strings again.
func (f *File) Know(prefixes ...string) {
	if known, complete := f.find(newPrefixSet(slices.Concat(prefixes, f.expected))); complete {
		f.known.Store(known)
	}
}

// A selection is the symbols whose names start with one of some prefixes, table by table
// in the order of the file's strings.
type selection struct {
	prefixes prefixSet
	symbols  []selected
}

type selected struct {
	Symbol
	ref reference
}

// find reads the symbols that have a prefix. The selection is complete unless there are
// too many.
func (f *File) find(prefixes prefixSet) (found *selection, complete bool) {
	found, complete = &selection{prefixes: prefixes}, true
	for i, t := range f.tables {
		var matches []selected
		_ = t.names(func(index uint32, name []byte) { // Partial reports damage
			switch {
			case len(name) == 0 || !begins(prefixes, name):
			case len(matches) == maxMatches:
				complete = false
			default:
				matches = append(matches, selected{Symbol{Name: string(name)}, refer(i, index)})
			}
		})
		found.symbols = append(found.symbols, t.complete(matches)...)
	}
	return found, complete
}

// complete fills in what the entries say of symbols that have a name and a reference. It returns
// those whose entries can be read.
func (t *table) complete(symbols []selected) []selected {
	order := make([]uint64, len(symbols)) // index of the entry, index in symbols
	for i, s := range symbols {
		order[i] = uint64(s.ref.index())<<32 | uint64(i)
	}
	slices.Sort(order)
	w := window{r: t.r, buf: make([]byte, 0, chunk)}
	for _, key := range order {
		s := &symbols[uint32(key)]
		if b, ok := w.bytes(t.at+int64(key>>32)*entrySize, entrySize); ok {
			s.Symbol = decode(b).symbol(s.Name)
		} else {
			s.Name = ""
		}
	}
	return slices.DeleteFunc(symbols, func(s selected) bool { return s.Name == "" })
}

// all reports whether the selection has all symbols that start with one of these prefixes.
func (x *selection) all(prefixes []string) bool {
	return !slices.ContainsFunc(prefixes, func(p string) bool { return !begins(x.prefixes, p) })
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

// A prefixSet holds prefixes in ascending order, none of which begins with another.
type prefixSet []string

func newPrefixSet(prefixes []string) (set prefixSet) {
	for _, p := range slices.Sorted(slices.Values(prefixes)) {
		if !begins(set, p) {
			set = append(set, p)
		}
	}
	return set
}

// begins reports whether name begins with one of the prefixes: if so, that is the last of those that
// are not greater than name.
func begins[T string | []byte](prefixes prefixSet, name T) bool {
	first, after := 0, len(prefixes)
	for first < after {
		if middle := (first + after) / 2; prefixes[middle] <= string(name) {
			first = middle + 1
		} else {
			after = middle
		}
	}
	return first > 0 && len(name) >= len(prefixes[first-1]) && string(name[:len(prefixes[first-1])]) == prefixes[first-1]
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
	return e.symbol(name), true
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
