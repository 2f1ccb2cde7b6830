package stack

import (
	"debug/elf"
	"encoding/binary"

	"ustack/symbolize/unwind"
)

// Registers are the registers of a thread.
type Registers struct {
	Machine       elf.Machine
	PC, SP, FP    uint64
	ThreadPointer uint64                       // address of the C library's data of the thread
	General       [unwind.RegisterCount]uint64 // by their numbers in DWARF
	Signs         uint64                       // bits of return addresses that may be a signature
}

// Regsets are sets of a thread's registers as the kernel has them.
type Regsets struct {
	General []byte // NT_PRSTATUS
	TLS     []byte // NT_ARM_TLS
	PACMask []byte // NT_ARM_PAC_MASK
}

// Supports reports whether stacks of that architecture are unwound.
func Supports(machine elf.Machine) bool { return machines[machine].arch != nil }

// ReadRegisters reads a thread's registers. What the sets lack is 0.
func ReadRegisters(machine elf.Machine, sets Regsets) Registers {
	m := machines[machine]
	r := Registers{Machine: machine, PC: word(sets.General, m.pc), Signs: word(sets.PACMask, codeMask)}
	if m.threadPointer >= 0 {
		r.ThreadPointer = word(sets.General, m.threadPointer)
	} else {
		r.ThreadPointer = word(sets.TLS, 0)
	}
	for i, w := range m.words {
		r.General[i] = word(sets.General, w)
	}
	if m.arch != nil {
		r.SP, r.FP = r.General[m.arch.SP], r.General[m.arch.FP]
	}
	return r
}

// ofKernel reports whether the thread is one that the kernel has made for io_uring in the
// process. Such a thread never leaves the kernel, which clears its stack pointer and its pc;
// its thread pointer is that of the thread for which it works.
func (r Registers) ofKernel() bool { return r.SP == 0 && r.PC == 0 }

// codeMask is the word of NT_ARM_PAC_MASK that is about addresses of code.
const codeMask = 1

func word(set []byte, i int) uint64 {
	if 8*i+8 > len(set) {
		return 0
	}
	return binary.LittleEndian.Uint64(set[8*i:])
}

// A machine is what is known of an architecture's registers.
type machine struct {
	arch          *unwind.Arch
	words         []int // of the regset NT_PRSTATUS that hold General
	pc            int   // word of it
	threadPointer int   // word of it; -1: in the regset NT_ARM_TLS

	// V8's registers, by their numbers in DWARF.
	callee   int    // the function that is being called
	root     int    // the isolate's roots
	rootBias uint64 // distance of the roots from the isolate

	maxPrologue uint64 // bytes of V8's code that build a frame
}

var machines = map[elf.Machine]machine{
	elf.EM_X86_64: { // struct user_regs_struct
		arch: unwind.ArchOf(elf.EM_X86_64), words: []int{10, 12, 11, 5, 13, 14, 4, 19, 9, 8, 7, 6, 3, 2, 1, 0},
		pc: 16, threadPointer: 21, // fs_base
		callee: 5, root: 13, rootBias: 0x80, maxPrologue: 64, // rdi, r13
	},
	elf.EM_AARCH64: { // struct user_pt_regs: x0 to x30, the stack pointer, the pc
		arch: unwind.ArchOf(elf.EM_AARCH64), words: []int{
			0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31,
		},
		pc: 32, threadPointer: -1,
		callee: 1, root: 26, rootBias: 0x100, maxPrologue: 160, // x1, x26
	},
}
