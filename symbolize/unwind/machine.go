package unwind

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
)

// rules are the unwind rules from which rows are made.
type rules struct {
	base      Base
	distance  int64 // bytes
	beyond    int64 // bytes from a saved stack pointer to the caller's frame
	fp        int64 // bytes from the caller's frame; 0: in the register
	fpHere    bool  // where the frame pointer points
	fpUnknown bool
	link      int64 // bytes from the caller's frame to the return address, where calls are linked; 0: in the register
	outermost bool
}

// maxSaved bounds the states that a function's instructions may have saved at one
// time; compilers save one.
const maxSaved = 16

// A machine runs the instructions of one function (DWARF 5, section 6.4.2).
type machine struct {
	rules
	operands
	at     uint64
	common *common
	saved  []rules
	rows   []Row // nil: makes none
}

var errInstruction = errors.New("the unwind table's instruction is not understood")

// row returns the rules as a Row.
func (m *machine) row() Row {
	r := Row{Start: uint32(m.at), Base: m.base}
	if m.outermost {
		r.Base = Outermost
		return r
	}
	if m.common.arch.HasLink() {
		return m.linkedRow(r)
	}
	distance, ok := m.encode()
	if !ok || m.base == Unknown || m.fp > 0 || m.fp%8 != 0 || -m.fp/8 >= FPHere || m.fpUnknown {
		return Row{Start: r.Start}
	}
	r.Distance, r.FP = distance, uint8(-m.fp/8)
	if m.fpHere {
		r.FP = FPHere
	}
	return r
}

// linkedRow returns the rules as a Row of r's address for an architecture whose calls leave
// their return address in a register. It is saved in the word above the frame pointer, or alone.
func (m *machine) linkedRow(r Row) Row {
	words, fp := m.distance/8, -m.fp/8
	bad := m.distance < 0 || m.distance%8 != 0 || words > math.MaxUint16 || m.fp > 0 || m.fp%8 != 0 || m.fpHere || m.fpUnknown
	switch {
	case bad || r.Base != FromSP && r.Base != FromFP:
	case m.fp != 0 && m.link == m.fp+8 && fp < FPHere:
		return Row{Start: r.Start, Distance: uint16(words), FP: uint8(fp), Base: r.Base}
	case m.fp != 0 && m.link == m.fp+8: // a large frame, with the two words where the frame pointer points
		return Row{Start: r.Start, Distance: 2, FP: 2, Base: FromFP}
	case m.fp != 0 || r.Base != FromSP:
	case m.link == 0:
		return Row{Start: r.Start, Distance: uint16(words), Base: FromSP}
	case m.link < 0 && m.link%8 == 0 && -m.link/8 <= maxBeyond && words < 1<<slotBits:
		return Row{Start: r.Start, Distance: savedLink(words, -m.link/8), Base: LinkSaved}
	}
	return Row{Start: r.Start}
}

// encode returns the distance as a Row has it.
func (m *machine) encode() (distance uint16, ok bool) {
	words, beyond := m.distance/8, m.beyond/8
	if m.distance%8 != 0 || m.beyond%8 != 0 {
		return 0, false
	}
	switch m.base {
	case SavedAtSP, SavedAtFP, SavedAtR9:
		return savedAt(words, beyond), words >= -maxSlot && words <= maxSlot && beyond >= 0 && beyond <= maxBeyond
	}
	return uint16(words), words >= 0 && words <= math.MaxUint16
}

// emit appends a row for the current rules, instead of the last one if both are for the
// same address, and unless it says the same.
func (m *machine) emit() {
	row := m.row()
	if last := len(m.rows) - 1; last >= 0 && m.rows[last].Start == row.Start {
		m.rows = m.rows[:last]
	}
	if last := len(m.rows) - 1; last < 0 || !m.rows[last].says(row) {
		m.rows = append(m.rows, row)
	}
}

// advance emits a row for the current rules and moves to the next address.
func (m *machine) advance(delta uint64) {
	m.emit()
	m.at += delta * m.common.codeAlignment
}

func (m *machine) run(instructions []byte) error {
	m.operands = operands{rest: instructions}
	for len(m.rest) > 0 {
		if err := m.do(m.byte()); err != nil {
			return err
		}
	}
	if m.bad {
		return errInstruction
	}
	return nil
}

// Instructions, by their upper two bits or by all eight.
const (
	cfaAdvance, cfaOffset, cfaRestore = 1, 2, 3

	cfaNop             = 0x00
	cfaAdvance1        = 0x02
	cfaAdvance2        = 0x03
	cfaAdvance4        = 0x04
	cfaOffsetExtended  = 0x05
	cfaRestoreExtended = 0x06
	cfaUndefined       = 0x07
	cfaSame            = 0x08
	cfaRegister        = 0x09
	cfaRemember        = 0x0a
	cfaRestoreState    = 0x0b
	cfaDef             = 0x0c
	cfaDefRegister     = 0x0d
	cfaDefOffset       = 0x0e
	cfaDefExpression   = 0x0f
	cfaExpression      = 0x10
	cfaOffsetSigned    = 0x11
	cfaValExpression   = 0x16
	cfaNegateSign      = 0x2d // arm64: return addresses are signed from here on, or no longer
	cfaArgsSize        = 0x2e
)

func (m *machine) do(op byte) error {
	const low = 0x3f
	switch op >> 6 {
	case cfaAdvance:
		m.advance(uint64(op & low))
		return nil
	case cfaOffset:
		m.offset(uint64(op&low), int64(m.unsigned()))
		return nil
	case cfaRestore:
		switch uint64(op & low) {
		case m.common.arch.FP:
			m.fp, m.fpHere, m.fpUnknown = m.common.initial.fp, m.common.initial.fpHere, m.common.initial.fpUnknown
		case m.common.arch.Link:
			m.link = m.common.initial.link
		}
		return nil
	}
	if op == cfaNegateSign && m.common.arch.HasLink() {
		return nil
	}
	switch op {
	case cfaNop:
	case cfaAdvance1:
		m.advance(uint64(m.byte()))
	case cfaAdvance2:
		m.advance(uint64(binary.LittleEndian.Uint16(m.take(2))))
	case cfaAdvance4:
		m.advance(uint64(binary.LittleEndian.Uint32(m.take(4))))
	case cfaRemember:
		if len(m.saved) == maxSaved {
			return errInstruction
		}
		m.saved = append(m.saved, m.rules)
	case cfaRestoreState:
		if len(m.saved) == 0 {
			return errInstruction
		}
		m.rules = m.saved[len(m.saved)-1]
		m.saved = m.saved[:len(m.saved)-1]
	default:
		return m.define(op)
	}
	return nil
}

// offset records where a register is saved, in units below the caller's frame.
func (m *machine) offset(register uint64, n int64) {
	switch register {
	case m.common.arch.FP:
		m.fp, m.fpHere, m.fpUnknown = n*m.common.dataAlignment, false, false
	case m.common.arch.Link:
		m.link = n * m.common.dataAlignment
	}
}

// define executes an instruction whose first operand is a register, the frame's
// offset or an expression for it.
func (m *machine) define(op byte) error {
	if op == cfaDefExpression {
		m.computed(m.block())
		return nil
	}
	operand := m.unsigned()
	switch op {
	case cfaDef:
		m.setBase(operand)
		m.distance = int64(m.unsigned())
	case cfaDefRegister:
		m.setBase(operand)
	case cfaDefOffset:
		m.distance = int64(operand)
	case cfaArgsSize:
	case cfaOffsetExtended:
		m.offset(operand, int64(m.unsigned()))
	case cfaOffsetSigned:
		m.offset(operand, m.signed())
	case cfaUndefined, cfaSame:
		m.outermost = m.outermost || op == cfaUndefined && operand == m.common.returns
		switch operand {
		case m.common.arch.FP:
			m.fp, m.fpHere, m.fpUnknown = 0, false, op == cfaUndefined
		case m.common.arch.Link:
			m.link = 0
		}
	case cfaExpression, cfaValExpression:
		block := m.block()
		switch operand {
		case m.common.arch.FP:
			m.fp, m.fpHere = 0, op == cfaExpression && bytes.Equal(block, atFP)
			m.fpUnknown = !m.fpHere
		case m.common.arch.Link:
			m.fpUnknown = true
		}
	default:
		return errInstruction
	}
	return nil
}

func (m *machine) setBase(register uint64) {
	m.beyond = 0
	switch {
	case register == m.common.arch.SP:
		m.base = FromSP
	case register == m.common.arch.FP:
		m.base = FromFP
	case register < m.common.arch.Registers && !m.common.arch.HasLink():
		m.base = Register + Base(register)
	default:
		m.base = Unknown
	}
}

// Expressions of x86-64 that rows have bases for.
var (
	atFP     = []byte{opRegister + rbp, 0}
	stub     = []byte{opRegister + rsp, 8, opRegister + rip, 0, opLiteral + 15, opAnd, opLiteral + 11, opGE, opLiteral + 3, opShl, opPlus}
	savedFor = []byte{opRegister + rsp, 8, opRegister + 9, 0, opLiteral + 8, opMultiply, opPlus, opDeref, opPlusConst, 8}
)

// computed notes that an expression computes where the caller's frame begins.
func (m *machine) computed(expression []byte) {
	m.base, m.distance, m.beyond = Unknown, 8, 8
	switch {
	case bytes.Equal(expression, stub):
		m.base = Stub
	case bytes.Equal(expression, savedFor):
		m.base = SavedAtR9
	case len(expression) > 0 && expression[0] == opRegister+rsp:
		m.reads(SavedAtSP, operands{rest: expression[1:]})
	case len(expression) > 0 && expression[0] == opRegister+rbp:
		m.reads(SavedAtFP, operands{rest: expression[1:]})
	}
}

// reads notes that an expression reads a saved stack pointer at an offset, o, from
// base, and adds another.
func (m *machine) reads(base Base, o operands) {
	offset, deref := o.signed(), o.byte()
	beyond := uint64(0)
	if len(o.rest) > 0 && o.byte() == opPlusConst {
		beyond = o.unsigned()
	}
	if o.bad || deref != opDeref || len(o.rest) > 0 || beyond > math.MaxUint16 {
		return
	}
	m.base, m.distance, m.beyond = base, offset, int64(beyond)
}
