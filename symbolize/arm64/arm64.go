// Package arm64 decodes machine code of arm64 as far as it tells what registers hold, and what
// is loaded, stored, called and jumped to.
package arm64

import (
	"encoding/binary"
	"iter"
	"math/bits"
)

// Numbers of registers (AAPCS64).
const (
	FP        = 29
	SP        = 31 // as the base of an address; else the register that is zero
	SavedFrom = 19 // registers from here on are kept by what is called

	maxArguments = 8
)

// A Value is what is known about a register.
type Value struct {
	Of Origin
	At int64 // the register, argument or address that it is of
	N  int64 // what was added
}

// An Origin says where a value comes from.
type Origin uint8

const (
	Opaque   Origin = iota // what the register At had when it was last set
	Number                 // N
	Argument               // the argument At
	Thread                 // the thread pointer
	Variable               // the word at the address At
	Field                  // a word of an object: At its offset, from argument or variable
)

// Plus returns the sum of the value and n.
func (v Value) Plus(n int64) Value {
	v.N += n
	return v
}

// An Access is a load or a store of memory.
type Access struct {
	Store    bool
	Base     Value
	Offset   int64 // from it
	Size     int   // bytes
	Register uint32
	What     Value // that is stored, or was loaded
}

// Address returns the address of the access.
func (a Access) Address() Value { return a.Base.Plus(a.Offset) }

// An Event is what an instruction does, besides arithmetic.
type Event struct {
	Accesses    []Access // up to two
	Target      uint64   // of a direct call or jump
	Call        bool
	Leaves      bool // a jump or a return
	Branches    bool // it may go on at Target, or at the next instruction
	Constant    int64
	HasConstant bool // the instruction has it as an operand
}

// Registers have what is known of each register.
type Registers [32]Value

// AtStart returns what is known at a function's start.
func AtStart() (r Registers) {
	r.Forget(0, len(r))
	for i := range maxArguments {
		r[i] = Value{Of: Argument, At: int64(i)}
	}
	return r
}

// Forget forgets what registers have, from a number up to but not including another.
func (r *Registers) Forget(from, to int) {
	for i := from; i < to; i++ {
		r[i] = Value{Of: Opaque, At: int64(i)}
	}
}

// Trace yields what each instruction of code at an address does, with the registers before it,
// as if it jumped nowhere.
func Trace(code []byte, address uint64) iter.Seq2[*Registers, Event] {
	return func(yield func(*Registers, Event) bool) {
		r := AtStart()
		for at := 0; at+4 <= len(code); at += 4 {
			i := Instruction(binary.LittleEndian.Uint32(code[at:]))
			e := i.Event(&r, address+uint64(at))
			if !yield(&r, e) {
				return
			}
			i.Follow(&r, e, address+uint64(at))
		}
	}
}

// An Instruction is its encoding (Arm Architecture Reference Manual, C4.1).
type Instruction uint32

// bits returns n bits from a place on.
func (i Instruction) bits(from, n uint) uint32 { return uint32(i) >> from & (1<<n - 1) }

// signed returns them as a signed number.
func (i Instruction) signed(from, n uint) int64 {
	return int64(int32(i.bits(from, n)<<(32-n)) >> (32 - n))
}

func (i Instruction) is(mask, pattern uint32) bool { return uint32(i)&mask == pattern }

func (i Instruction) rd() uint32 { return i.bits(0, 5) }
func (i Instruction) rn() uint32 { return i.bits(5, 5) }
func (i Instruction) rm() uint32 { return i.bits(16, 5) }

// Event returns what the instruction at an address does besides arithmetic.
func (i Instruction) Event(r *Registers, address uint64) (e Event) {
	switch {
	case i.is(0x7c000000, 0x14000000): // b, bl
		e.Call = i.bits(31, 1) == 1
		e.Leaves = !e.Call
		e.Target = address + uint64(i.signed(0, 26)<<2)
	case i.is(0xff000010, 0x54000000), i.is(0x7e000000, 0x34000000): // b.cond; cbz, cbnz
		e.Branches = true
		e.Target = address + uint64(i.signed(5, 19)<<2)
	case i.is(0x7e000000, 0x36000000): // tbz, tbnz
		e.Branches = true
		e.Target = address + uint64(i.signed(5, 14)<<2)
	case i.is(0xfe000000, 0xd6000000): // br, blr, ret
		e.Call = i.bits(21, 2) == 1
		e.Leaves = !e.Call
	case i.is(0x1f000000, 0x11000000), i.is(0x7f800000, 0x52800000), i.is(0x7f800000, 0x12800000): // add, sub, movz, movn
		e.Constant, e.HasConstant = i.immediate(), true
	case i.prefetches():
	default:
		e.Accesses = i.accesses(r)
	}
	return e
}

// immediate returns the operand of add, sub, movz or movn.
func (i Instruction) immediate() int64 {
	if i.is(0x1f000000, 0x11000000) {
		return int64(i.bits(10, 12)) << (12 * i.bits(22, 1))
	}
	n := int64(i.bits(5, 16)) << (16 * i.bits(21, 2))
	if i.is(0x7f800000, 0x12800000) {
		n = ^n
	}
	return n
}

// accesses returns the loads and stores of general registers at a base and an offset.
func (i Instruction) accesses(r *Registers) []Access {
	size := 1 << i.bits(30, 2)
	one := Access{Size: size, Base: r[i.rn()], Register: i.rd(), Store: i.bits(22, 2) == 0}
	switch {
	case i.is(0x3f000000, 0x39000000): // ldr, str: unsigned offset
		one.Offset = int64(i.bits(10, 12)) << i.bits(30, 2)
	case i.is(0x3f200c00, 0x38000000), i.is(0x3f200400, 0x38000400): // ldur, stur; before or after an update
		one.Offset = i.signed(12, 9)
		if i.bits(10, 2) == 1 {
			one.Offset = 0
		}
	case i.is(0x3f200c00, 0x38200800): // ldr, str: by a register
		if index := r[i.rm()]; index.Of == Number {
			one.Offset = index.N << (i.bits(12, 1) * i.bits(30, 2))
		} else if one.Base.Of == Thread && index.Of == Variable {
			one.Base, one.Offset = Value{Of: Field, At: index.At, N: -1}, 0
		} else {
			one.Base = Value{Of: Opaque, At: SP}
		}
	case i.is(0x3e000000, 0x28000000): // ldp, stp
		return i.pair(r)
	default:
		return nil
	}
	one.What = one.value(r)
	return []Access{one}
}

// pair returns the accesses of ldp or stp.
func (i Instruction) pair(r *Registers) []Access {
	size := 4 << i.bits(31, 1)
	offset := i.signed(15, 7) * int64(size)
	if i.bits(23, 2) == 1 {
		offset = 0
	}
	one := Access{Size: size, Base: r[i.rn()], Register: i.rd(), Store: i.bits(22, 1) == 0, Offset: offset}
	two := one
	two.Register, two.Offset = i.bits(10, 5), offset+int64(size)
	one.What, two.What = one.value(r), two.value(r)
	return []Access{one, two}
}

// value returns what an access stores or loads.
func (a Access) value(r *Registers) Value {
	at := a.Address()
	switch {
	case a.Store && a.Register == SP:
		return Value{Of: Number}
	case a.Store:
		return r[a.Register]
	case at.Of == Number:
		return Value{Of: Variable, At: at.N}
	case at.Of == Argument && at.At == 0, at.Of == Variable, at.Of == Opaque:
		return Value{Of: Field, At: at.N<<8 | at.At&0xff}
	}
	return Value{Of: Opaque, At: int64(a.Register)}
}

// Follow changes the registers as the instruction at an address does.
func (i Instruction) Follow(r *Registers, e Event, address uint64) {
	for _, a := range e.Accesses {
		if !a.Store && a.Register != SP {
			r[a.Register] = a.What
		}
	}
	switch {
	case e.Accesses != nil:
	case e.Call:
		r.Forget(0, SavedFrom)
	case e.Leaves:
		r.Forget(0, len(r))
	case i.rd() != SP && i.writes():
		r[i.rd()] = i.result(r, address)
	}
	i.writeBack(r)
	i.swap(r)
}

// prefetches reports whether an instruction is a hint that has the form of a load: prfm.
func (i Instruction) prefetches() bool {
	return i.is(0xffc00000, 0xf9800000) || i.is(0xffe00c00, 0xf8a00800) || i.is(0xffe00c00, 0xf8800000) || i.is(0xff000000, 0xd8000000)
}

// writes reports whether an instruction that does nothing else changes its general register.
func (i Instruction) writes() bool {
	switch class := i.bits(25, 4); {
	case class&0xe == 0x8, class&0x7 == 0x5: // arithmetic
		return true
	case class&0xe == 0xa: // mrs; others jump, or change no register
		return i.is(0xfff00000, 0xd5300000)
	case class&0x5 == 0x4: // other loads and stores
		return i.bits(26, 1) == 0 && !i.prefetches()
	}
	// From a vector register: fmov and conversions, those to fixed point, umov and smov.
	return i.is(0x7f20fc00, 0x1e200000) || i.is(0x7f200000, 0x1e000000) || i.is(0xbfe0ec00, 0x0e002c00)
}

// swap notes what exclusive loads and stores and compare-and-swap change besides the first
// register: one or two that tell whether it was done, or the second of a pair.
func (i Instruction) swap(r *Registers) {
	if !i.is(0x3f000000, 0x08000000) {
		return
	}
	if status := int(i.rm()); status != SP {
		r.Forget(status, status+2)
	}
	if second := int(i.bits(10, 5)); second != SP {
		r.Forget(second, second+1)
	}
}

// writeBack notes that a load or store, also of vector registers, has changed its base.
func (i Instruction) writeBack(r *Registers) {
	indexed := i.is(0x3b200400, 0x38000400) || i.is(0x3a800000, 0x28800000) || i.is(0xbe800000, 0x0c800000)
	if base := i.rn(); indexed && base != SP {
		r[base] = Value{Of: Opaque, At: int64(base)}
	}
}

// result returns what arithmetic leaves in its register.
func (i Instruction) result(r *Registers, address uint64) Value {
	page := i.signed(5, 19)<<2 | int64(i.bits(29, 2))
	switch {
	case i.is(0x9f000000, 0x90000000): // adrp
		return Value{Of: Number, N: int64(address)&^0xfff + page<<12}
	case i.is(0x9f000000, 0x10000000): // adr
		return Value{Of: Number, N: int64(address) + page}
	}
	result := i.sum(r)
	if i.bits(31, 1) == 1 || result.Of == Field { // a field may have 32 bits
		return result
	}
	if result.Of != Number {
		return Value{Of: Opaque, At: int64(i.rd())}
	}
	result.N &= 1<<32 - 1
	return result
}

// sum returns what arithmetic without the instruction's address leaves in 64 bits.
func (i Instruction) sum(r *Registers) Value {
	unknown := Value{Of: Opaque, At: int64(i.rd())}
	switch {
	case i.is(0x7f000000, 0x11000000): // add
		return r[i.rn()].Plus(i.immediate())
	case i.is(0x7f000000, 0x51000000): // sub
		return r[i.rn()].Plus(-i.immediate())
	case i.is(0x7f800000, 0x52800000), i.is(0x7f800000, 0x12800000): // movz, movn
		return Value{Of: Number, N: i.immediate()}
	case i.is(0x7f800000, 0x72800000): // movk
		shift := 16 * i.bits(21, 2)
		if old := r[i.rd()]; old.Of == Number {
			return Value{Of: Number, N: old.N&^(0xffff<<shift) | int64(i.bits(5, 16))<<shift}
		}
	case i.is(0x7fe0ffe0, 0x2a0003e0): // mov from a register
		if i.rm() == SP {
			return Value{Of: Number}
		}
		return r[i.rm()]
	case i.is(0x7fe0fc00, 0x0b000000): // add of two registers
		a, b := r[i.rn()], r[i.rm()]
		if a.Of == Number {
			a, b = b, a
		}
		if b.Of == Number {
			return a.Plus(b.N)
		}
		if a.Of == Thread && b.Of == Variable {
			return Value{Of: Field, At: b.At, N: -1}
		}
	case i.is(0x7f800000, 0x32000000) && i.rn() == SP: // mov of a pattern of bits
		return Value{Of: Number, N: i.pattern()}
	case i.is(0xffffffe0, 0xd53bd040): // mrs tpidr_el0
		return Value{Of: Thread}
	}
	return unknown
}

// pattern returns the operand of orr: a run of ones, repeated and rotated. It is 0 if that is
// no number that an offset may be.
func (i Instruction) pattern() int64 {
	length := bits.Len32(i.bits(22, 1)<<6|^i.bits(10, 6)&0x3f) - 1
	if length < 1 {
		return 0
	}
	size := uint32(1) << length
	ones, rotate := i.bits(10, 6)&(size-1)+1, i.bits(16, 6)&(size-1)
	run := uint64(1)<<ones - 1
	run = run>>rotate | run<<(size-rotate)
	if size < 64 {
		run &= 1<<size - 1
	}
	for ; size < 64; size *= 2 {
		run |= run << size
	}
	if i.bits(31, 1) == 0 {
		run &= 1<<32 - 1
	}
	return int64(run)
}
