package unwind

// Registers by their DWARF numbers (DWARF for the Arm 64-bit Architecture, table 4.1):
// x0 to x30, sp. Tables of this architecture are not read yet.
const (
	RegisterCount = 32

	FP = 29 // x29
	SP = 31

	pcNumber = 32 // pc, which expressions may use: not among the RegisterCount
)

// calleeSaved are the registers that a function preserves unless its table says
// otherwise: x19 to x29.
const calleeSaved = 1<<19 | 1<<20 | 1<<21 | 1<<22 | 1<<23 | 1<<24 | 1<<25 | 1<<26 | 1<<27 | 1<<28 | 1<<FP

// Where a signal handler returns to, the stack pointer points to a siginfo of 128 bytes,
// before a ucontext with the registers of the interrupted code
// (arch/arm64/include/uapi/asm/sigcontext.h).
const (
	contextRegisters = 312 // bytes before the words that hold them
	contextPC        = 32  // index of the word that holds the pc
)

// contextWords are the indexes of the words that hold registers, in DWARF's order.
var contextWords = [RegisterCount]uint64{
	0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15,
	16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31,
}
