package trace

import (
	"cmp"
	"slices"
	"strings"

	"ustack/bpf"
	"ustack/symbolize"
	"ustack/symbolize/elfsym"
)

// vtables is the prefix of the mangled C++ names of node's vtables.
const vtables = "_ZTVN4node"

// class returns the node class whose vtable, or the vtable of one of whose bases, is
// at address in the binary that holds V8.
func (g *target) class(address uint64) string {
	if g == nil || g.binary == nil {
		return symbolize.Unknown
	}
	b := g.binary
	if b.vtables == nil {
		b.vtables = slices.SortedFunc(b.elf.Symbols(vtables), func(a, b elfsym.Symbol) int {
			return cmp.Compare(a.Address, b.Address)
		})
	}
	address -= g.bias
	at, ok := slices.BinarySearchFunc(b.vtables, address, func(s elfsym.Symbol, a uint64) int { return cmp.Compare(s.Address, a) })
	if !ok {
		at--
	}
	if at < 0 || address-b.vtables[at].Address >= b.vtables[at].Size {
		return symbolize.Unknown
	}
	return strings.TrimPrefix(b.vtables[at].Demangled(), "vtable for ")
}

// Native returns the function at an address in the process of that generation.
func (t *Table) Native(generation uint32, address uint64) symbolize.Frame {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	g := t.owners[generation]
	if g == nil {
		return symbolize.Frame{Name: symbolize.Unknown}
	}
	words := []uint64{uint64(bpf.TraceFrameKindFRAME_NATIVE)<<kindShift | address&pcMask}
	t.settle(g, words, false)
	return t.native(g, placeOf(words, 0))
}

// Class returns the node class whose vtable is at an address in the process of that
// generation.
func (t *Table) Class(generation uint32, address uint64) string {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return t.owners[generation].class(address)
}
