/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * Native frames: from a function to its caller.
 *
 * Frame pointers chain the frames of V8 and node. For other native code, user space turns the unwind
 * tables of its files into rows, which describe the registers of x86-64 only.
 */
#ifndef USTACK_UNWIND_H
#define USTACK_UNWIND_H

#include "walk.h"

enum { DONE = 1, CONTINUE = 0 };

#define MAX_ROWS (1 << 19) /* of all files: Debian's nodejs and its 25 libraries have half of it */

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_ROWS);
	__type(key, u32);
	__type(value, struct unwind_row);
} unwind_rows SEC(".maps");

/* Whether the current code is of a file with rows. */
#define has_rows(w) ((w)->code == CODE_NATIVE && (w)->recent[CODE_NATIVE].row_count)

/* Finds the row of the native code at pc: false if its file has none for it. */
__noinline int find_row(struct walk *w)
{
	const struct range *r;
	const struct unwind_row *row;
	u64 address;
	u32 at = 0, key;

	if (!w)
		return false;
	r = &w->recent[CODE_NATIVE];
	address = w->pc - w->returned - r->bias;
	for (u32 step = MAX_ROWS / 2; step; step >>= 1) {
		if ((at | step) >= r->row_count)
			continue;
		key = r->rows + (at | step);
		row = bpf_map_lookup_elem(&unwind_rows, &key);
		if (row && row->start <= address)
			at |= step;
	}
	key = r->rows + at;
	row = bpf_map_lookup_elem(&unwind_rows, &key);
	if (!row || row->start > address)
		return false;
	w->row = *row;
	return true;
}

#define CONTEXT_REGISTERS 40 /* include/uapi/asm/ucontext.h: of x86-64's gregs in a ucontext */

/* What of a ucontext is needed (include/uapi/asm/sigcontext.h). */
struct interrupted {
	u64 fp, bx, dx, ax, cx, sp, pc;
};

/* Moves to what a signal has interrupted: sp is at the ucontext. */
static __always_inline bool leave_signal(struct walk *w)
{
	struct interrupted at;

	if (!read_user(&at, sizeof(at), w->sp + CONTEXT_REGISTERS + 10 * 8))
		return false;
	w->fp = at.fp;
	w->sp = at.sp;
	w->pc = at.pc;
	w->returned = 0;
	w->code = code_at(w, at.pc);
	return true;
}

/* Moves to the caller by the row that was found. */
static __always_inline bool leave_by_row(struct walk *w)
{
	u64 frame, pc, fp = w->fp;

	frame = (w->row.base == UNWIND_FP ? fp : w->sp) + 8 * (u64)w->row.distance;
	if (frame & 7 || frame <= w->sp || frame - w->sp > MAX_FRAME_BYTES)
		return false;
	if (!read_user(&pc, sizeof(pc), frame - 8) || !pc)
		return false;
	if (w->row.fp && !read_user(&fp, sizeof(fp), frame - 8 * (u64)w->row.fp))
		return false;
	if (code_at(w, pc - 1) == CODE_UNKNOWN)
		return false;
	w->fp = fp;
	w->sp = frame;
	w->pc = pc;
	w->returned = 1;
	w->code = code_at(w, pc - 1);
	return true;
}

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
	return push(w, frame_of(FRAME_GAP, 0)) ? CONTINUE : DONE;
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
	if (has_rows(w)) { /* the code may keep other data in the frame pointer */
		if (next == w->exit_fp)
			w->exit_fp = 0;
		w->reached = fp;
		w->fp = next;
		return CONTINUE;
	}
	if (next <= fp || next - fp > MAX_FRAME_BYTES) {
		if (next)
			count_failure(FAILURE_FRAME_POINTER);
		/* the outermost frame, or the frame pointer held other data */
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
		return leap(w); /* JavaScript frames were skipped */
	if (next == w->exit_fp)
		w->exit_fp = 0;
	w->reached = fp;
	w->fp = next;
	return CONTINUE;
}

/* Continues with the caller of the frame at fp, which no unwind rule describes. */
static __always_inline int climb_without_rule(struct walk *w)
{
	count_failure(FAILURE_UNWIND_RULE);
	return climb(w);
}

/* Continues with the caller of native code. */
static __always_inline int leave_native(struct walk *w)
{
	u64 sp = w->sp;

	w->code = code_at(w, w->pc - w->returned); /* the last lookup may have been of another pc */
	if (!sp || !has_rows(w))
		return climb(w);
	if (!find_row(w))
		return climb_without_rule(w);
	switch (w->row.base) {
	case UNWIND_END:
		return DONE;
	case UNWIND_SIGNAL:
		return leave_signal(w) ? CONTINUE : climb_without_rule(w);
	case UNWIND_UNKNOWN:
		return climb_without_rule(w);
	}
	if (!leave_by_row(w))
		return climb_without_rule(w);
	w->reached = sp;
	if (w->exit_fp && w->fp == w->exit_fp)
		w->exit_fp = 0;
	if (w->exit_fp && w->sp > w->exit_fp && sp < w->exit_fp)
		return leap(w); /* JavaScript frames were skipped */
	return CONTINUE;
}

#endif
