/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * Registers of the interrupted user-mode code: the one file that knows the architecture.
 */
#ifndef USTACK_REGS_H
#define USTACK_REGS_H

#include "kernel.h"

#if defined(__TARGET_ARCH_x86)

/* arch/x86/include/asm/ptrace.h: laid out by the entry code, the same since 2.6 */
struct pt_regs {
	unsigned long r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di;
	unsigned long orig_ax, ip, cs, flags, sp, ss;
};

#define user_pc(regs) ((regs)->ip)
#define user_sp(regs) ((regs)->sp)
#define user_fp(regs) ((regs)->bp)
#define v8_root(regs) ((regs)->r13)    /* kRootRegister: Isolate + 0x80 while in V8's code */
#define v8_function(regs) ((regs)->di) /* kJSFunctionRegister: the callee at a function's entry */
#define v8_bytecode_offset(regs) ((regs)->r9) /* kInterpreterBytecodeOffsetRegister, in a handler */
#define v8_bytecodes(regs) ((regs)->r12)      /* kInterpreterBytecodeArrayRegister */
#define v8_handlers(regs) ((regs)->r15)       /* kInterpreterDispatchTableRegister */
#define ROOT_BIAS 0x80  /* kRootRegisterBias: the root register less the isolate */
#define MAX_PROLOGUE 64 /* bytes of V8's code that build a frame */
#define BUILDER_BUILT 4 /* bytes of the builtin that builds a frame: push %rbp; mov %rsp,%rbp */

/* A call pushes its return address: the frame begins above the two words that fp points to. */
#define HAS_LINK 0
#define link_register(regs) 0
#define sp_above(fp) ((fp) + 16)
#define code_address(word) (word)
#define is_awaited(stack, slot) ((stack) == (slot))

static __always_inline u64 thread_pointer(struct task_struct *task)
{
	return task->thread.fsbase;
}

/* At a function's entry: what it was called with, and where it returns to. */
#define argument0(regs) ((regs)->di)
#define argument1(regs) ((regs)->si)
#define argument2(regs) ((regs)->dx)
#define argument3(regs) ((regs)->cx)
#define argument5(regs) ((regs)->r9)

static __always_inline u64 argument6(struct pt_regs *regs)
{
	u64 value;

	return bpf_probe_read_user(&value, 8, (void *)(regs->sp + 8)) ? 0 : value;
}

static __always_inline u64 return_address(struct pt_regs *regs)
{
	u64 value;

	return bpf_probe_read_user(&value, 8, (void *)regs->sp) ? 0 : value;
}

#define entry_sp(regs) ((regs)->sp + 8) /* as it will be when the function has returned */

static __always_inline void call_arguments(struct pt_regs *regs, u64 *to)
{
	to[0] = regs->di;
	to[1] = regs->si;
	to[2] = regs->dx;
	to[3] = regs->cx;
	to[4] = regs->r8;
	to[5] = regs->r9;
}

/* At a function's return. */
#define returned(regs) ((regs)->ax)

/* At a system call's return, when its arguments are still there. */
#define syscall_number(regs) ((regs)->orig_ax)
#define CALL_READ 0 /* arch/x86/entry/syscalls/syscall_64.tbl */
#define CALL_WRITE 1
#define CALL_WRITEV 20

static __always_inline void syscall_arguments(struct pt_regs *regs, u64 *to)
{
	call_arguments(regs, to);
	to[3] = regs->r10;
}

/* Where struct pt_regs has the register of that DWARF number, in words; four bits for each number. */
#define REGISTER_PLACES 0x0123678904ed5bcaull
#define RESTORED_REGISTERS 0xf0c8 /* by DWARF numbers: rbx, rbp, rsp, r12 to r15 */
#define REGISTER_R9 9

/* Where a signal's handler returns to, sp points to a ucontext (include/uapi/asm/ucontext.h): what of
 * it is needed (include/uapi/asm/sigcontext.h), and where.
 */
struct interrupted {
	u64 fp, bx, dx, ax, cx, sp, pc;
};

#define INTERRUPTED_AT (40 + 10 * 8)
#define interrupted_link(at) 0

/* A register by its number in instructions. */
static __always_inline u64 register_of(struct pt_regs *regs, u64 number)
{
	u64 all[16] = { regs->ax, regs->cx, regs->dx, regs->bx, regs->sp, regs->bp, regs->si,
		regs->di, regs->r8, regs->r9, regs->r10, regs->r11, regs->r12, regs->r13, regs->r14,
		regs->r15 };

	mask_index(number, 15);
	return all[number];
}

/* include/uapi/linux/bpf_perf_event.h: struct bpf_perf_event_data */
struct perf_event_data {
	struct pt_regs registers;
	u64 sample_period; /* events that the interrupt stands for */
};

#elif defined(__TARGET_ARCH_arm64)

/* arch/arm64/include/asm/ptrace.h */
struct pt_regs {
	u64 regs[31];
	u64 sp, pc, pstate;
	u64 orig_x0;
	s32 syscallno;
};

#define user_pc(r) ((r)->pc)
#define user_sp(r) ((r)->sp)
#define user_fp(r) ((r)->regs[29])
#define v8_root(r) ((r)->regs[26])
#define v8_function(r) ((r)->regs[1])
#define v8_bytecode_offset(r) ((r)->regs[19])
#define v8_bytecodes(r) ((r)->regs[20])
#define v8_handlers(r) ((r)->regs[21])
#define ROOT_BIAS 0x100
#define MAX_PROLOGUE 160
#define BUILDER_BUILT 0 /* baseline code saves fp and the return address itself */

/* A call leaves its return address in a register, and fp may be anywhere in a frame. */
#define HAS_LINK 1
#define link_register(r) ((r)->regs[30])
#define sp_above(fp) 0

/* Bits of a return address: those above may be a signature (pointer authentication). */
const volatile u64 address_mask = (1ull << 48) - 1;
#define code_address(word) ((word)&address_mask)

/* Whether a probe awaits the return of the call whose return address is in slot, or was until it was
 * saved there: the kernel has noted the stack pointer at the call, newest call first.
 */
#define is_awaited(stack, slot) ((stack) > (slot))

static __always_inline u64 thread_pointer(struct task_struct *task)
{
	return task->thread.uw.tp_value;
}

#define argument0(r) ((r)->regs[0])
#define argument1(r) ((r)->regs[1])
#define argument2(r) ((r)->regs[2])
#define argument3(r) ((r)->regs[3])
#define argument5(r) ((r)->regs[5])
#define argument6(r) ((r)->regs[6])
#define return_address(r) ((r)->regs[30])
#define returned(r) ((r)->regs[0])
#define entry_sp(r) ((r)->sp)
#define syscall_number(r) ((u64)(u32)(r)->syscallno)
#define CALL_READ 63 /* include/uapi/asm-generic/unistd.h */
#define CALL_WRITE 64
#define CALL_WRITEV 66

static __always_inline void call_arguments(struct pt_regs *r, u64 *to)
{
	for (u32 i = 0; i < 6; i++)
		to[i] = r->regs[i];
}

static __always_inline void syscall_arguments(struct pt_regs *r, u64 *to)
{
	call_arguments(r, to);
	to[0] = r->orig_x0; /* the result has its place */
}
#define REGISTER_PLACES 0xfedcba9876543210ull
#define RESTORED_REGISTERS 0
#define REGISTER_R9 9

/* A register that functions preserve, x19 to x28, by its number. */
static __always_inline u64 register_of(struct pt_regs *r, u64 number)
{
	u64 all[16] = { r->regs[19], r->regs[20], r->regs[21], r->regs[22], r->regs[23],
		r->regs[24], r->regs[25], r->regs[26], r->regs[27], r->regs[28] };

	number -= 19;
	mask_index(number, 15);
	return all[number];
}

/* The ucontext is above a siginfo (arch/arm64/kernel/signal.c: struct rt_sigframe). */
struct interrupted {
	u64 fp, link, sp, pc;
};

#define INTERRUPTED_AT (128 + 176 + 8 + 29 * 8)
#define interrupted_link(at) code_address((at).link)

/* include/uapi/linux/bpf_perf_event.h, arch/arm64/include/uapi/asm/bpf_perf_event.h */
struct perf_event_data {
	u64 registers[34];
	u64 sample_period; /* events that the interrupt stands for */
};

#else
#error "registers of this architecture are not known"
#endif

/* The user-mode registers of the current thread, also when it is in the kernel. */
#define user_regs(task) ((struct pt_regs *)bpf_task_pt_regs(task))

#endif
