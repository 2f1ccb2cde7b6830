/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * Native code that keeps no frame pointers: user space has made rows of the unwind tables of its
 * files, by which a walk finds the caller of a function. They know only the registers of x86-64.
 */
#ifndef USTACK_UNWIND_H
#define USTACK_UNWIND_H

#include "walk.h"

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

#endif
