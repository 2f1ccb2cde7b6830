package elfsym

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"

	"ustack/symbolize/internal/interval"
	"ustack/symbolize/internal/radix"
)

const (
	maxSameStart = 64 // functions at one address whose names are compared; gcc's clones are fewer

	// maxFunctions bounds the index behind Lookup, which takes at most 24 bytes
	// per function, and 120 while it is built. The largest browsers have about a
	// million.
	maxFunctions = 1 << functionBits

	functionBits = 21
	rankBits     = 3                            // of a function's first rank
	spanBits     = 64 - rankBits - functionBits // of what a start exceeds the code's by: a terabyte
)

// A reference is a table's number and an index in it.
type reference uint32

const indexBits = 24 // more than maxSymbols needs

func refer(table int, index uint32) reference { return reference(table<<indexBits) | reference(index) }
func (r reference) table() int                { return int(r >> indexBits) }
func (r reference) index() uint32             { return uint32(r) & (1<<indexBits - 1) }

// A function is a code symbol to be added to the index.
type function struct {
	start uint64
	size  uint32 // 0: not known
	name  uint32 // offset in the table's strings
	ref   reference
	rank  uint8 // how good a name it is for its start: higher is better
}

func (fn function) end() uint64 { return fn.start + uint64(fn.size) }

// sort sorts the functions by start, then by rank, the best name last: of names that tie, the
// first read. It moves them in place, for there may be a quarter of a million of them.
func (f *File) sort(all []function) {
	const mask = 1<<functionBits - 1
	keys := make([]uint64, len(all))
	for i, fn := range all {
		keys[i] = (fn.start-f.code[0].start)<<(rankBits+functionBits) | uint64(fn.rank)<<functionBits | uint64(mask-i)
	}
	radix.Sort(keys)
	for first := range all { // follow each cycle of moves once
		moved := all[first]
		to := first
		for {
			from := int(mask - keys[to]&mask)
			keys[to] = uint64(mask - to) // it is in its place
			if from == first {
				break
			}
			all[to] = all[from]
			to = from
		}
		all[to] = moved
	}
}

// Lookup returns the function that holds address. Of several, it returns the one
// that begins last; of several that begin together, the one that has a size, is
// typed as a function, is not local, and has the fewest leading underscores. A
// function without a size extends to the next one in its section, unless it lies
// within one that has a size.
func (f *File) Lookup(address uint64) (Symbol, bool) {
	ref, ok := f.functions.Lookup(address)
	if !ok {
		return Symbol{}, false
	}
	return f.symbol(reference(ref))
}

// indexFunctions builds the index behind Lookup.
func (f *File) indexFunctions() {
	all := f.allFunctions()
	f.sort(all)
	f.rankNames(all)
	f.functions = interval.Sorted(f.spans(all), len(all)*3/4) // node has at least a quarter twice
}

// spans yields the addresses of sorted functions, in the order of their starts; of those that start
// together, the one with the best name last.
func (f *File) spans(all []function) iter.Seq[interval.Span] {
	return func(yield func(interval.Span) bool) {
		var covered uint64 // the end of the functions with a size so far
		for len(all) > 0 {
			group, rest := cutGroup(all)
			bestLast(group)
			for _, fn := range group {
				covered = max(covered, fn.end())
			}
			last := len(group) - 1
			for i, fn := range group {
				end := fn.end()
				if fn.size == 0 && fn.start >= covered {
					end = f.codeEnd(fn.start)
					if len(rest) > 0 {
						end = min(end, rest[0].start)
					}
				}
				hidden := i < last && end <= group[last].end() // by the best name
				if !hidden && !yield(interval.Span{Start: fn.start, End: end, Ref: uint32(fn.ref)}) {
					return
				}
			}
			all = rest
		}
	}
}

// cutGroup returns the functions that start where the first does, and the others.
func cutGroup(all []function) (group, rest []function) {
	n := 1
	for n < len(all) && all[n].start == all[0].start {
		n++
	}
	return all[:n], all[n:]
}

// allFunctions reads the functions of all tables.
func (f *File) allFunctions() []function {
	all := make([]function, 0, f.usualCount())
	for i, t := range f.tables {
		beyond := 0
		err := t.entries(func(index uint32, e entry) {
			fn, ok := f.function(e)
			switch {
			case !ok:
			case len(all) == maxFunctions || fn.start-f.code[0].start >= 1<<spanBits:
				beyond++
			default:
				fn.ref = refer(i, index)
				all = append(all, fn)
			}
		})
		if beyond > 0 {
			err = errors.Join(err, fmt.Errorf("%d functions are beyond the first %d, or a terabyte after the first, and have no names", beyond, maxFunctions))
		}
		if err != nil {
			f.damaged(t.section, err)
		}
	}
	return all
}

// usualCount returns the number of the file's symbols, as far as it is usual.
func (f *File) usualCount() int {
	symbols := uint32(0)
	for _, t := range f.tables {
		symbols = min(symbols+t.count, usualSymbols)
	}
	return int(symbols)
}

// function returns e as a function, false if it is not one.
func (f *File) function(e entry) (function, bool) {
	const sized, typed, visible = 4, 2, 1 // parts of a rank
	fn := function{start: e.address, name: e.name}
	switch e.typ() {
	case elf.STT_FUNC, elf.STT_GNU_IFUNC:
		fn.rank |= typed
	case elf.STT_NOTYPE:
		if f.machine == elf.EM_AARCH64 && e.bind() == elf.STB_LOCAL {
			return fn, false // mapping symbols $x and $d, which distinguish code from data
		}
	default:
		return fn, false
	}
	limit := f.codeEnd(e.address)
	if limit == 0 || !e.defined() {
		return fn, false
	}
	if e.size > 0 {
		fn.rank |= sized
		fn.size = uint32(min(limit-e.address, e.size, math.MaxUint32))
	}
	if e.bind() != elf.STB_LOCAL {
		fn.rank |= visible
	}
	return fn, true
}

// codeEnd returns the end of the code that holds address, 0 if none does.
// Sections do not overlap; if a damaged file says so, the last to start counts.
func (f *File) codeEnd(address uint64) uint64 {
	after, _ := slices.BinarySearchFunc(f.code, address, func(r region, address uint64) int {
		if r.start <= address {
			return -1
		}
		return 1
	})
	if after == 0 || address >= f.code[after-1].end {
		return 0
	}
	return f.code[after-1].end
}

// ties returns the functions at the end of a group that are in one table and have its
// best rank: their names decide which is best.
func ties(group []function) []function {
	last := len(group) - 1
	first := last
	for first > max(0, last-maxSameStart) && group[first-1].rank == group[last].rank && group[first-1].ref.table() == group[last].ref.table() {
		first--
	}
	return group[first:]
}

const (
	maxUnderscores = 4 // that are counted
	underscoreBits = 3 // of a rank
)

// rankNames adds to the ranks of functions that tie how few leading underscores their
// names have. It reads the names in the order of the strings, so that the file is read
// once from start to end.
func (f *File) rankNames(all []function) {
	names := make([][]uint64, len(f.tables)) // of each table: offset of the name, index in all
	done := 0
	for done < len(all) {
		group, _ := cutGroup(all[done:])
		done += len(group)
		tied := ties(group)
		if len(tied) == 1 {
			continue
		}
		for i, fn := range tied {
			of := &names[fn.ref.table()]
			*of = append(*of, uint64(fn.name)<<32|uint64(done-len(tied)+i))
		}
	}
	for i, keys := range names {
		radix.Sort(keys)
		w := window{r: f.tables[i].strings, buf: make([]byte, 0, chunk)}
		for _, key := range keys {
			fn := &all[uint32(key)]
			name, _ := w.at(int64(key >> 32)) // an unreadable name counts as without underscores
			fn.rank = fn.rank<<underscoreBits | uint8(maxUnderscores-underscores(name))
		}
	}
}

// underscores counts the leading underscores of a name.
func underscores(name []byte) int {
	name = name[:min(len(name), maxUnderscores)]
	return len(name) - len(bytes.TrimLeft(name, "_"))
}

// bestLast moves the best name of a group that starts at one address to its end: the best
// by rankNames of those that tie.
func bestLast(group []function) {
	last := len(group) - 1
	best := last
	for i, fn := range slices.Backward(group) {
		if fn.rank > group[best].rank {
			best = i
		}
	}
	group[best], group[last] = group[last], group[best]
}
