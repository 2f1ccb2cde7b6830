package libuv

import (
	"bytes"
	"iter"
	"slices"

	"golang.org/x/arch/x86/x86asm"
)

// A probe replaces an instruction by a trap. The kernel then emulates some
// instructions (arch/x86/kernel/uprobes.c); others it has the processor single-step,
// with a second trap, which costs ten times as much in a virtual machine. So a probe is
// placed where the kernel can do with one trap.

// instructions yields the instructions of code with their offsets.
func instructions(code []byte) iter.Seq2[int, x86asm.Inst] {
	return func(yield func(int, x86asm.Inst) bool) {
		for at := 0; at < len(code); {
			inst, err := x86asm.Decode(code[at:], 64)
			if bytes.HasPrefix(code[at:], landing) {
				inst, err = x86asm.Inst{Op: x86asm.NOP, Len: len(landing)}, nil
			}
			if err != nil || inst.Op == 0 || !yield(at, inst) {
				return
			}
			at += inst.Len
		}
	}
}

// landing is endbr64, which the decoder does not know: indirect calls land there if
// the compiler was told to emit it (-fcf-protection).
var landing = []byte{0xf3, 0x0f, 0x1e, 0xfa}

// isEmulated reports whether the kernel emulates the instruction: push of a register,
// one-byte nop, and direct jumps and calls.
func isEmulated(inst x86asm.Inst) bool {
	const nop = 0x90
	switch inst.Op {
	case x86asm.NOP:
		return inst.Opcode>>24 == nop
	case x86asm.PUSH:
		_, ok := inst.Args[0].(x86asm.Reg)
		return ok
	}
	_, ok := inst.Args[0].(x86asm.Rel)
	return ok
}

// arguments are the registers that hold a function's arguments (System V).
var arguments = []x86asm.Reg{x86asm.RDI, x86asm.RSI, x86asm.RDX, x86asm.RCX, x86asm.R8, x86asm.R9}

// Entry returns where in a function to put a probe that sees its first n arguments and
// the stack as they are at its beginning.
func Entry(code []byte, n int) int {
	for at, inst := range instructions(code) {
		if isEmulated(inst) {
			return at
		}
		switch inst.Op {
		case x86asm.TEST, x86asm.CMP, x86asm.NOP:
			continue
		case x86asm.MOV:
			if to, ok := inst.Args[0].(x86asm.Reg); ok && isScratch(to, n) {
				continue
			}
		}
		break
	}
	return 0
}

// isScratch reports whether r, of any width, holds none of the first n arguments and is
// not one of the registers that bound the stack.
func isScratch(r x86asm.Reg, n int) bool {
	if r >= x86asm.EAX && r <= x86asm.R15L {
		r += x86asm.RAX - x86asm.EAX
	}
	return r >= x86asm.RAX && r <= x86asm.R15 && r != x86asm.RSP && r != x86asm.RBP && !slices.Contains(arguments[:n], r)
}

// A Call is where libuv's worker() calls a job.
type Call struct {
	Before, After int // offsets of calls of other functions between which it is
	Register      int // the processor's number of the register that refers to the job
}

// workLink is the offset in struct uv__work of its queue link (include/uv/threadpool.h):
// worker() refers to a job by that link.
const workLink = 24

// FindCall finds the call of w->work(w) in worker(): the one through memory, at the
// link minus workLink. The mutex is unlocked before it and locked after it, with the
// link in a callee-saved register, and no jump in between. Where rbp is the frame
// pointer, -24(%rbp) is a local variable.
func FindCall(code []byte) (Call, bool) {
	var c Call
	joins, framed := jumps(code), hasFrame(code)
	direct, found := -1, false
	for at, inst := range instructions(code) {
		if _, jumps := jump(at, inst); joins[at] || jumps && inst.Op != x86asm.CALL {
			if found {
				return c, false
			}
			direct = -1
		}
		if inst.Op != x86asm.CALL {
			continue
		}
		to, ok := inst.Args[0].(x86asm.Mem)
		switch {
		case !ok || isFixed(to): // a function of libuv's own or of another library
			if found {
				c.After = at
				return c, true
			}
			direct = at
		case to.Disp != -workLink || to.Index != 0 || direct < 0 || !slices.Contains(saved, to.Base) || framed && to.Base == x86asm.RBP:
			return c, false
		default:
			c.Before, c.Register, found = direct, number64(to.Base), true
		}
	}
	return c, false
}

// jump returns the target, as an offset from the function's start, of the jump or call
// at offset at; false if it is neither, or is indirect.
func jump(at int, inst x86asm.Inst) (to int, ok bool) {
	distance, ok := inst.Args[0].(x86asm.Rel)
	return at + inst.Len + int(distance), ok
}

// jumps returns the targets of the direct jumps in code.
func jumps(code []byte) map[int]bool {
	places := make(map[int]bool)
	for at, inst := range instructions(code) {
		if to, ok := jump(at, inst); ok && inst.Op != x86asm.CALL {
			places[to] = true
		}
	}
	return places
}

// saved are the callee-saved registers.
var saved = []x86asm.Reg{x86asm.RBX, x86asm.RBP, x86asm.R12, x86asm.R13, x86asm.R14, x86asm.R15}

// hasFrame reports whether rbp is the frame pointer in code, which refers to local
// variables by it.
func hasFrame(code []byte) bool {
	for _, inst := range instructions(code) {
		from, _ := inst.Args[1].(x86asm.Mem)
		if inst.Args[0] == x86asm.RBP && (inst.Op == x86asm.MOV && inst.Args[1] == x86asm.RSP || inst.Op == x86asm.LEA && from.Base == x86asm.RSP) {
			return true
		}
	}
	return false
}

// number64 returns the processor's number of a register of 64 bits.
func number64(r x86asm.Reg) int { return int(r - x86asm.RAX) }
