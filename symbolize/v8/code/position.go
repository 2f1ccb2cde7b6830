package code

import (
	"errors"
	"math"
)

// A table of source positions is a list of pairs of variable-length numbers: the
// steps in the code and in the source. The first pair starts from code offset -1.
// Up to V8 13 the step in the code is zig-zag coded, and -(d+1) for the position
// of an expression; from 14 on it is unsigned and shifted left by two bits, which
// hold the kind of position.
const stepFlags = 2

// maxTable bounds the bytes of a position table; that of the largest function has
// some 100 KiB.
const maxTable = 16 << 20

var errTableCut = errors.New("read source positions: the table ends within a number")

// A sourcePosition is the position that V8 records for a place in code: bit 0 is
// set if it is not a script position; 30 bits of offset plus one follow, and 16
// bits with the number of the inlining that the code came from.
type sourcePosition uint64

// offset is in UTF-16 code units from the script's start; -1 if there is none.
func (p sourcePosition) offset() int {
	if p&1 != 0 {
		return -1
	}
	return int(p>>1&(1<<30-1)) - 1
}

// inlining is 0 in the function itself; in an inlined callee it is the callee's
// entry in the table of inlinings, from 1.
func (p sourcePosition) inlining() int { return int(p >> 31 & (1<<16 - 1)) }

// A varints decodes variable-length numbers: seven bits per byte, least
// significant first.
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

// signed decodes a zig-zag coded number: 0, -1, 1, -2 …
func (v *varints) signed() int64 {
	n := v.unsigned()
	return int64(n>>1) ^ -int64(n&1)
}

// signedMagnitude decodes a number whose lowest bit is its sign: 0, -0, 1, -1 …
func (v *varints) signedMagnitude() int {
	n := v.unsigned()
	if n&1 != 0 {
		return -int(n >> 1)
	}
	return int(n >> 1)
}

// byte returns the next byte.
func (v *varints) byte() int {
	if len(v.rest) == 0 {
		v.cut = true
		return 0
	}
	b := v.rest[0]
	v.rest = v.rest[1:]
	return int(b)
}

// skip skips numbers.
func (v *varints) skip(count int) {
	for range count {
		v.unsigned()
	}
}

// eachPosition calls visit with the entries of a table until it returns false.
func eachPosition(table []byte, unsigned bool, visit func(code int64, p sourcePosition) bool) error {
	code, source := int64(-1), int64(0)
	for v := (varints{rest: table}); len(v.rest) > 0; {
		if unsigned {
			code += int64(v.unsigned() >> stepFlags)
		} else if step := v.signed(); step >= 0 {
			code += step
		} else {
			code += ^step
		}
		source += v.signed()
		if v.cut {
			return errTableCut
		}
		if !visit(code, sourcePosition(source)) {
			return nil
		}
	}
	return nil
}

// positionAt returns the position of the last entry of a table at or before
// offset in the code. ok is false if the table begins later, or is empty.
func positionAt(table []byte, offset int, unsigned bool) (position sourcePosition, ok bool, err error) {
	r, ok, err := rangeAt(table, offset, unsigned)
	return r.position, ok, err
}

// A positionRange is a range of code that has one position.
type positionRange struct {
	position   sourcePosition
	start, end int64 // end is not in it
}

// rangeAt returns the range of code that an offset is in. ok is false if the table begins
// later, or is empty.
func rangeAt(table []byte, offset int, unsigned bool) (r positionRange, ok bool, err error) {
	r.end = math.MaxInt64
	err = eachPosition(table, unsigned, func(code int64, p sourcePosition) bool {
		if code > int64(offset) {
			r.end = code
			return false
		}
		r.position, r.start, ok = p, code, true
		return true
	})
	return r, ok, err
}

// bytecodeAt returns the offset of the bytecode that the baseline code at offset
// belongs to, -1 in its prologue. table holds the length of the prologue's code,
// then of the code of each bytecode; next steps from a bytecode to the one after
// it.
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

// Prefix bytecodes that widen the operands of the next bytecode to 16 and to 32
// bits, and their debugger variants.
const (
	wide           = 0
	extraWide      = 1
	debugWide      = 2
	debugExtraWide = 3
	widths         = 3 // of operands: 1, 2 and 4 bytes
)

// A bytecodeSizes holds the size of each bytecode in bytes, with operands of one
// width, then of the next width.
type bytecodeSizes []byte

// next returns where the bytecode after the one at index at begins.
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
