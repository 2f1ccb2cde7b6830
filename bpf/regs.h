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

static __always_inline u64 thread_pointer(struct task_struct *task)
{
	return task->thread.fsbase;
}

#elif defined(__TARGET_ARCH_arm64)

/* arch/arm64/include/asm/ptrace.h */
struct pt_regs {
	u64 regs[31];
	u64 sp, pc, pstate;
};

#define user_pc(r) ((r)->pc)
#define user_sp(r) ((r)->sp)
#define user_fp(r) ((r)->regs[29])
#define v8_root(r) ((r)->regs[26])
#define v8_function(r) ((r)->regs[1])

static __always_inline u64 thread_pointer(struct task_struct *task)
{
	return task->thread.uw.tp_value;
}

#else
#error "registers of this architecture are not known"
#endif

/* The user-mode registers of the current thread, also when it is in the kernel. */
#define user_regs(task) ((struct pt_regs *)bpf_task_pt_regs(task))

#endif
