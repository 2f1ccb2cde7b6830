package stack

import (
	"debug/elf"

	"ustack/symbolize/unwind"
)

// Machine is the only one whose stacks are unwound: none yet.
const Machine = elf.EM_NONE

// Words of struct user_pt_regs: x0 to x30, the stack pointer, the pc.
var registerWords = [unwind.RegisterCount]int{
	0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31,
}

const (
	wordPC            = 32
	wordThreadPointer = -1 // in another regset
)

// V8's registers, by their numbers in DWARF.
const (
	calleeRegister = 1  // x1: the function that is being called
	rootRegister   = 26 // x26: the isolate's roots
	rootBias       = 0x80
)
