/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * The mixed stack of the current thread: kernel, native and JavaScript frames in one, leaf first,
 * each JavaScript function's name read and sent at this moment.
 *
 * The pc decides whether a frame is V8's. V8's frames and node's are chained by frame pointers;
 * other native code is unwound with its file's unwind tables, if it has any. Where the chain
 * breaks, unwinding resumes at V8's newest exit frame, and the gap is marked.
 */
#ifndef USTACK_STACK_H
#define USTACK_STACK_H

#include "unwind.h"
#include "v8.h"

enum { DONE = 1, GO_ON = 0 };

/* What a stack is taken with. */
enum {
	WITH_KERNEL = 1, /* the kernel's frames */
	AT_ENTRY = 2,    /* the innermost function is about to build its frame */
};

#define MAX_WALKS 4 /* on one CPU at a time: one may preempt another (busy.h) */
#define MAX_RUN 16  /* frames at a time; the verifier accepts no more */
#define MAX_SLOT 48 /* bytes below the frame pointer that are read */

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, MAX_WALKS);
	__type(key, u32);
	__type(value, struct walk);
} walks SEC(".maps");

/* Records whether the current native code is an add-on's; code that user space has not described
 * yet is assumed to be an add-on that was just loaded.
 */
static __always_inline bool note_addon(struct walk *w)
{
	if (w->code == CODE_UNKNOWN)
		w->stack.flags |= STACK_NEW_CODE | STACK_ADDON;
	else if (w->recent[CODE_NATIVE].end & RANGE_ADDON)
		w->stack.flags |= STACK_ADDON;
	return w->stack.flags & STACK_ADDON;
}

/* Pushes the current native code. */
static __always_inline void push_native(struct walk *w)
{
	push(w, frame_of(FRAME_NATIVE, (w->pc & PC_MASK) | (w->returned ? RETURN_ADDRESS : 0)));
}

/* Moves to where a call returns to. The call may be the last of the code it is in. */
static __always_inline void return_to(struct walk *w, u64 pc)
{
	w->pc = pc;
	w->returned = 1;
	w->code = code_at(w, pc - 1);
}

/* Continues from V8's newest exit frame, or ends the walk. */
static __always_inline int leap(struct walk *w)
{
	u64 fp = w->exit_fp;

	if (!fp || fp <= w->reached) {
		w->stack.flags |= STACK_BROKEN;
		return DONE;
	}
	w->exit_fp = 0;
	w->fp = fp;
	w->sp = 0;
	w->pc = 0;
	w->code = CODE_BUILTIN;
	return push(w, frame_of(FRAME_GAP, 0)) ? GO_ON : DONE;
}

/* Continues with the caller of the frame at fp. */
static __always_inline int climb(struct walk *w)
{
	u64 fp = w->fp, next;

	if (fp == w->exit_fp)
		w->exit_fp = 0;
	if (fp & 7)
		count_failure(FAILURE_FRAME_POINTER);
	if (fp & 7 || !fp || (w->exit_fp && fp > w->exit_fp))
		return leap(w);
	if (!see(w, fp, fp + 16)) {
		count_failure(FAILURE_STACK);
		return leap(w);
	}
	next = word(w, fp);
	w->pc = word(w, fp + 8);
	w->sp = fp + 16;
	if (!w->pc)
		return leap(w);
	return_to(w, w->pc);
	if (has_rows(w)) { /* the pointer may be scratch there, and is as it was */
		if (next == w->exit_fp)
			w->exit_fp = 0;
		w->reached = fp;
		w->fp = next;
		return GO_ON;
	}
	if (next <= fp || next - fp > MAX_FRAME_BYTES) {
		if (next)
			count_failure(FAILURE_FRAME_POINTER);
		/* the outermost frame, or the pointer was scratch below it */
		if (w->exit_fp > w->reached)
			return leap(w);
		if (w->code == CODE_NATIVE)
			note_addon(w);
		if (w->code != CODE_UNKNOWN)
			push_native(w);
		w->stack.flags |= STACK_BROKEN;
		return DONE;
	}
	if (w->exit_fp && next > w->exit_fp && fp < w->exit_fp)
		return leap(w); /* JavaScript frames were passed over: the pointer was scratch */
	if (next == w->exit_fp)
		w->exit_fp = 0;
	w->reached = fp;
	w->fp = next;
	return GO_ON;
}

/* Continues with the caller of the frame at fp, for want of a rule by which to find it. */
static __always_inline int climb_without_rule(struct walk *w)
{
	count_failure(FAILURE_UNWIND_RULE);
	return climb(w);
}

/* Continues with the caller of native code. */
static __always_inline int leave_native(struct walk *w)
{
	u64 sp = w->sp;

	w->code = code_at(w, w->pc - w->returned); /* others may have been asked for since */
	if (!sp || !has_rows(w))
		return climb(w);
	if (!find_row(w))
		return climb_without_rule(w);
	switch (w->row.base) {
	case UNWIND_END:
		return DONE;
	case UNWIND_SIGNAL:
		return leave_signal(w) ? GO_ON : climb_without_rule(w);
	case UNWIND_UNKNOWN:
		return climb_without_rule(w);
	}
	if (!leave_by_row(w))
		return climb_without_rule(w);
	w->reached = sp;
	if (w->exit_fp && w->fp == w->exit_fp)
		w->exit_fp = 0;
	if (w->exit_fp && w->sp > w->exit_fp && sp < w->exit_fp)
		return leap(w); /* JavaScript frames were passed over */
	return GO_ON;
}

/* A frame of V8's glue: the marker says its type. A C++ builtin's exit frame holds its function. */
static __always_inline void push_typed(struct walk *w, u64 type)
{
	const struct layout *l = &w->process.layout;

	if (type == l->frame_regexp) {
		if (push_regexp(w))
			return;
		count_failure(FAILURE_REGEXP);
	}
	push(w, frame_of(FRAME_TYPED, type << FRAME_PC_BITS | (w->pc & PC_MASK)));
	if (type == l->frame_wasm)
		note_wasm(w, word(w, w->fp + l->fp_function));
	if (type != l->frame_builtin_exit || !l->builtin_exit_function)
		return;
	if (read_user(&w->function, 8, w->fp + l->builtin_exit_function) && name_function(w))
		push_function(w, TIER_NONE);
}

/* The innermost function while its code is still building its frame: the callee register has it. */
static __always_inline bool push_callee(struct walk *w)
{
	w->function = w->callee;
	if (!is_heap_object(w->function) || !name_function(w) || !runs_at(w, w->pc) ||
	    w->pc - w->code_start > MAX_PROLOGUE)
		return false;
	push_function(w,
	    w->is_builtin               ? TIER_NONE :
	        w->code == CODE_BUILTIN ? TIER_INTERPRETED :
	                                  w->tier);
	return true;
}

/* Where the innermost code, which has no frame of its own, returns to: on top of the stack, or
 * under the frame pointer that was just saved.
 */
static __always_inline void find_return(struct walk *w)
{
	u64 words[2];

	w->pc = 0;
	w->code = CODE_BUILTIN;
	if (!read_user(words, sizeof(words), w->sp))
		return;
	for (u32 i = 0; i < 2; i++) {
		u32 code = code_at(w, words[i] - 1);

		if (code == CODE_JIT || code == CODE_BUILTIN) {
			w->pc = words[i];
			w->returned = 1;
			w->code = code;
			return;
		}
	}
}

/* The frame is not V8's after all. The innermost pc is still a fact, another one may be junk. */
static __always_inline int give_up(struct walk *w)
{
	if (!w->leaf)
		return leap(w);
	push(w, frame_of(w->code == CODE_UNKNOWN ? FRAME_NATIVE : FRAME_CODE, w->pc & PC_MASK));
	return climb(w);
}

/* Whether a function whose frame is there runs bytecode: it does if it has no code of its own. Code
 * that was made for it since it was called does not tell.
 */
#define is_interpreted(w) ((w)->code_size && (w)->tier == TIER_NONE)

/* A frame whose code is V8's or may be, at fp. */
static __always_inline int step_v8(struct walk *w)
{
	const struct layout *l = &w->process.layout;
	u64 marker, fp = w->fp;
	u32 tier, leaf = w->leaf;

	if (fp & 7)
		return give_up(w);
	if (!see(w, fp - 48, fp + 16)) {
		count_failure(FAILURE_STACK);
		return give_up(w);
	}
	if (leaf && w->code != CODE_UNKNOWN &&
	    w->sp > fp + l->fp_function) { /* the slots below sp are not its own yet */
		if (!push_callee(w))
			push(w, frame_of(FRAME_CODE, w->pc & PC_MASK));
		return climb(w);
	}
	marker = word(w, fp + l->fp_context);
	if (!(marker & 1)) {
		/* builtins that V8 has just mapped again are not described yet: their mark is enough */
		if (w->code == CODE_UNKNOWN &&
		    (leaf || w->exit_fp || !marker || marker >> 1 >= 256))
			return give_up(w);
		if (marker >> 1 < 256) {
			push_typed(w, marker >> 1);
		} else {
			count_failure(FAILURE_FRAME_TYPE);
			push(w, frame_of(FRAME_CODE, w->pc & PC_MASK));
		}
		return climb(w);
	}
	w->function = word(w, fp + l->fp_function);
	w->failure = FAILURE_FUNCTION;
	if (!is_heap_object(w->function) || !name_function(w)) {
		if (!l->frame_regexp && push_regexp(w))
			return climb(w);
		if (w->code == CODE_UNKNOWN)
			return give_up(w);
		count_failure(l->gc_count && !w->epoch ? FAILURE_COLLECTION : w->failure);
		push(w, frame_of(FRAME_LOST, w->pc & PC_MASK));
		return climb(w);
	}
	w->met_v8 = 1;
	if (leaf && w->code == CODE_JIT && !runs_at(w, w->pc)) {
		if (push_callee(w)) /* the frame at fp is the caller's still */
			find_return(w);
		w->function = word(w, fp + l->fp_function);
		if (!name_function(w))
			return climb(w);
	} else if (leaf && w->code == CODE_BUILTIN && !w->is_builtin) {
		push(w, frame_of(FRAME_CODE, w->pc & PC_MASK)); /* a handler, or a stub it calls */
		find_return(w);
		if (w->code == CODE_BUILTIN) {
			push_function(w, is_interpreted(w) ? TIER_INTERPRETED : TIER_NONE);
			return climb(w);
		}
	}
	tier = tier_at(w, w->pc, w->code);
	push_function(w, tier);
	return climb(w);
}

/* Native code that JavaScript called directly and that has no frame: the frame at fp is V8's. */
static __always_inline bool is_frameless(struct walk *w)
{
	const struct layout *l = &w->process.layout;
	u64 pc, fp = w->fp;
	u32 code;

	if (fp & 7 || fp <= w->sp || !read_user(&pc, 8, w->sp))
		return false;
	code = code_at(w, pc - 1);
	if (code != CODE_JIT && code != CODE_BUILTIN)
		return false;
	if (!see(w, fp - 48, fp + 16) || !(word(w, fp + l->fp_context) & 1))
		return false;
	w->function = word(w, fp + l->fp_function);
	if (!is_heap_object(w->function) || !name_function(w))
		return false;
	w->pc = pc;
	w->returned = 1;
	w->code = code;
	return true;
}

/* Passes cached functions, one after another, while nothing is in doubt. This is where most
 * samples spend their time: what changes is in registers.
 */
__noinline int run(struct walk *w)
{
	const struct layout *l;
	u64 fp, pc, hash, count;
	u32 code, passed = 0;

	if (!w)
		return 0;
	l = &w->process.layout;
	fp = w->fp;
	pc = w->pc;
	code = w->code;
	hash = w->stack.hash;
	count = w->stack.count;
	if (w->leaf && (code != CODE_JIT || w->sp > fp + l->fp_function))
		return 0; /* its frame is not built yet */
	for (; passed < MAX_RUN && count < MAX_FRAMES; passed++) {
		u64 next, caller, frame, function;
		struct known *known;

		if (code < CODE_BUILTIN || fp & 7 || !see(w, fp - MAX_SLOT, fp + 16) ||
		    !(word(w, fp + l->fp_context) & 1))
			break;
		function = word(w, fp + l->fp_function);
		known = recall(w, function);
		next = word(w, fp);
		caller = word(w, fp + 8);
		if (!known || known->epoch != w->epoch || !caller || next <= fp ||
		    next - fp > MAX_FRAME_BYTES)
			break;
		frame = known->named;
		if (code == CODE_JIT && pc - known->code_start >= known->code_size)
			break;
		if (frame & KNOWN_BUILTIN)
			frame &= ID_MASK;
		else if (code == CODE_BUILTIN)
			frame = (frame & ID_MASK) | (u64)builtin_tier(w, fp) << FRAME_ID_BITS;
		frame |= (u64)FRAME_JS << FRAME_KIND_SHIFT;
		mask_index(count, MAX_FRAMES - 1);
		w->stack.frames[count++] = frame;
		hash = mix(hash, frame);
		w->reached = fp;
		fp = next;
		pc = caller;
		code = code_at(w, pc - 1);
	}
	if (!passed)
		return 0;
	w->leaf = 0;
	w->sp = 0;
	w->fp = fp;
	w->pc = pc;
	w->returned = 1;
	w->code = code;
	w->stack.hash = hash;
	w->stack.count = count;
	return passed == MAX_RUN;
}

/* Unwinds one frame, and the cached ones after it; DONE when the walk has ended. */
__noinline int step(struct walk *w)
{
	if (!w)
		return DONE;
	if (w->settled && !w->exit_fp && run(w))
		return GO_ON;
	if (w->stack.count >= MAX_FRAMES) {
		w->stack.flags |= STACK_TRUNCATED;
		return DONE;
	}
	if (!w->process.has_v8 || w->code == CODE_NATIVE) {
		u32 leaf = w->leaf;

		note_addon(w);
		push_native(w);
		if (leaf && w->process.has_v8 && is_frameless(w))
			return GO_ON;
		return leave_native(w);
	}
	if (w->code == CODE_UNKNOWN)
		w->stack.flags |= STACK_NEW_CODE;
	return step_v8(w);
}

static __always_inline void push_kernel(struct walk *w, void *ctx)
{
	u64 *frames = w->stack.frames;
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
	w->root = v8_root(regs);
	w->callee = v8_function(regs);
	w->epoch = 0;
	w->settled = 0;
	w->met_v8 = 0;
	w->last_script = 0;
	w->exit_fp = 0;
	w->reached = w->sp;
	w->leaf = 1;
	w->returned = 0;
	w->window_bytes = 0;
}

/* Goes from a function's entry to its caller. */
static __always_inline void leave_entry(struct walk *w, struct pt_regs *regs)
{
	push_native(w);
	w->pc = return_address(regs);
	w->returned = 1;
	w->sp = entry_sp(regs);
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

static __always_inline bool send_stack(struct walk *w, bool urgent)
{
	u64 bytes = __builtin_offsetof(struct stack, frames) + 8 * (u64)w->stack.count;

	if (bytes > sizeof(w->stack))
		return false; /* cannot happen; tells the verifier so */
	bpf_get_current_comm(w->stack.comm, sizeof(w->stack.comm));
	return send(&w->stack, bytes, urgent);
}

#endif
