package unwind

import (
	"encoding/binary"
	"errors"
)

// Operations by which unwind tables compute addresses (DWARF 5, section 7.7.1),
// as far as the linker's stubs and OpenSSL's assembly use them. None of them
// loops.
const (
	opDeref      = 0x06
	opAnd        = 0x1a
	opMinus      = 0x1c
	opMultiply   = 0x1e
	opPlus       = 0x22
	opPlusConst  = 0x23
	opShl        = 0x24
	opGE         = 0x2a
	opLiteral    = 0x30 // to 0x4f: 0 to 31
	opRegister   = 0x70 // to 0x8f: a register and an offset
	opEnd        = 0x90
	maxOperands  = 16
	literalCount = 32
)

var errExpression = errors.New("the unwind table's expression is not understood")

// An expression computes an address from the registers of a function.
type expression struct {
	rest     []byte
	operands []uint64
	at       Cursor
	read     func(uint64) (uint64, error)
}

// evaluate returns the address that the operations compute.
func evaluate(operations []byte, at Cursor, read func(uint64) (uint64, error)) (uint64, error) {
	e := expression{rest: operations, at: at, read: read}
	for len(e.rest) > 0 {
		op := e.rest[0]
		e.rest = e.rest[1:]
		if err := e.do(op); err != nil {
			return 0, err
		}
		if len(e.operands) > maxOperands {
			return 0, errExpression
		}
	}
	if len(e.operands) == 0 {
		return 0, errExpression
	}
	return e.operands[len(e.operands)-1], nil
}

func (e *expression) do(op byte) error {
	switch {
	case op >= opLiteral && op < opLiteral+literalCount:
		e.push(uint64(op - opLiteral))
		return nil
	case op >= opRegister && op < opEnd:
		return e.register(uint64(op - opRegister))
	case op == opDeref:
		return e.deref()
	case op == opPlusConst:
		n, size := binary.Uvarint(e.rest)
		if size <= 0 || len(e.operands) == 0 {
			return errExpression
		}
		e.rest = e.rest[size:]
		e.operands[len(e.operands)-1] += n
		return nil
	}
	return e.binary(op)
}

func (e *expression) push(v uint64) { e.operands = append(e.operands, v) }

// register pushes a register and the offset that follows.
func (e *expression) register(reg uint64) error {
	offset, rest, ok := signedLEB(e.rest)
	if !ok {
		return errExpression
	}
	e.rest = rest
	value, known := e.at.Get(reg)
	if reg == e.at.Arch.pc {
		value, known = e.at.PC, true
	}
	if !known {
		return errNoRule
	}
	e.push(value + uint64(offset))
	return nil
}

func (e *expression) deref() error {
	if len(e.operands) == 0 {
		return errExpression
	}
	last := &e.operands[len(e.operands)-1]
	value, err := e.read(*last)
	*last = value
	return err
}

// binary replaces the last two operands by the result of op.
func (e *expression) binary(op byte) error {
	last := len(e.operands) - 1
	if last < 1 {
		return errExpression
	}
	a, b := e.operands[last-1], e.operands[last]
	var result uint64
	switch op {
	case opAnd:
		result = a & b
	case opMinus:
		result = a - b
	case opMultiply:
		result = a * b
	case opPlus:
		result = a + b
	case opShl:
		result = a << b
	case opGE:
		if int64(a) >= int64(b) {
			result = 1
		}
	default:
		return errExpression
	}
	e.operands = append(e.operands[:last-1], result)
	return nil
}

// signedLEB decodes a signed number of seven bits per byte, least significant
// first.
func signedLEB(b []byte) (n int64, rest []byte, ok bool) {
	for i, c := range b {
		shift := 7 * i
		if shift >= 64 {
			return 0, nil, false
		}
		n |= int64(c&0x7f) << shift
		if c&0x80 == 0 {
			if c&0x40 != 0 && shift+7 < 64 {
				n |= -1 << (shift + 7)
			}
			return n, b[i+1:], true
		}
	}
	return 0, nil, false
}
