package stack

import (
	"debug/elf"

	"ustack/symbolize/unwind"
)

// Machine is the only one whose stacks are unwound.
const Machine = elf.EM_X86_64

// Words of struct user_regs_struct: the general registers in DWARF's order, then others.
var registerWords = [unwind.RegisterCount]int{10, 12, 11, 5, 13, 14, 4, 19, 9, 8, 7, 6, 3, 2, 1, 0}

const (
	wordPC            = 16
	wordThreadPointer = 21 // fs_base
)

// V8's registers, by their numbers in DWARF.
const (
	calleeRegister = 5    // rdi: the function that is being called
	rootRegister   = 13   // r13: the isolate's roots
	rootBias       = 0x80 // distance of the roots from the isolate
)
