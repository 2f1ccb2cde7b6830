package libuv

import (
	"maps"
	"math"
	"slices"

	"golang.org/x/arch/x86/x86asm"
)

// A value is what is known about 64 bits.
type value struct {
	of origin
	n  uint64 // the number, or what was added to the argument
}

// An origin is where a value comes from.
type origin uint8

const (
	unknown origin = iota
	number
	argument // the first; the others follow
)

func (v value) plus(n uint64) value {
	if v.of == unknown {
		return v
	}
	return value{v.of, v.n + n}
}

// A step is a direct call, or a jump out of the function.
type step struct {
	target    uint64   // its address; 0 in another library
	arguments [6]value // as far as they are known, whether it uses them or not
	leaves    bool     // it is a jump
}

// A store is a store of 8 bytes.
type store struct{ to, what value }

// Effects are what a function does, as far as that is known.
type effects struct {
	calls  []step
	stores []store
}

// registers holds what is known about registers of 64 and 128 bits, in halves of 64
// bits, the low half first.
type registers map[x86asm.Reg][2]value

// keep keeps what is the same in other, and reports whether that is less.
func (r registers) keep(other registers) (less bool) {
	before := len(r)
	maps.DeleteFunc(r, func(name x86asm.Reg, v [2]value) bool { return other[name] != v })
	return len(r) < before
}

// A tracer follows a function's code and tracks what is known about the registers: at
// each place, what holds on all paths that lead there.
type tracer struct {
	registers
	start    uint64                                    // address of the function
	code     []byte                                    // of it
	constant func(at uint64) (address uint64, ok bool) // reads an address that does not change
	next     uint64                                    // address of the next instruction
	jumps    map[int]registers                         // what is known at the targets of its jumps, by place
	stable   bool                                      // no jump was found to know less than in the pass before
	effects
}

// maxPasses bounds the passes over a function. Each pass knows less than the one before
// because of a backward jump; two or three are usual.
const maxPasses = 16

// traceCode follows the function whose code is at address start. It finds nothing in a
// function that is too tangled or that jumps to unknown places.
func traceCode(code []byte, start uint64, constant func(uint64) (uint64, bool)) effects {
	t := &tracer{start: start, code: code, constant: constant, jumps: make(map[int]registers)}
	for pass := 0; pass < maxPasses && !t.stable; pass++ {
		if !t.pass() {
			return effects{}
		}
	}
	if !t.stable {
		return effects{}
	}
	return t.effects
}

// pass goes through the code once; false if it jumps to an unknown place.
func (t *tracer) pass() bool {
	t.effects, t.stable = effects{}, true
	t.registers = make(registers)
	for i, r := range arguments {
		t.registers[r] = [2]value{{of: argument + origin(i)}}
	}
	reached := true // by the preceding instruction
	for at, inst := range instructions(t.code) {
		if _, jumped := t.jumps[at]; inst.Op == x86asm.NOP && !reached && !jumped {
			continue // between two blocks
		}
		t.arrive(at, reached)
		t.next = t.start + uint64(at+inst.Len)
		switch to, ok := t.targets(inst); {
		case !ok:
			return false
		case inst.Op == x86asm.CALL:
			t.call(inst)
		case inst.Op == x86asm.JMP && len(to) == 0: // to another library
			t.note(step{leaves: true})
		case len(to) > 0:
			t.leave(inst, to)
		default:
			t.follow(inst)
		}
		reached = inst.Op != x86asm.JMP && inst.Op != x86asm.RET
	}
	return true
}

// maxTable bounds a jump table: no traced function has so large a switch.
const maxTable = 64

// targets returns the addresses to which an instruction may jump, none if it does not
// jump; false if they are not known. Extra targets do no harm.
func (t *tracer) targets(inst x86asm.Inst) (to []uint64, ok bool) {
	switch where := inst.Args[0].(type) {
	case x86asm.Rel:
		return []uint64{t.next + uint64(where)}, true
	case x86asm.Mem:
		if inst.Op != x86asm.JMP || isFixed(where) {
			return nil, true
		}
		for i := 0; i < maxTable && where.Base == 0; i++ {
			address, ok := t.constant(uint64(where.Disp) + uint64(8*i))
			if !ok || address-t.start >= uint64(len(t.code)) {
				break
			}
			to = append(to, address)
		}
		return to, len(to) > 0
	}
	return nil, inst.Op != x86asm.JMP
}

// call records a direct call, and forgets what any call may change.
func (t *tracer) call(inst x86asm.Inst) {
	switch to := inst.Args[0].(type) {
	case x86asm.Rel:
		t.note(step{target: t.next + uint64(to)})
	case x86asm.Mem:
		if isFixed(to) {
			t.note(step{})
		}
	}
	maps.DeleteFunc(t.registers, func(r x86asm.Reg, _ [2]value) bool {
		return !slices.Contains(saved, r)
	})
}

func (t *tracer) note(s step) {
	for i, r := range arguments {
		s.arguments[i] = t.get(r)[0]
	}
	t.calls = append(t.calls, s)
}

// leave carries the registers to the targets of an instruction.
func (t *tracer) leave(inst x86asm.Inst, targets []uint64) {
	for _, target := range targets {
		at := int(target - t.start)
		if target-t.start >= uint64(len(t.code)) {
			if inst.Op == x86asm.JMP {
				t.note(step{target: target, leaves: true})
			}
			continue
		}
		known, ok := t.jumps[at]
		if !ok {
			t.jumps[at] = maps.Clone(t.registers)
		}
		if !ok || known.keep(t.registers) {
			t.stable = false
		}
	}
}

// arrive sets the registers to what is known at a place, which the preceding
// instruction may also reach.
func (t *tracer) arrive(at int, reached bool) {
	known, jumped := t.jumps[at]
	switch {
	case !reached && !jumped: // a landing pad, say
		clear(t.registers)
	case !reached:
		t.registers = maps.Clone(known)
	case jumped:
		t.registers.keep(known)
	}
}

// isFixed reports whether m is at a fixed place in the file.
func isFixed(m x86asm.Mem) bool { return m.Base == x86asm.RIP && m.Index == 0 && m.Segment == 0 }

// distance returns the distance of such a place from the next instruction. The decoder
// does not sign-extend these 32 bits.
func distance(m x86asm.Mem) uint64 { return uint64(int64(int32(m.Disp))) }

// keeping are the instructions that change no register, not counting jumps.
var keeping = []x86asm.Op{x86asm.NOP, x86asm.CMP, x86asm.TEST, x86asm.PUSH}

// changing are the instructions that change only their first operand.
var changing = []x86asm.Op{
	x86asm.ADD, x86asm.SUB, x86asm.AND, x86asm.OR, x86asm.XOR, x86asm.INC, x86asm.DEC, x86asm.NEG, x86asm.NOT,
	x86asm.SHL, x86asm.SHR, x86asm.SAR, x86asm.MOVZX, x86asm.MOVSX, x86asm.MOVSXD, x86asm.POP, x86asm.LEA,
	x86asm.MOV, x86asm.MOVD, x86asm.MOVQ, x86asm.MOVSS, x86asm.MOVHPS, x86asm.MOVLHPS, x86asm.PUNPCKLQDQ,
	x86asm.MOVAPS, x86asm.MOVUPS, x86asm.MOVAPD, x86asm.MOVUPD, x86asm.MOVDQA, x86asm.MOVDQU,
	x86asm.PXOR, x86asm.XORPS, x86asm.XORPD,
	x86asm.CMOVE, x86asm.CMOVNE, x86asm.CMOVA, x86asm.CMOVAE, x86asm.CMOVB, x86asm.CMOVBE, x86asm.CMOVS, x86asm.CMOVNS,
	x86asm.SETE, x86asm.SETNE, x86asm.SETA, x86asm.SETAE, x86asm.SETB, x86asm.SETBE,
}

// follow applies an instruction that does not jump.
func (t *tracer) follow(inst x86asm.Inst) {
	if slices.Contains(keeping, inst.Op) {
		return
	}
	if !slices.Contains(changing, inst.Op) {
		clear(t.registers)
		return
	}
	result := t.result(inst)
	switch to := inst.Args[0].(type) {
	case x86asm.Reg:
		delete(t.registers, full(to))
		if to == full(to) || is32(to) && result[0].of == number {
			t.registers[full(to)] = result
		}
	case x86asm.Mem:
		for i := range inst.MemBytes / 8 {
			t.stores = append(t.stores, store{t.address(to).plus(uint64(8 * i)), result[i&1]})
		}
	}
}

// result returns what an instruction leaves in its first operand, as far as is known.
// Results of 32 bits are extended to 64, as the processor does.
func (t *tracer) result(inst x86asm.Inst) (result [2]value) {
	to, _ := inst.Args[0].(x86asm.Reg)
	switch inst.Op {
	case x86asm.MOV, x86asm.MOVQ, x86asm.MOVAPS, x86asm.MOVUPS, x86asm.MOVAPD, x86asm.MOVUPD, x86asm.MOVDQA, x86asm.MOVDQU:
		result = t.get(inst.Args[1])
		if inst.Op == x86asm.MOVQ {
			result[1] = value{of: number}
		}
	case x86asm.LEA:
		if from, ok := inst.Args[1].(x86asm.Mem); ok {
			result[0] = t.address(from)
		}
	case x86asm.ADD:
		if from, ok := inst.Args[1].(x86asm.Imm); ok {
			result[0] = t.get(inst.Args[0])[0].plus(uint64(from))
		}
	case x86asm.XOR, x86asm.SUB:
		if inst.Args[0] == inst.Args[1] {
			result[0] = value{of: number}
		}
	case x86asm.MOVHPS, x86asm.MOVLHPS, x86asm.PUNPCKLQDQ:
		if to != 0 {
			result = [2]value{t.get(to)[0], t.get(inst.Args[1])[0]}
		} else {
			result[0] = t.get(inst.Args[1])[1]
		}
	}
	if is32(to) && result[0].of == number {
		result[0].n &= math.MaxUint32
	}
	return result
}

// get returns what is known about an operand.
func (t *tracer) get(operand x86asm.Arg) (v [2]value) {
	switch from := operand.(type) {
	case x86asm.Imm:
		v[0] = value{number, uint64(from)}
	case x86asm.Reg:
		v = t.registers[full(from)]
		if from != full(from) && !(is32(from) && v[0].of == number) {
			return [2]value{}
		}
		if is32(from) {
			v[0].n &= math.MaxUint32
		}
	case x86asm.Mem:
		for i := range v {
			if !isFixed(from) {
				break
			}
			if n, ok := t.constant(t.next + distance(from) + uint64(8*i)); ok {
				v[i] = value{number, n}
			}
		}
	}
	return v
}

// address returns the address that m refers to.
func (t *tracer) address(m x86asm.Mem) value {
	switch {
	case isFixed(m):
		return value{number, t.next + distance(m)}
	case m.Segment != 0 || m.Index != 0:
		return value{}
	case m.Base == 0:
		return value{number, uint64(m.Disp)}
	}
	return t.get(m.Base)[0].plus(uint64(m.Disp))
}

func is32(r x86asm.Reg) bool { return r >= x86asm.EAX && r <= x86asm.R15L }

// full returns the 64-bit register that r is part of; r if there is none.
func full(r x86asm.Reg) x86asm.Reg {
	for _, parts := range []struct{ first, last, of x86asm.Reg }{
		{x86asm.EAX, x86asm.R15L, x86asm.RAX},
		{x86asm.AX, x86asm.R15W, x86asm.RAX},
		{x86asm.AL, x86asm.BL, x86asm.RAX},
		{x86asm.AH, x86asm.BH, x86asm.RAX},
		{x86asm.SPB, x86asm.R15B, x86asm.RSP},
	} {
		if r >= parts.first && r <= parts.last {
			return r - parts.first + parts.of
		}
	}
	return r
}
