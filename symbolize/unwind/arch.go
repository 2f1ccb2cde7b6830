package unwind

import "debug/elf"

// RegisterCount is how many registers a Cursor has room for.
const RegisterCount = 32

// An Arch is what unwinding has to know of an architecture. Registers have their DWARF
// numbers.
type Arch struct {
	Registers uint64 // those below are followed
	FP, SP    uint64
	Link      uint64 // has the return address of a call; NoLink if calls push it

	pc    uint64 // by which expressions refer to the pc: not among the registers
	saved uint32 // registers that a function preserves unless its table says otherwise

	// Where a signal handler returns to, the stack pointer points to the registers of the
	// interrupted code.
	context      uint64 // bytes before the words that hold them
	contextPC    uint64 // index of the word that holds the pc
	contextWords []uint64
}

// NoLink is the Link of an architecture whose calls push the return address.
const NoLink = RegisterCount

// HasLink reports whether calls leave the return address in a register.
func (a *Arch) HasLink() bool { return a.Link != NoLink }

// All returns a Cursor's Known if all registers are known.
func (a *Arch) All() uint32 { return 1<<a.Registers - 1 }

// ArchOf returns what is known of an architecture; nil if that is nothing.
func ArchOf(machine elf.Machine) *Arch { return arches[machine] }

// Registers of x86-64.
const (
	rbp = 6
	rsp = 7
	rip = 16
)

// x86Arch is the architecture whose rows are also derived from instructions.
var x86Arch = ArchOf(elf.EM_X86_64)

var arches = map[elf.Machine]*Arch{
	// System V ABI for x86-64, figure 3.36: rax, rdx, rcx, rbx, rsi, rdi, rbp, rsp, r8 to r15.
	// A signal's handler returns to a ucontext (arch/x86/include/uapi/asm/sigcontext.h).
	elf.EM_X86_64: {
		Registers: 16, FP: rbp, SP: rsp, Link: NoLink,
		pc: rip, saved: 1<<3 | 1<<rbp | 1<<12 | 1<<13 | 1<<14 | 1<<15,
		context: 40, contextPC: 16, contextWords: []uint64{13, 12, 14, 11, 9, 8, 10, 15, 0, 1, 2, 3, 4, 5, 6, 7},
	},
	// DWARF for the Arm 64-bit Architecture, table 4.1: x0 to x30, sp. A signal's handler
	// returns to a siginfo of 128 bytes, before a ucontext (arch/arm64/include/uapi/asm/sigcontext.h).
	elf.EM_AARCH64: {
		Registers: 32, FP: 29, SP: 31, Link: 30,
		pc: 32, saved: 0x3ff80000, // x19 to x29
		context: 312, contextPC: 32, contextWords: upTo(32),
	},
}

func upTo(n uint64) []uint64 {
	all := make([]uint64, n)
	for i := range all {
		all[i] = uint64(i)
	}
	return all
}
