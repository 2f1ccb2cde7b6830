package unwind

import "encoding/binary"

// withoutSigns returns a function's instructions without those that say since when return
// addresses are signed, which the library does not know. What is signed is known by its bits.
func withoutSigns(instructions []byte) []byte {
	var without []byte
	for at := 0; at < len(instructions); {
		length := instructionLength(instructions[at:])
		if length == 0 {
			break
		}
		if instructions[at] == cfaNegateSign {
			if without == nil {
				without = append([]byte(nil), instructions...)
			}
			without[at] = cfaNop
		}
		at += length
	}
	if without == nil {
		return instructions
	}
	return without
}

// instructionLength returns the bytes of the first instruction with its operands; 0 if it is not
// known.
func instructionLength(b []byte) int {
	operands := 0 // numbers of seven bits per byte
	switch op := b[0]; op >> 6 {
	case cfaAdvance, cfaRestore:
		return 1
	case cfaOffset:
		operands = 1
	default:
		switch op {
		case cfaNop, cfaRemember, cfaRestoreState, cfaNegateSign:
			return 1
		case cfaAdvance1, cfaAdvance2:
			return 1 + int(op-cfaAdvance1+1)
		case cfaAdvance4:
			return 1 + 4
		case cfaRestoreExtended, cfaUndefined, cfaSame, cfaDefRegister, cfaDefOffset, cfaArgsSize:
			operands = 1
		case cfaOffsetExtended, cfaRegister, cfaDef, cfaOffsetSigned:
			operands = 2
		case cfaDefExpression:
			return 1 + blockLength(b[1:])
		case cfaExpression, cfaValExpression:
			n := lebLength(b[1:])
			return 1 + n + blockLength(b[1+n:])
		default:
			return 0
		}
	}
	length := 1
	for range operands {
		length += lebLength(b[length:])
	}
	return min(length, len(b))
}

// lebLength returns the bytes of a number of seven bits per byte.
func lebLength(b []byte) int {
	for i, c := range b {
		if c < 1<<7 {
			return i + 1
		}
	}
	return len(b)
}

func blockLength(b []byte) int {
	n, size := binary.Uvarint(b)
	if size <= 0 || n > uint64(len(b)-size) {
		return len(b)
	}
	return size + int(n)
}
