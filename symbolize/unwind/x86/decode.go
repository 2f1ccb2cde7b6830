// Package x86 decodes the instructions of x86-64 as far as finding callers needs it: the
// length of each, and what it does to the stack pointer, to the frame pointer and to the
// flow of control.
package x86

import "encoding/binary"

// A Kind is what an instruction does. All that do nothing of the kind are Other.
type Kind uint8

const (
	Other     Kind = iota
	Invalid        // not an instruction, or cut
	Nop            // as compilers use it for padding
	Trap           // int3
	Push           // Reg, or another word if Reg is None
	Pop            // into Reg, or elsewhere if Reg is None
	AddSP          // adds Value to the stack pointer
	SetSP          // changes the stack pointer in a way that is not known
	SPToReg        // sets Reg, which is r10 or one that Write is for, to the stack pointer plus Value
	RegToSP        // sets the stack pointer to Reg plus Value
	FPToSP         // sets the stack pointer to the frame pointer plus Value
	SPToFP         // sets the frame pointer to the stack pointer plus Value
	SaveFP         // stores the frame pointer where the stack pointer plus Value points
	RestoreFP      // loads it from there
	Leave          // sets the stack pointer to the frame pointer, and pops that
	LoadReg        // sets Reg, likewise, to what is Value bytes from where the frame pointer points
	Write          // sets Reg: r10, or one that functions keep for callers: rbx, rbp, r12 to r15
	Address        // sets a register to the address Value bytes after the instruction
	Call           // of what is Value bytes after the instruction
	CallOther      // of what a register or memory says
	Jump           // Value bytes from the instruction's end
	JumpOther      // to where a register or memory says
	Branch         // Jump, or continue
	Return         // to the caller
	Stop           // ends the flow of control: ud2, hlt
)

// Registers by the numbers of instructions.
const (
	SP   = 4
	FP   = 5
	R10  = 10
	None = 0xff
)

// An Instruction is the decoded part of one.
type Instruction struct {
	Kind   Kind
	Length uint8
	Reg    uint8
	Value  int32
}

// maxLength is what processors accept.
const maxLength = 15

// window is how many bytes a decoder may read: a prefix more than there may be, and
// what may follow the last one.
const window = 2 * (maxLength + 1)

// A decoder has the parts of an instruction.
type decoder struct {
	code   *[window]byte
	at     int // of the next byte
	opcode byte
	table  byte // 0: one byte, 1: after 0f, 2: after 0f 38, 3: after 0f 3a
	rex    byte // 0, or 0x40 and the bits w, r, x, b
	other  byte // the register that VEX names
	short  bool // a prefix says that operands have two bytes
	small  bool // a prefix says that addresses have four
	repeat byte // the prefix f2 or f3
	vector bool // encoded with VEX, EVEX or XOP

	modrm, sib   byte
	displacement int32
	immediate    int32 // its lower half, if it has eight bytes
}

// Decode decodes the instruction at the beginning of code.
func Decode(code []byte) Instruction {
	if len(code) >= window {
		return decode((*[window]byte)(code))
	}
	var copied [window]byte
	copy(copied[:], code)
	i := decode(&copied)
	if int(i.Length) > len(code) {
		return Instruction{Kind: Invalid, Length: uint8(len(code))}
	}
	return i
}

func decode(code *[window]byte) Instruction {
	d := decoder{code: code}
	form := d.head()
	if form == formInvalid || d.at > maxLength || !d.operands(form) || d.at > maxLength {
		return Instruction{Kind: Invalid, Length: 1}
	}
	i := Instruction{Length: uint8(d.at), Reg: None}
	switch {
	case d.vector:
		d.classifyVector(&i)
	case d.table == 0:
		if special[d.opcode] {
			d.classify(&i)
		}
	case d.table == 1:
		d.classifySecond(&i)
	case d.table == 2:
		d.classify38(&i)
	case d.table == 3:
		d.classify3A(&i)
	}
	return i
}

// next returns the next byte.
func (d *decoder) next() byte {
	b := d.code[d.at&(window-1)]
	d.at++
	return b
}

// head reads prefixes and the opcode, and returns what follows it.
func (d *decoder) head() byte {
	for d.at < maxLength {
		d.opcode = d.next()
		form := first[d.opcode]
		switch form {
		case formPrefix:
			d.prefix()
		case formREX:
			d.rex = d.opcode
			if d.opcode = d.next(); first[d.opcode] != formPrefix && first[d.opcode] != formREX {
				return d.escape(first[d.opcode])
			}
			d.at-- // it has no effect before other prefixes
			d.rex = 0
		default:
			return d.escape(form)
		}
	}
	return formInvalid
}

func (d *decoder) prefix() {
	switch d.opcode {
	case 0x66:
		d.short = true
	case 0x67:
		d.small = true
	case 0xf2, 0xf3:
		d.repeat = d.opcode
	}
}

// escape continues in another table if the opcode says so.
func (d *decoder) escape(form byte) byte {
	switch form {
	case formEscape:
		d.table, d.opcode = 1, d.next()
		switch form = second[d.opcode]; form {
		case formEscape38:
			d.table, d.opcode = 2, d.next()
			return formModRM
		case formEscape3A:
			d.table, d.opcode = 3, d.next()
			return formModRMByte
		}
		if d.opcode == 0x78 && (d.short || d.repeat == 0xf2) { // extrq, insertq
			return formModRMWord
		}
	case formVector:
		return d.vectorHead()
	case formModRM:
		if d.opcode == 0x8f && d.code[d.at&(window-1)]&0x1f >= 8 { // XOP, not pop
			return d.vectorHead()
		}
	}
	return form
}

// vectorHead reads what precedes the opcode of a vector instruction.
func (d *decoder) vectorHead() byte {
	d.vector = true
	prefix, table := d.opcode, byte(1)
	switch prefix {
	case 0xc5:
		b := d.next()
		d.vex(^b>>5&rexR, b)
	case 0xc4:
		b := d.next()
		table = b & 0x1f
		c := d.next()
		d.vex(^b>>5&7|c>>4&rexW, c)
	case 0x8f:
		table = d.next() & 0x1f
		d.next()
	case 0x62:
		table = d.next() & 7
		d.at += 2
	}
	if d.opcode = d.next(); prefix == 0xc4 || prefix == 0xc5 {
		d.table = table
	}
	switch table {
	case 1:
		switch {
		case prefix != 0x62 && d.opcode == 0x77: // vzeroupper
			return formNone
		case second[d.opcode] == formModRMByte:
			return formModRMByte
		}
		return formModRM
	case 2, 5, 6, 9:
		return formModRM
	case 3, 8:
		return formModRMByte
	case 10:
		return formModRMLong
	}
	return formInvalid
}

// vex notes what VEX has in place of other prefixes.
func (d *decoder) vex(rex, last byte) {
	d.rex, d.other = rex, ^last>>3&15
	d.short = last&3 == 1
	d.repeat = [4]byte{0, 0, 0xf3, 0xf2}[last&3]
}

// operands reads what follows the opcode. It is false where that does not exist.
func (d *decoder) operands(form byte) bool {
	switch form {
	case formModRM:
		d.address()
		return true
	case formNone:
		return true
	case formModRMByte:
		d.address()
		d.constant(1)
	case formModRMWord:
		d.address()
		d.constant(2)
	case formModRMLong:
		d.address()
		d.constant(4)
	case formModRMWide:
		d.address()
		d.constant(d.wide())
	case formTest, formTestWide: // only the first two of a group have a constant
		if d.address(); d.modrm>>3&7 > 1 {
			return true
		}
		if form == formTest {
			d.constant(1)
		} else {
			d.constant(d.wide())
		}
	case formByte:
		d.constant(1)
	case formWord:
		d.constant(2)
	case formEnter:
		d.constant(3)
	case formLong:
		d.constant(4)
	default:
		return d.constants(form)
	}
	return true
}

// constants reads the constants whose size prefixes change.
func (d *decoder) constants(form byte) bool {
	switch form {
	case formWide:
		d.constant(d.wide())
	case formMove:
		if d.rex&rexW != 0 {
			d.constant(8)
		} else {
			d.constant(d.wide())
		}
	case formMemory:
		if d.small {
			d.constant(4)
		} else {
			d.constant(8)
		}
	default:
		return false
	}
	return true
}

const rexW, rexR, rexB = 8, 4, 1

// wide returns the size of most constants.
func (d *decoder) wide() int {
	if d.short && d.rex&rexW == 0 {
		return 2
	}
	return 4
}

// address reads the byte that names registers or memory, and what that needs.
func (d *decoder) address() {
	d.modrm = d.next()
	mod, rm := d.modrm>>6, d.modrm&7
	if mod == 3 {
		return
	}
	if rm == 4 {
		if d.sib = d.next(); mod == 0 && d.sib&7 == 5 {
			mod = 2
		}
	} else if mod == 0 && rm == 5 {
		mod = 2
	}
	switch mod {
	case 1:
		d.displacement = int32(int8(d.next()))
	case 2:
		d.displacement = d.long()
	}
}

func (d *decoder) long() int32 {
	at := d.at & (window - 1)
	d.at += 4
	if at > window-4 {
		return 0
	}
	return int32(binary.LittleEndian.Uint32(d.code[at:]))
}

// constant reads size bytes.
func (d *decoder) constant(size int) {
	switch size {
	case 1:
		d.immediate = int32(int8(d.next()))
	case 4:
		d.immediate = d.long()
	default:
		at := d.at & (window - 1)
		if d.at += size; at <= window-2 {
			d.immediate = int32(int16(binary.LittleEndian.Uint16(d.code[at:])))
		}
	}
}
