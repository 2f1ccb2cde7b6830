package unwind

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"

	"github.com/go-delve/delve/pkg/dwarf/frame"
)

// A Base is the register or rule from which a Row's Distance counts.
type Base uint8

const (
	Unknown   Base = iota // no rule, or one that rows cannot express
	FromSP                // the stack pointer
	FromFP                // the frame pointer
	Signal                // a signal handler returns here
	Outermost             // the function has no caller
)

// A Row says how to unwind the code from an address in the file up to the next
// row's.
type Row struct {
	Start    uint32
	Distance uint16 // words from the base to where the caller's frame begins
	FP       uint8  // words below that: where the caller's frame pointer is saved; 0: in the register
	Base     Base
}

// maxSaved bounds the states that a function's instructions may have saved at one
// time; compilers save one.
const maxSaved = 16

// Rows returns the table as rows, by address. It omits functions that end beyond
// 4 GiB; functions whose rules are not understood have Unknown.
func (u *Table) Rows() []Row {
	var rows []Row
	for _, entry := range u.entries {
		if entry.End() > math.MaxUint32 {
			continue
		}
		rows = append(rows, rowsOf(entry)...)
		rows = append(rows, Row{Start: uint32(entry.End())})
	}
	// The next function begins where one ends: its row comes later, and wins.
	slices.SortStableFunc(rows, func(a, b Row) int { return int(int64(a.Start) - int64(b.Start)) })
	kept := rows[:0]
	for _, r := range rows {
		if last := len(kept) - 1; last >= 0 && kept[last].Start == r.Start {
			kept = kept[:last]
		}
		if last := len(kept) - 1; last < 0 || kept[last].Base != r.Base || kept[last].Distance != r.Distance || kept[last].FP != r.FP {
			kept = append(kept, r)
		}
	}
	return kept
}

// rowsOf runs the instructions of a function (DWARF 5, section 6.4.2).
func rowsOf(entry *frame.FrameDescriptionEntry) []Row {
	start := uint32(entry.Begin())
	if isSignal(entry) {
		return []Row{{Start: start, Base: Signal}}
	}
	m := machine{at: entry.Begin(), common: entry.CIE, returns: entry.CIE.ReturnAddressRegister}
	if m.run(entry.CIE.InitialInstructions) != nil {
		return []Row{{Start: start}}
	}
	m.initial = m.rules
	m.rows = []Row{m.row(start)}
	if m.run(entry.Instructions) != nil {
		return []Row{{Start: start}}
	}
	return m.rows
}

// rules are the unwind rules from which rows are made.
type rules struct {
	base      Base
	distance  int64 // bytes
	fp        int64 // bytes from the caller's frame; 0: in the register
	fpUnknown bool
	outermost bool
}

// A machine runs the instructions of one function.
type machine struct {
	rules
	at      uint64
	common  *frame.CommonInformationEntry
	returns uint64
	initial rules
	saved   []rules
	rows    []Row
	rest    []byte
}

var errInstruction = errors.New("the unwind table's instruction is not understood")

// row returns the rules as a Row.
func (m *machine) row(start uint32) Row {
	r := Row{Start: start, Base: m.base}
	if m.outermost {
		r.Base = Outermost
		return r
	}
	if m.distance < 0 || m.distance%8 != 0 || m.distance/8 > math.MaxUint16 ||
		m.fp > 0 || m.fp%8 != 0 || -m.fp/8 > math.MaxUint8 || m.fpUnknown {
		return Row{Start: start}
	}
	r.Distance, r.FP = uint16(m.distance/8), uint8(-m.fp/8)
	return r
}

// advance emits a row for the current rules and moves to the next address.
func (m *machine) advance(delta uint64) {
	row := m.row(uint32(m.at))
	if last := len(m.rows) - 1; last >= 0 && m.rows[last].Start == row.Start {
		m.rows[last] = row
	} else {
		m.rows = append(m.rows, row)
	}
	m.at += delta * m.common.CodeAlignmentFactor
}

func (m *machine) run(instructions []byte) error {
	m.rest = instructions
	for len(m.rest) > 0 {
		op := m.rest[0]
		m.rest = m.rest[1:]
		if err := m.do(op); err != nil {
			return err
		}
	}
	if m.rows != nil {
		m.advance(0)
	}
	return nil
}

// Instructions, by their upper two bits or by all eight.
const (
	cfaAdvance, cfaOffset, cfaRestore = 1, 2, 3

	cfaNop            = 0x00
	cfaAdvance1       = 0x02
	cfaAdvance2       = 0x03
	cfaAdvance4       = 0x04
	cfaOffsetExtended = 0x05
	cfaUndefined      = 0x07
	cfaSame           = 0x08
	cfaRemember       = 0x0a
	cfaRestoreState   = 0x0b
	cfaDef            = 0x0c
	cfaDefRegister    = 0x0d
	cfaDefOffset      = 0x0e
	cfaDefExpression  = 0x0f
	cfaExpression     = 0x10
	cfaOffsetSigned   = 0x11
	cfaValExpression  = 0x16
	cfaArgsSize       = 0x2e
)

func (m *machine) do(op byte) error {
	const low = 0x3f
	switch op >> 6 {
	case cfaAdvance:
		m.advance(uint64(op & low))
		return nil
	case cfaOffset:
		return m.offset(uint64(op & low))
	case cfaRestore:
		if op&low == FP {
			m.fp, m.fpUnknown = m.initial.fp, m.initial.fpUnknown
		}
		return nil
	}
	switch op {
	case cfaNop:
		return nil
	case cfaAdvance1, cfaAdvance2, cfaAdvance4:
		return m.advanceFar(1 << (op - cfaAdvance1))
	case cfaRemember:
		if len(m.saved) == maxSaved {
			return errInstruction
		}
		m.saved = append(m.saved, m.rules)
		return nil
	case cfaRestoreState:
		if len(m.saved) == 0 {
			return errInstruction
		}
		m.rules = m.saved[len(m.saved)-1]
		m.saved = m.saved[:len(m.saved)-1]
		return nil
	}
	return m.define(op)
}

func (m *machine) advanceFar(size int) error {
	if len(m.rest) < size {
		return errInstruction
	}
	var delta [8]byte
	copy(delta[:], m.rest[:size])
	m.rest = m.rest[size:]
	m.advance(binary.LittleEndian.Uint64(delta[:]))
	return nil
}

// offset records where a register is saved.
func (m *machine) offset(register uint64) error {
	n, err := m.unsigned()
	if register == FP {
		m.fp, m.fpUnknown = int64(n)*m.common.DataAlignmentFactor, false
	}
	return err
}

// define executes an instruction whose first operand is a register or the frame's
// offset.
func (m *machine) define(op byte) error {
	if op == cfaDefExpression {
		m.base = Unknown
		return m.skipBlock()
	}
	operand, err := m.unsigned()
	if err != nil {
		return err
	}
	switch op {
	case cfaDef:
		m.setBase(operand)
		operand, err = m.unsigned()
		m.distance = int64(operand)
		return err
	case cfaDefRegister:
		m.setBase(operand)
	case cfaDefOffset:
		m.distance = int64(operand)
	case cfaArgsSize:
	case cfaOffsetExtended:
		return m.offset(operand)
	case cfaUndefined, cfaSame:
		m.outermost = m.outermost || op == cfaUndefined && operand == m.returns
		if operand == FP {
			m.fp, m.fpUnknown = 0, op == cfaUndefined
		}
	case cfaExpression, cfaValExpression:
		m.fpUnknown = m.fpUnknown || operand == FP
		return m.skipBlock()
	case cfaOffsetSigned:
		n, rest, ok := signedLEB(m.rest)
		if !ok {
			return errInstruction
		}
		m.rest = rest
		if operand == FP {
			m.fp, m.fpUnknown = n*m.common.DataAlignmentFactor, false
		}
	default:
		return errInstruction
	}
	return nil
}

func (m *machine) setBase(register uint64) {
	switch register {
	case SP:
		m.base = FromSP
	case FP:
		m.base = FromFP
	default:
		m.base = Unknown
	}
}

func (m *machine) unsigned() (uint64, error) {
	n, size := binary.Uvarint(m.rest)
	if size <= 0 {
		return 0, errInstruction
	}
	m.rest = m.rest[size:]
	return n, nil
}

// skipBlock skips an expression.
func (m *machine) skipBlock() error {
	n, err := m.unsigned()
	if err != nil || n > uint64(len(m.rest)) {
		return errInstruction
	}
	m.rest = m.rest[n:]
	return nil
}
