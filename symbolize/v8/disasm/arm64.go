package disasm

import (
	"encoding/binary"
	"iter"
	"math/bits"

	"ustack/symbolize/elfsym"
)

// arm64 decodes code of arm64, by following what is known of registers from instruction to
// instruction. Its root register is x26.
type arm64 struct{}

const (
	rootRegister = 26
	armFP        = 29
	armSP        = 31 // as the base of an address; else the register that is zero
	armBias      = 0x100
	maxArguments = 8
	savedFrom    = 19 // registers from here on are kept by what is called
	wordBytes    = 8
)

func (arm64) rootBias() int64 { return armBias }

// A value is what is known about a register.
type value struct {
	of origin
	at int64 // the register, argument or address that it is of
	n  int64 // what was added
}

// An origin says where a value comes from.
type origin uint8

const (
	opaque   origin = iota // what the register at had when it was last set
	number                 // n
	argument               // the argument at
	thread                 // the thread pointer
	variable               // the word at the address at
	field                  // a word of an object: at its offset, from argument or variable
)

func (v value) plus(n int64) value {
	v.n += n
	return v
}

// An access is a load or a store of memory.
type access struct {
	store    bool
	base     value
	offset   int64 // from it
	size     int   // bytes
	register uint32
	what     value // that is stored, or was loaded
}

func (a access) address() value { return a.base.plus(a.offset) }

// An event is what an instruction does, besides arithmetic.
type event struct {
	accesses []access // up to two
	target   uint64   // of a direct call or jump
	call     bool
	leaves   bool // a jump or a return
	constant int64
	has      bool // the instruction has the constant as an operand
}

// registers have what is known.
type registers [32]value

// atStart is what is known at a function's start.
func atStart() (r registers) {
	r.forget(0, len(r))
	for i := range maxArguments {
		r[i] = value{of: argument, at: int64(i)}
	}
	return r
}

func (r *registers) forget(from, to int) {
	for i := from; i < to; i++ {
		r[i] = value{of: opaque, at: int64(i)}
	}
}

// trace yields what each instruction of the function s does, with the registers before it.
func (arm64) trace(f *elfsym.File, s elfsym.Symbol) iter.Seq2[*registers, event] {
	size := s.Size
	if size == 0 || size > maxFunction {
		size = maxFunction
	}
	code := make([]byte, size)
	n, _ := f.ReadAt(code, s.Address) // a function at a segment's end is shorter
	return traceCode(code[:n], s.Address)
}

func traceCode(code []byte, address uint64) iter.Seq2[*registers, event] {
	return func(yield func(*registers, event) bool) {
		r := atStart()
		for at := 0; at+4 <= len(code); at += 4 {
			i := instruction(binary.LittleEndian.Uint32(code[at:]))
			e := i.event(&r, address+uint64(at))
			if !yield(&r, e) {
				return
			}
			i.follow(&r, e, address+uint64(at))
		}
	}
}

// An instruction is its encoding (Arm Architecture Reference Manual, C4.1).
type instruction uint32

// bits returns n bits from a place on.
func (i instruction) bits(from, n uint) uint32 { return uint32(i) >> from & (1<<n - 1) }

// signed returns them as a signed number.
func (i instruction) signed(from, n uint) int64 {
	return int64(int32(i.bits(from, n)<<(32-n)) >> (32 - n))
}

func (i instruction) is(mask, pattern uint32) bool { return uint32(i)&mask == pattern }

func (i instruction) rd() uint32 { return i.bits(0, 5) }
func (i instruction) rn() uint32 { return i.bits(5, 5) }
func (i instruction) rm() uint32 { return i.bits(16, 5) }

// event returns what the instruction at an address does besides arithmetic.
func (i instruction) event(r *registers, address uint64) (e event) {
	switch {
	case i.is(0x7c000000, 0x14000000): // b, bl
		e.call = i.bits(31, 1) == 1
		e.leaves = !e.call
		e.target = address + uint64(i.signed(0, 26)<<2)
	case i.is(0xfe000000, 0xd6000000): // br, blr, ret
		e.call = i.bits(21, 2) == 1
		e.leaves = !e.call
	case i.is(0x1f000000, 0x11000000), i.is(0x7f800000, 0x52800000), i.is(0x7f800000, 0x12800000): // add, sub, movz, movn
		e.constant, e.has = i.immediate(), true
	default:
		e.accesses = i.accesses(r)
	}
	return e
}

// immediate returns the operand of add, sub, movz or movn.
func (i instruction) immediate() int64 {
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
func (i instruction) accesses(r *registers) []access {
	size := 1 << i.bits(30, 2)
	one := access{size: size, base: r[i.rn()], register: i.rd(), store: i.bits(22, 2) == 0}
	switch {
	case i.is(0x3f000000, 0x39000000): // ldr, str: unsigned offset
		one.offset = int64(i.bits(10, 12)) << i.bits(30, 2)
	case i.is(0x3f200c00, 0x38000000), i.is(0x3f200400, 0x38000400): // ldur, stur; before or after an update
		one.offset = i.signed(12, 9)
		if i.bits(10, 2) == 1 {
			one.offset = 0
		}
	case i.is(0x3f200c00, 0x38200800): // ldr, str: by a register
		if index := r[i.rm()]; index.of == number {
			one.offset = index.n << (i.bits(12, 1) * i.bits(30, 2))
		} else if one.base.of == thread && index.of == variable {
			one.base, one.offset = value{of: field, at: index.at, n: -1}, 0
		} else {
			one.base = value{of: opaque, at: armSP}
		}
	case i.is(0x3e000000, 0x28000000): // ldp, stp
		return i.pair(r)
	default:
		return nil
	}
	one.what = one.value(r)
	return []access{one}
}

// pair returns the accesses of ldp or stp.
func (i instruction) pair(r *registers) []access {
	size := 4 << i.bits(31, 1)
	offset := i.signed(15, 7) * int64(size)
	if i.bits(23, 2) == 1 {
		offset = 0
	}
	one := access{size: size, base: r[i.rn()], register: i.rd(), store: i.bits(22, 1) == 0, offset: offset}
	two := one
	two.register, two.offset = i.bits(10, 5), offset+int64(size)
	one.what, two.what = one.value(r), two.value(r)
	return []access{one, two}
}

// value returns what an access stores or loads.
func (a access) value(r *registers) value {
	at := a.address()
	switch {
	case a.store && a.register == armSP:
		return value{of: number}
	case a.store:
		return r[a.register]
	case at.of == number:
		return value{of: variable, at: at.n}
	case at.of == argument && at.at == 0, at.of == variable, at.of == opaque:
		return value{of: field, at: at.n<<8 | at.at&0xff}
	}
	return value{of: opaque, at: int64(a.register)}
}

// follow changes the registers as the instruction at an address does.
func (i instruction) follow(r *registers, e event, address uint64) {
	for _, a := range e.accesses {
		if !a.store && a.register != armSP {
			r[a.register] = a.what
		}
	}
	switch {
	case e.accesses != nil:
		i.writeBack(r)
	case e.call:
		r.forget(0, savedFrom)
	case e.leaves:
		r.forget(0, len(r))
	case i.rd() != armSP && i.writes():
		r[i.rd()] = i.result(r, address)
	}
}

// writes reports whether an instruction that does nothing else changes its general register.
func (i instruction) writes() bool {
	switch class := i.bits(25, 4); {
	case class&0xe == 0x8, class&0x7 == 0x5: // arithmetic
		return true
	case class&0xe == 0xa: // mrs; others jump, or change no register
		return i.is(0xfff00000, 0xd5300000)
	case class&0x5 == 0x4: // other loads and stores
		return i.bits(26, 1) == 0
	}
	return i.is(0x7f20fc00, 0x1e200000) // from a vector register
}

// writeBack notes that a load or store has changed its base.
func (i instruction) writeBack(r *registers) {
	indexed := i.is(0x3f200400, 0x38000400) || i.is(0x3e800000, 0x28800000)
	if base := i.rn(); indexed && base != armSP {
		r[base] = value{of: opaque, at: int64(base)}
	}
}

// result returns what arithmetic leaves in its register.
func (i instruction) result(r *registers, address uint64) value {
	unknown := value{of: opaque, at: int64(i.rd())}
	page := i.signed(5, 19)<<2 | int64(i.bits(29, 2))
	switch {
	case i.is(0x9f000000, 0x90000000): // adrp
		return value{of: number, n: int64(address)&^0xfff + page<<12}
	case i.is(0x9f000000, 0x10000000): // adr
		return value{of: number, n: int64(address) + page}
	case i.is(0x7f000000, 0x11000000): // add
		return r[i.rn()].plus(i.immediate())
	case i.is(0x7f000000, 0x51000000): // sub
		return r[i.rn()].plus(-i.immediate())
	case i.is(0x7f800000, 0x52800000), i.is(0x7f800000, 0x12800000): // movz, movn
		return value{of: number, n: i.immediate()}
	case i.is(0x7f800000, 0x72800000): // movk
		shift := 16 * i.bits(21, 2)
		if old := r[i.rd()]; old.of == number {
			return value{of: number, n: old.n&^(0xffff<<shift) | int64(i.bits(5, 16))<<shift}
		}
	case i.is(0x7fe0ffe0, 0x2a0003e0): // mov from a register
		if i.rm() == armSP {
			return value{of: number}
		}
		return r[i.rm()]
	case i.is(0x7fe0fc00, 0x0b000000): // add of two registers
		a, b := r[i.rn()], r[i.rm()]
		if a.of == number {
			a, b = b, a
		}
		if b.of == number {
			return a.plus(b.n)
		}
		if a.of == thread && b.of == variable {
			return value{of: field, at: b.at, n: -1}
		}
	case i.is(0x7f800000, 0x32000000) && i.rn() == armSP: // mov of a pattern of bits
		return value{of: number, n: i.pattern()}
	case i.is(0xffffffe0, 0xd53bd040): // mrs tpidr_el0
		return value{of: thread}
	}
	return unknown
}

// pattern returns the operand of orr: a run of ones, repeated and rotated. It is 0 if that is
// no number that an offset may be.
func (i instruction) pattern() int64 {
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
