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
