package libuv

import (
	"testing"

	"golang.org/x/arch/x86/x86asm"
)

func TestEmulatedInstructions(t *testing.T) {
	for code, want := range map[string]bool{
		"push %rbx": true, "push %r12": true, "nop": true, "call 0": true, "jmp 0": true, "je 0": true,
		"push $5": false, "push (%rax)": false, "nopl (%rax)": false, "call *%rax": false, "jmp *(%rax)": false,
		"endbr64": false, "mov %rsp, %rbp": false, "ret": false,
	} {
		for _, inst := range instructions(assemble(t, code)) {
			if got := isEmulated(inst); got != want {
				t.Errorf("%s: emulated = %t, want %t", code, got, want)
			}
			break
		}
	}
}

func TestInstructionsEndAtWhatIsNone(t *testing.T) {
	code := append(assemble(t, "endbr64; push %rbx; call 0"), 0x06, 0x90) // 06 is invalid in 64-bit mode
	var at []int
	for offset := range instructions(code) {
		at = append(at, offset)
	}
	if len(at) != 3 || at[0] != 0 || at[1] != 4 || at[2] != 5 {
		t.Errorf("instructions at %v, want 0, 4 and 5", at)
	}
}

func TestRegistersArePartsOfWholeOnes(t *testing.T) {
	for part, want := range map[x86asm.Reg]x86asm.Reg{
		x86asm.EAX: x86asm.RAX, x86asm.R15L: x86asm.R15, x86asm.AX: x86asm.RAX, x86asm.R8W: x86asm.R8,
		x86asm.AL: x86asm.RAX, x86asm.BL: x86asm.RBX, x86asm.AH: x86asm.RAX, x86asm.BH: x86asm.RBX,
		x86asm.SIB: x86asm.RSI, x86asm.R15B: x86asm.R15, x86asm.RDX: x86asm.RDX, x86asm.X3: x86asm.X3,
	} {
		if got := full(part); got != want {
			t.Errorf("full(%v) = %v, want %v", part, got, want)
		}
	}
	for number, r := range []x86asm.Reg{x86asm.RAX, x86asm.RCX, x86asm.RDX, x86asm.RBX, x86asm.RSP, x86asm.RBP, x86asm.RSI, x86asm.RDI, x86asm.R8} {
		if got := number64(r); got != number {
			t.Errorf("number of %v = %d, want %d", r, got, number)
		}
	}
}
