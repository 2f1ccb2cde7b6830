/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * The mixed stack of the current thread: kernel, native and JavaScript frames in one, leaf first,
 * each JavaScript function's name read and sent at this moment.
 *
 * The pc decides whether a frame is V8's (v8_unwind.h) or native (unwind.h). Where the chain of
 * frames breaks, unwinding resumes at V8's newest exit frame, and the gap is marked.
 */
#ifndef USTACK_STACK_H
#define USTACK_STACK_H

#include "v8_unwind.h"

/* What a stack is taken with. */
enum {
	WITH_KERNEL = 1, /* the kernel's frames */
	AT_ENTRY = 2,    /* the innermost function is about to build its frame */
};

#define MAX_WALKS 4 /* on one CPU at a time: one may preempt another (busy.h) */

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, MAX_WALKS);
	__type(key, u32);
	__type(value, struct walk);
} walks SEC(".maps");

/* Unwinds one frame, and the cached ones after it; DONE when the walk has ended. */
__noinline int step(struct walk *w)
{
	if (!w)
		return DONE;
	if (w->settled && !w->exit_fp && run(w))
		return CONTINUE;
	if (run_native(w))
		return CONTINUE;
	if (w->stack.count >= MAX_FRAMES) {
		w->stack.flags |= STACK_TRUNCATED;
		return DONE;
	}
	if (!w->process.has_v8 || w->code == CODE_NATIVE) {
		u32 leaf = w->leaf;

		note_addon(w);
		push_native(w);
		if (leaf && w->process.has_v8 && !has_rows(w) && is_frameless(w))
			return CONTINUE;
		return leave_native(w);
	}
	if (w->code == CODE_UNKNOWN)
		w->stack.flags |= STACK_NEW_CODE;
	return step_v8(w);
}

static __always_inline void push_kernel(struct walk *w, void *ctx)
{
	u64 *frames = (u64 *)w->raw;
	long bytes = bpf_get_stack(ctx, frames, MAX_KERNEL_FRAMES * 8, 0);
	u32 frames_count = bytes > 0 ? (u32)bytes / 8 : 0;

	for (u32 i = 0; i < MAX_KERNEL_FRAMES; i++) {
		if (i >= frames_count)
			break;
		push(w, frames[i]);
	}
	w->stack.kernel_count = w->stack.count;
}

/* The CPU's walk of that number, with the description of the process in it; null if it has none.
 * Programs that can be preempted take one with take_walk().
 */
static __always_inline struct walk *walk_of(u32 tgid, u32 number)
{
	struct process *process;
	struct walk *w;
	u64 version;

	if (!tgid) /* idle */
		return 0;
	w = bpf_map_lookup_elem(&walks, &number);
	if (!w)
		return 0; /* cannot happen; tells the verifier so */
	version = (u64)execs << 32 | described;
	if (w->tgid == tgid && w->version == version)
		return w;
	process = bpf_map_lookup_elem(&processes, &tgid);
	if (!process)
		return 0;
	if (w->process.serial != process->serial) {
		bpf_probe_read_kernel(&w->process, sizeof(w->process), process);
		__builtin_memset(w->recent, 0, sizeof(w->recent));
		__builtin_memset(w->rows, 0, sizeof(w->rows));
	}
	w->tgid = tgid;
	w->version = version;
	return w;
}

/* Prepares a walk up the current thread's stack. ids are current_ids(). */
static __always_inline void begin_walk(struct walk *w, struct pt_regs *regs, u64 ids)
{
	w->owner = (u64)w->process.generation << 32 | (u32)ids;
	w->stack.event = EVENT_STACK;
	w->stack.flags = 0;
	w->stack.ids = ids;
	w->stack.owner = w->owner;
	w->stack.hash = w->owner;
	w->stack.count = 0;
	w->stack.kernel_count = 0;
	w->pc = user_pc(regs);
	w->sp = user_sp(regs);
	w->fp = user_fp(regs);
	w->link = code_address(link_register(regs));
	w->root = v8_root(regs);
	w->callee = v8_function(regs);
	w->handler_pc = 0;
	w->bytecodes = v8_bytecodes(regs);
	w->bytecode_offset = v8_bytecode_offset(regs);
	w->handlers = v8_handlers(regs);
	w->epoch = 0;
	w->settled = 0;
	w->fresh = 0;
	w->met_v8 = 0;
	w->last_script = 0;
	w->exit_fp = 0;
	w->reached = w->sp;
	w->leaf = 1;
	w->returned = 0;
	w->interrupted = 0;
	w->window_bytes = 0;
}

/* Goes from a function's entry to its caller. */
static __always_inline void leave_entry(struct walk *w, struct pt_regs *regs)
{
	push_native(w);
	w->sp = entry_sp(regs);
	return_to(w, return_address(regs), w->sp - 8);
}

/* Captures the current thread's stack into its CPU's walk. */
static __always_inline void capture(struct walk *w, void *ctx, u64 ids, u32 with)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task_btf();

	struct pt_regs *regs = user_regs(task);

	begin_walk(w, regs, ids);
	if (with & WITH_KERNEL)
		push_kernel(w, ctx);
	w->leaf = 1;
	if (with & AT_ENTRY)
		leave_entry(w, regs);
	w->code = code_at(w, w->pc - w->returned);
	if (w->process.has_v8)
		begin_v8(w, task);
	for (u32 i = 0; i < MAX_FRAMES + 1; i++) {
		if (step(w))
			break;
	}
	end_v8(w);
	if (w->stack.flags & STACK_TRUNCATED)
		count_failure(FAILURE_TOO_DEEP);
	w->stack.hash = finish(w->stack.hash ^ (w->stack.flags & STACK_TRUNCATED));
}

/* The bytes of a stack that are in use. */
static __always_inline u64 stack_bytes(const struct stack *stack)
{
	return __builtin_offsetof(struct stack, frames) +
	    sizeof(stack->frames[0]) * (u64)stack->count;
}

/* Sends the stack. User space is woken if it is urgent, or to read what the stack's frames refer to. */
static __always_inline bool send_stack(struct walk *w, bool urgent)
{
	u64 bytes = stack_bytes(&w->stack);

	if (bytes > sizeof(w->stack))
		return false; /* cannot happen; tells the verifier so */
	bpf_get_current_comm(w->stack.comm, sizeof(w->stack.comm));
	return send(&w->stack, bytes, urgent || w->fresh);
}

#endif
