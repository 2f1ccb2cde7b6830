package unwind

// Registers by their DWARF numbers (System V ABI for x86-64, figure 3.36): rax,
// rdx, rcx, rbx, rsi, rdi, rbp, rsp, r8 to r15.
const (
	RegisterCount = 16

	FP = 6 // rbp
	SP = 7

	pcNumber = 16 // rip, which expressions may use: not among the RegisterCount
)

// calleeSaved are the registers that a function preserves unless its table says
// otherwise: rbx, rbp, r12 to r15.
const calleeSaved = 1<<3 | 1<<FP | 1<<12 | 1<<13 | 1<<14 | 1<<15

// Where a signal handler returns to, the stack pointer points to a ucontext with the
// registers of the interrupted code (arch/x86/include/uapi/asm/sigcontext.h).
const (
	contextRegisters = 40 // bytes before the words that hold them
	contextPC        = 16 // index of the word that holds the pc
)

// contextWords are the indexes of the words that hold registers, in DWARF's order.
var contextWords = [RegisterCount]uint64{13, 12, 14, 11, 9, 8, 10, 15, 0, 1, 2, 3, 4, 5, 6, 7}
