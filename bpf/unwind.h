/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * Native frames: from a function to its caller.
 *
 * Frame pointers chain the frames of V8 and node. For other native code, and for code in node that
 * has not built its frame yet or builds none, user space turns the unwind tables of its files into
 * rows, which describe the registers of x86-64 only.
 */
#ifndef USTACK_UNWIND_H
#define USTACK_UNWIND_H

#include "walk.h"

enum { DONE = 1, CONTINUE = 0 };

#define MAX_RUN 16         /* frames that are passed at a time; the verifier rejects more */
#define MAX_ROWS (1 << 22) /* of all files: ten releases of node have it, 26 a tenth */

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_ROWS);
	__uint(map_flags, BPF_F_MMAPABLE); /* user space fills it faster than by system calls */
	__type(key, u32);
	__type(value, struct unwind_row);
} unwind_rows SEC(".maps");

/* Whether the current code is of a file with rows. */
#define has_rows(w) ((w)->code == CODE_NATIVE && (w)->recent[CODE_NATIVE].row_count)

/* Whether rows are needed to unwind the current code. */
static __always_inline bool needs_rows(struct walk *w)
{
	return has_rows(w) && (!w->returned || !(w->recent[CODE_NATIVE].end & RANGE_FRAMED));
}

#define PUSHED 1 /* bytes of a prologue: push %rbp */
#define BUILT 4  /* and mov %rsp,%rbp */

/* Replaces a row that says several things by the one that it says of its code at offset. */
static __always_inline void choose_row(struct unwind_row *row, u64 address)
{
	u64 offset = address - row->start;

	if (row->base == UNWIND_STUB) {
		row->base = UNWIND_SP;
		row->distance += (address & 15) >= 11;
	}
	if (row->base != UNWIND_PROLOGUE)
		return;
	row->base = offset < BUILT ? UNWIND_SP : UNWIND_FP;
	row->distance = offset < PUSHED ? 1 : 2;
	row->fp = offset < PUSHED ? UNWIND_FP_KEPT : 2;
}

/* The row of the native code at pc, in the rows of its file; the last of those that begin before it.
 * False if no row begins before it.
 */
static __always_inline bool search_rows(struct walk *w, u64 address)
{
	const struct range *r = &w->recent[CODE_NATIVE];
	const struct unwind_row *row;
	u32 at = 0, key;

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
	choose_row(&w->row, address);
	return true;
}

/* Finds the row of the native code at pc, which is mostly one of those found last: false if its file
 * has none for it.
 */
__noinline int find_row(struct walk *w)
{
	struct known_row *known;
	u64 pc;

	if (!w)
		return false;
	pc = w->pc - w->returned;
	known =
	    &w->rows[pc * 0x9e3779b97f4a7c15ull >> (64 - KNOWN_ROW_BITS)]; /* 2^64 / golden ratio */
	if (known->pc == pc) {
		w->row = known->row;
		return true;
	}
	if (!search_rows(w, pc - w->recent[CODE_NATIVE].bias))
		return false;
	known->pc = pc;
	known->row = w->row;
	return true;
}

/* The thread's register of that DWARF number. Functions that were called have their own values in
 * registers that they restore; what a row says of another, none of them has changed.
 */
static __always_inline bool read_register(struct walk *w, u64 number, u64 *value)
{
	void *regs = user_regs((struct task_struct *)bpf_get_current_task_btf());
	u64 *all = (u64 *)w->raw, at;

	if (w->interrupted || (w->returned && (RESTORED_REGISTERS >> number & 1)) ||
	    bpf_probe_read_kernel(all, sizeof(struct pt_regs), regs))
		return false;
	at = REGISTER_PLACES >> (4 * (number & 15));
	mask_index(at, 15);
	*value = all[at];
	return true;
}

/* Where the row's code has saved a stack pointer: 0 if that is not known. */
static __always_inline u64 saved_at(struct walk *w)
{
	u64 slot = (s64)((u64)w->row.distance << (64 - SAVED_SLOT_BITS)) >> (64 - SAVED_SLOT_BITS);
	u64 words;

	switch (w->row.base) {
	case UNWIND_SAVED_AT_SP:
		return w->sp + 8 * slot;
	case UNWIND_SAVED_AT_FP:
		return w->fp + 8 * slot;
	}
	return read_register(w, REGISTER_R9, &words) ? w->sp + 8 * (slot + words) : 0;
}

/* Where the caller's frame begins by the row that was found: 0 if that is not known. */
__noinline u64 frame_by_row(struct walk *w)
{
	u64 from;

	if (!w)
		return 0;
	switch (w->row.base) {
	case UNWIND_SP:
		return w->sp + 8 * (u64)w->row.distance;
	case UNWIND_FP:
		return w->fp + 8 * (u64)w->row.distance;
	case UNWIND_LINK_SAVED:
		return w->sp + 8 * (u64)(w->row.distance & ((1 << SAVED_SLOT_BITS) - 1));
	}
	if (w->row.base >= UNWIND_REGISTER) {
		if (!read_register(w, w->row.base - UNWIND_REGISTER, &from))
			return 0;
		return from + 8 * (u64)w->row.distance;
	}
	from = saved_at(w);
	if (!from || !read_user(&w->object, 8, from))
		return 0;
	return w->object[0] + 8 * (u64)(w->row.distance >> SAVED_SLOT_BITS);
}

/* Moves to what a signal has interrupted: sp is where its handler returns to. */
static __always_inline bool leave_signal(struct walk *w)
{
	struct interrupted at;

	if (!read_user(&at, sizeof(at), w->sp + INTERRUPTED_AT))
		return false;
	w->fp = at.fp;
	w->sp = at.sp;
	w->pc = at.pc;
	w->link = interrupted_link(at);
	w->returned = 0;
	w->interrupted = 1;
	w->code = code_at(w, at.pc);
	return true;
}

#define MAX_AWAITED 64 /* returns of a thread, as of Linux 6.18 (MAX_URETPROBE_DEPTH) */

/* Where the call really returns to whose return address is in slot, if a probe awaits its return: the
 * kernel has written the address of its own code there. 0 if no probe does.
 */
__noinline u64 awaited_return(u64 slot)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task_btf();
	struct return_instance *awaited;
	struct uprobe_task *probes;

	if (!bpf_core_field_exists(task->utask))
		return 0;
	probes = BPF_CORE_READ(task, utask);
	if (!probes)
		return 0;
	awaited = BPF_CORE_READ(probes, return_instances);
	for (u32 i = 0; i < MAX_AWAITED && awaited; i++) {
		if (is_awaited(BPF_CORE_READ(awaited, stack), slot))
			return BPF_CORE_READ(awaited, orig_ret_vaddr);
		awaited = BPF_CORE_READ(awaited, next);
	}
	return 0;
}

/* Moves to where a call returns to, as the word at slot says. The call may be the last of the code it
 * is in.
 */
static __always_inline void return_to(struct walk *w, u64 pc, u64 slot)
{
	pc = code_address(pc);
	w->returned = 1;
	w->pc = pc;
	w->code = code_at(w, pc - 1);
	if (w->code != CODE_UNKNOWN)
		return;
	pc = awaited_return(slot);
	if (!pc)
		return;
	w->pc = code_address(pc);
	w->code = code_at(w, w->pc - 1);
}

/* What the code returns to whose row was found, and whose caller's frame begins at frame: 0 if that is
 * not known. With a link register, it is saved above the caller's frame pointer, by itself, or,
 * in code that has called nothing yet, not at all.
 */
static __always_inline u64 read_return(struct walk *w, u64 frame)
{
	u64 slot = frame - 8, pc;

	if (HAS_LINK && w->row.base == UNWIND_LINK_SAVED)
		slot = frame - 8 * (u64)(w->row.distance >> SAVED_SLOT_BITS);
	else if (HAS_LINK && w->row.fp == UNWIND_FP_KEPT)
		return w->returned ? 0 : w->link;
	else if (HAS_LINK)
		slot = frame - 8 * (u64)w->row.fp + 8;
	return read_user(&pc, sizeof(pc), slot) ? pc : 0;
}

/* Code that has not saved its link register may have no frame at all. */
#define may_be_empty(w) (HAS_LINK && !(w)->returned)

/* Moves to the caller by the row that was found. */
static __always_inline bool leave_by_row(struct walk *w)
{
	u64 frame = frame_by_row(w), pc, fp = w->fp, saved = frame - 8 * (u64)w->row.fp;

	if (frame & 7 || frame < w->sp || (frame == w->sp && !may_be_empty(w)) ||
	    frame - w->sp > MAX_FRAME_BYTES)
		return false;
	pc = read_return(w, frame);
	if (!pc)
		return false;
	if (w->row.fp == UNWIND_FP_HERE)
		saved = fp;
	if (w->row.fp != UNWIND_FP_KEPT && !read_user(&fp, sizeof(fp), saved))
		return false;
	return_to(w, pc, frame - 8);
	if (w->code == CODE_UNKNOWN)
		return false;
	w->fp = fp;
	w->sp = frame;
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
	if (HAS_LINK && !fp && !w->exit_fp)
		return DONE; /* the chain of frames ends with 0 (AAPCS64) */
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
	w->sp = sp_above(fp);
	if (!w->pc)
		return leap(w);
	return_to(w, w->pc, fp + 8);
	if (needs_rows(w)) { /* the code may keep other data in the frame pointer */
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
		if (!HAS_LINK || next)
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

/* Unwinds native frames of one file for as long as frame pointers chain them and nothing is unusual,
 * as climb does. An event between calls of native code spends most of its time here, so what changes
 * is kept in registers.
 */
__noinline int run_native(struct walk *w)
{
	u64 fp, pc, next, caller, hash, count;
	u32 code = CODE_NATIVE, passed = 0;
	struct range file;

	if (!w || !w->returned || w->code != CODE_NATIVE || needs_rows(w))
		return 0;
	fp = w->fp;
	pc = w->pc;
	hash = w->stack.hash;
	count = w->stack.count;
	file = w->recent[CODE_NATIVE];
	for (; passed < MAX_RUN && count < MAX_FRAMES && code == CODE_NATIVE; passed++) {
		u64 frame = frame_of(FRAME_NATIVE, (pc & PC_MASK) | RETURN_ADDRESS);

		if (fp & 7 || !is_within(&file, pc - 1) || !see(w, fp, fp + 16))
			break;
		next = word(w, fp);
		caller = code_address(word(w, fp + 8));
		if (next <= fp || next - fp > MAX_FRAME_BYTES || (w->exit_fp && next >= w->exit_fp))
			break;
		if (!is_within(&file, caller - 1)) {
			u32 of_caller = code_at(w, caller - 1);

			if (of_caller == CODE_UNKNOWN)
				break;
			code = of_caller;
		}
		mask_index(count, MAX_FRAMES - 1);
		w->stack.frames[count].word = frame;
		w->stack.frames[count++].position = 0;
		hash = mix_frame(hash, frame, 0);
		w->reached = fp;
		fp = next;
		pc = caller;
	}
	if (!passed)
		return 0;
	if (file.end & RANGE_ADDON)
		w->stack.flags |= STACK_ADDON;
	w->leaf = 0;
	w->sp = sp_above(w->reached);
	w->fp = fp;
	w->pc = pc;
	w->code = code;
	w->stack.hash = hash;
	w->stack.count = count;
	return passed == MAX_RUN;
}

/* Continues with the caller of the frame at fp, which no unwind rule describes. */
static __always_inline int climb_without_rule(struct walk *w)
{
	count_failure(FAILURE_UNWIND_RULE);
	return climb(w);
}

/* Continues with the caller of native code. */
__noinline int leave_native(struct walk *w)
{
	u64 sp;

	if (!w)
		return DONE;
	sp = w->sp;
	w->code = code_at(w, w->pc - w->returned); /* the last lookup may have been of another pc */
	if (!needs_rows(w) || (!sp && !HAS_LINK))
		return climb(w);
	if (!find_row(w))
		return climb_without_rule(w);
	switch (w->row.base) {
	case UNWIND_END:
		return DONE;
	case UNWIND_SIGNAL:
		return sp && leave_signal(w) ? CONTINUE : climb_without_rule(w);
	case UNWIND_UNKNOWN:
		return climb_without_rule(w);
	case UNWIND_FP:
		if (w->row.distance == 2 && w->row.fp == 2)
			return climb(w);
	}
	if (!sp)
		return climb(w);
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
