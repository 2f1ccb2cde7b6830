package disasm

import (
	"bytes"

	"ustack/symbolize/elfsym"
)

// Symbol of the table of bytecodes' sizes, uint8_t[3][number of bytecodes].
const bytecodeSizesOf = "_ZN2v88internal11interpreter9Bytecodes14kBytecodeSizesE"

// Bounds on the number of bytecodes: 197 in V8 9.4, 212 in 14.6.
const (
	minBytecodes = 150
	maxBytecodes = 256
)

// firstSizes are the sizes of the first bytecodes for each width of operands, the same in
// V8 9.4 to 14.6: four prefixes, seven for breakpoints, then loads of constants
// (src/interpreter/bytecodes.h).
var firstSizes = [3][]byte{
	{1, 1, 1, 1, 1, 2, 3, 4, 5, 5, 6, 2, 1, 2},
	{1, 1, 1, 1, 1, 3, 5, 7, 9, 7, 9, 3, 1, 3},
	{1, 1, 1, 1, 1, 5, 9, 13, 17, 11, 15, 5, 1, 5},
}

// BytecodeSizes returns the table of bytecodes' sizes: by its symbol, or the only one in
// the file that begins as it does. It has the size of each bytecode in bytes, with operands
// of one byte, then of two, then of four. It returns nil if it finds no table.
func BytecodeSizes(f *elfsym.File) []byte {
	if s, ok := f.Symbol(bytecodeSizesOf); ok && s.Size <= uint64(len(firstSizes)*maxBytecodes) {
		sizes := make([]byte, s.Size)
		if _, err := f.ReadAt(sizes, s.Address); err == nil {
			return sizes
		}
	}
	addresses, err := f.Search(firstSizes[0])
	if err != nil {
		return nil
	}
	var found []byte
	for _, address := range addresses {
		sizes := sizesAt(f, address)
		switch {
		case sizes == nil:
		case found != nil:
			return nil
		default:
			found = sizes
		}
	}
	return found
}

// sizesAt returns the table of bytecodes' sizes at an address, nil if that holds another.
func sizesAt(f *elfsym.File, address uint64) []byte {
	b := make([]byte, len(firstSizes)*maxBytecodes)
	n, _ := f.ReadAt(b, address) // the file may end before
	b = b[:n]
	for count := minBytecodes; count <= maxBytecodes && len(firstSizes)*count <= n; count++ {
		if bytes.HasPrefix(b[count:], firstSizes[1]) && bytes.HasPrefix(b[2*count:], firstSizes[2]) {
			return b[:len(firstSizes)*count]
		}
	}
	return nil
}
