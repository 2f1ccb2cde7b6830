package libuv

import (
	"testing"

	"golang.org/x/arch/x86/x86asm"
)

// TestInlinedCompletionIsFound has uv__work_done from several builds; the function that
// a job's completion calls is at 0x10000, where the code itself begins.
func TestInlinedCompletionIsFound(t *testing.T) {
	const done = "lea start(%rip), %r12; "
	for name, test := range map[string]struct {
		code             string
		want             Completion
		found, mentioned bool
	}{
		"by its link": {
			done + "mov -16(%rax), %rdx; cmp %r12, %rdx; je 1f; call *%rdx; 1: mov -48(%rax), %rcx; test %edx, %edx; je 1b; ret",
			Completion{24, number64(x86asm.RAX), 24},
			true, true,
		},
		"status between":         {done + "mov -16(%rax), %rdx; cmp %r13, -24(%rax); cmovne %ebp, %esi; cmp %r12, %rdx; je 1f; 1: push %rbx", Completion{23, number64(x86asm.RAX), 24}, true, true},
		"by its own address":     {done + "mov 8(%rbx), %rax; cmp %rax, %r12; jne 1f; push %rdi; 1: ret", Completion{16, number64(x86asm.RBX), 0}, true, true},
		"in memory":              {done + "cmp %r12, 8(%rbx); je 1f; ret; 1: push %rdi", Completion{14, number64(x86asm.RBX), 0}, true, true},
		"no place that is cheap": {done + "cmp %r12, 8(%rbx); je 1f; ret; 1: mov 16(%rbx), %rbx; ret", Completion{14, number64(x86asm.RBX), 0}, true, true},
		"status overwritten":     {done + "cmp %r12, 8(%rbx); je 1f; ret; 1: xor %esi, %esi; push %rdi", Completion{14, number64(x86asm.RBX), 0}, true, true},
		"another field":          {done + "cmp %r12, 64(%rbx); je 1f; ret; 1: push %rdi", Completion{}, false, true},
		"another function":       {"lea 9(%rip), %r12; cmp %r12, 8(%rbx); je 1f; 1: push %rdi", Completion{}, false, false},
		"base overwritten":       {done + "mov -16(%rax), %rdx; mov %rbx, %rax; cmp %r12, %rdx; je 1f; 1: push %rdi", Completion{}, false, true},
		"call between":           {done + "mov -16(%rax), %rdx; call 0; cmp %r12, %rdx; je 1f; 1: push %rdi", Completion{}, false, true},
		"not compared":           {done + "mov %r12, 8(%rbx); ret", Completion{}, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			got, found, mentioned := FindCompletion(assemble(t, "start: "+test.code), start, start)
			if found != test.found || mentioned != test.mentioned || found && got != test.want {
				t.Errorf("completion = %+v, %v, %v, want %+v, %v, %v", got, found, mentioned, test.want, test.found, test.mentioned)
			}
		})
	}
}
