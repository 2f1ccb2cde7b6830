package stack

import (
	"encoding/binary"

	"ustack/symbolize/unwind"
)

// Registers are the registers of a thread.
type Registers struct {
	PC, SP, FP    uint64
	ThreadPointer uint64                       // address of the C library's data of the thread
	General       [unwind.RegisterCount]uint64 // by their numbers in DWARF
}

// ReadRegisters reads the general registers as the kernel has them in the regset
// NT_PRSTATUS. What general lacks is 0.
func ReadRegisters(general []byte) Registers {
	word := func(i int) uint64 {
		if i < 0 || 8*i+8 > len(general) {
			return 0
		}
		return binary.LittleEndian.Uint64(general[8*i:])
	}
	r := Registers{PC: word(wordPC), ThreadPointer: word(wordThreadPointer)}
	for i, w := range registerWords {
		r.General[i] = word(w)
	}
	r.SP, r.FP = r.General[unwind.SP], r.General[unwind.FP]
	return r
}

// ofKernel reports whether the thread is one that the kernel has made for io_uring in the
// process. Such a thread never leaves the kernel, which clears its stack pointer and its pc;
// its thread pointer is that of the thread for which it works.
func (r Registers) ofKernel() bool { return r.SP == 0 && r.PC == 0 }
