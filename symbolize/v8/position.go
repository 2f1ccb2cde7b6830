package v8

import "errors"

// A table of source positions is a list of pairs of variable-length numbers: how
// far the code goes on, and how far the source does. The first pair starts from
// code offset -1. Up to V8 13 the step in the code is zig-zag coded, and -(d+1)
// where the position is an expression's; from 14 on it is unsigned, with two
// bits below it for what kind of position it is.
const stepFlags = 2

// maxTable bounds the bytes of a table of positions; the largest function has
// some 100 KiB.
const maxTable = 16 << 20

var errTableCut = errors.New("read source positions: the table ends within a number")

// A sourcePosition is what V8 keeps with a place in code: bit 0 is set where it
// is none in a script, then come 30 bits of offset plus one, and 16 of the
// inlining that the code came from.
type sourcePosition uint64

// offset is in UTF-16 code units from the script's start; -1 if there is none.
func (p sourcePosition) offset() int {
	if p&1 != 0 {
		return -1
	}
	return int(p>>1&(1<<30-1)) - 1
}

// inlining is 0 in the function itself; of an inlined callee it is its entry
// among the inlinings, from 1.
func (p sourcePosition) inlining() int { return int(p >> 31 & (1<<16 - 1)) }

// A varints takes variable-length numbers from bytes: seven bits each, the least
// first.
type varints struct {
	rest []byte
	cut  bool // a number did not end
}

func (v *varints) unsigned() uint64 {
	var n uint64
	for i, b := range v.rest {
		if shift := 7 * i; shift < 64 {
			n |= uint64(b&0x7f) << shift
		}
		if b&0x80 == 0 {
			v.rest = v.rest[i+1:]
			return n
		}
	}
	v.rest, v.cut = nil, true
	return n
}

// signed takes a zig-zag coded number: 0, -1, 1, -2 …
func (v *varints) signed() int64 {
	n := v.unsigned()
	return int64(n>>1) ^ -int64(n&1)
}

// positionAt returns the position of the last entry of a table that is not behind
// offset in the code. It is false where the table begins later, or is empty.
func positionAt(table []byte, offset int, unsigned bool) (position sourcePosition, ok bool, err error) {
	code, source := int64(-1), int64(0)
	for v := (varints{rest: table}); len(v.rest) > 0; ok = true {
		if unsigned {
			code += int64(v.unsigned() >> stepFlags)
		} else if step := v.signed(); step >= 0 {
			code += step
		} else {
			code += ^step
		}
		step := v.signed()
		if v.cut {
			return position, ok, errTableCut
		}
		if code > int64(offset) {
			break
		}
		source += step
		position = sourcePosition(source)
	}
	return position, ok, nil
}

// bytecodeAt returns the offset of the bytecode that the baseline code at offset
// belongs to, -1 in its prologue. table has the length of the prologue's code,
// then of each bytecode's; next goes from a bytecode to the one after it.
func bytecodeAt(table []byte, offset uint64, next func(at int) int) (int, error) {
	v := varints{rest: table}
	end := v.unsigned()
	at, following := -1, 0
	for end < offset && len(v.rest) > 0 {
		end += v.unsigned()
		at, following = following, next(following)
	}
	if v.cut {
		return at, errTableCut
	}
	return at, nil
}

// Bytecodes that widen the operands of the one after them: to 16 and to 32 bits,
// and likewise where the debugger watches.
const (
	wide           = 0
	extraWide      = 1
	debugWide      = 2
	debugExtraWide = 3
	widths         = 3 // of operands: 1, 2 and 4 bytes
)

// A bytecodeSizes has how many bytes each bytecode takes with operands of one
// width, then with those of the next.
type bytecodeSizes []byte

// next returns where the bytecode after the one at at begins.
func (s bytecodeSizes) next(bytecodes []byte, at int) int {
	if at < 0 || at >= len(bytecodes) {
		return at
	}
	size, width, op := 0, 0, int(bytecodes[at])
	switch op {
	case wide, debugWide:
		width = 1
	case extraWide, debugExtraWide:
		width = 2
	}
	if width > 0 && at+1 < len(bytecodes) {
		size, op = 1, int(bytecodes[at+1])
	}
	if n := len(s) / widths; op < n {
		size += int(s[width*n+op])
	}
	return at + max(size, 1)
}
