package trace

import (
	"cmp"
	"slices"
	"strings"

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
