/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * The ustack helper: a frame of V8's -> JSFunction -> SharedFunctionInfo -> name, script, position.
 *
 * All offsets come from struct layout; no version of V8 is known here. A name is read by V8's own
 * rules at the moment of the event and sent to user space once per content. What was read of a
 * function is kept by its address for as long as no collection has moved anything (the epoch):
 * then a frame costs one look-up. Any map word may be a forwarding address during a collection.
 */
#ifndef USTACK_V8_H
#define USTACK_V8_H

#include "function.h"

#define MAX_FUNCTIONS 4096 /* remembered by address; a power of two */
#define MAX_THREADS 8192
#define MAX_PROLOGUE 64 /* bytes of code that build a frame */
#define ROOT_BIAS 0x80  /* kRootRegisterBias: the root register less the isolate */

/* What is remembered of a function. */
struct known {
	u64 owner;
	u64 function; /* its address, which it keeps for the epoch */
	u64 epoch;
	u64 id;
	u64 code_start;
	u32 code_size;
	u16 tier;
	u16 is_builtin;
};

/* Each CPU's own: no lock is taken, and a look-up costs as little as the reads. A function may be
 * in two places.
 */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, MAX_FUNCTIONS);
	__type(key, u32);
	__type(value, struct known);
} functions SEC(".maps");

/* What was last seen of a thread that runs V8. */
struct thread {
	u64 isolate; /* by V8's root register */
	u64 epoch;
	u64 runs_v8; /* a frame of V8's was on its stack */
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, MAX_THREADS);
	__type(key, u64);
	__type(value, struct thread);
} threads SEC(".maps");

/* The machine code that the function runs when it is called: where it is and which tier's. */
__noinline int read_code(struct walk *w)
{
	u64 code, table, handle;
	const struct layout *l;

	if (!w)
		return 0;
	l = &w->process.layout;
	w->code_size = 0;
	if (!read_user(&code, 8, w->function - 1 + l->function_code))
		return 0;
	if (l->dispatch_handle) {
		handle = (u32)code >> 8;
		table = w->process.dispatch_base;
		if (!table &&
		    !(l->dispatch_table && w->isolate &&
		        read_user(&table, 8, w->isolate + l->dispatch_table)))
			return 0;
		if (!read_user(&code, 8, table + 16 * handle + 8))
			return 0;
		code = code >> 16 | 1;
	}
	if (read_object(w, &code, w->object, CODE_BYTES) != l->code)
		return 0;
	w->code_start =
	    l->code_start_pointer ? field(w->object, l->code_start) : code - 1 + l->code_start;
	w->code_size = *(u32 *)((u8 *)w->object + (l->code_size & 60));
	handle = *(u32 *)((u8 *)w->object + (l->code_flags & 60)) & l->code_kind_mask;
	w->tier = handle == l->kind_turbofan           ? TIER_TURBOFAN :
	    handle == l->kind_baseline                 ? TIER_BASELINE :
	    l->kind_maglev && handle == l->kind_maglev ? TIER_MAGLEV :
	                                                 TIER_NONE;
	return 0;
}

/* The first of the two places of the function at w->function. */
static __always_inline u32 place_of(struct walk *w)
{
	u64 hash = (w->function >> 3 ^ w->owner) * 0x9e3779b97f4a7c15ull; /* 2^64 / golden ratio */

	return hash >> 40 & (MAX_FUNCTIONS - 1);
}

/* Keeps what was read of the function until the next collection: in a place that holds nothing of
 * use, else in its first.
 */
static __always_inline void remember(struct walk *w)
{
	u32 first = place_of(w), second = first ^ 1;
	struct known *known, *other;

	if (!w->settled || !w->complete)
		return;
	known = bpf_map_lookup_elem(&functions, &first);
	other = bpf_map_lookup_elem(&functions, &second);
	if (!known || !other)
		return; /* cannot happen; tells the verifier so */
	if (known->function != w->function && known->owner == w->owner && known->epoch == w->epoch)
		known = other;
	known->owner = w->owner;
	known->function = w->function;
	known->epoch = w->epoch;
	known->id = w->id;
	known->code_start = w->code_start;
	known->code_size = w->code_size;
	known->tier = w->tier;
	known->is_builtin = w->is_builtin;
}

static __always_inline bool recall(struct walk *w, u32 place)
{
	struct known *known = bpf_map_lookup_elem(&functions, &place);

	if (!known || known->function != w->function || known->epoch != w->epoch ||
	    known->owner != w->owner)
		return false;
	w->id = known->id;
	w->code_start = known->code_start;
	w->code_size = known->code_size;
	w->tier = known->tier;
	w->is_builtin = known->is_builtin;
	w->complete = 1;
	return true;
}

/* Names the function at w->function: from what is remembered of it, or afresh. False if it is no
 * function.
 */
__noinline int name_function(struct walk *w)
{
	u32 place;

	if (!w)
		return false;
	place = place_of(w);
	if (w->settled && (recall(w, place) || recall(w, place ^ 1)))
		return true;
	read_function(w);
	if (!w->id)
		return false;
	read_code(w);
	remember(w);
	return true;
}

#define runs_at(w, pc) ((pc) - (w)->code_start < (w)->code_size)

/* The tier of the code at pc, on whose behalf the frame at fp is. A loop that was entered in the
 * middle (OSR) runs code that the function does not refer to: then only the frame's slots tell
 * Sparkplug's code, which keeps the interpreter's frame but for the bytecode offset, from others.
 */
static __always_inline u32 tier_at(struct walk *w, u64 pc, u32 code)
{
	const struct layout *l = &w->process.layout;
	u64 bytecodes, head[2];

	if (w->is_builtin)
		return TIER_NONE;
	if (code == CODE_BUILTIN)
		return TIER_INTERPRETED;
	if (runs_at(w, pc))
		return w->tier;
	read_code(w);
	if (runs_at(w, pc)) { /* compiled anew since it was remembered */
		remember(w);
		return w->tier;
	}
	bytecodes = word(w, w->fp + l->fp_bytecode_array);
	if (is_heap_object(word(w, w->fp + l->fp_bytecode_offset)) &&
	    read_object(w, &bytecodes, head, sizeof(head)) == l->bytecode_array)
		return TIER_BASELINE;
	return TIER_OPTIMIZED;
}

#define push_function(w, tier) push(w, frame_of(FRAME_JS, (u64)(tier) << 56 | (w)->id))

/* The thread's isolate: from thread-local storage where the binary says where, else from V8's root
 * register, now or when it was last seen.
 */
static __always_inline u64 find_isolate(
    struct walk *w, struct task_struct *task, struct thread *seen)
{
	u64 isolate;

	if (w->process.tls_isolate &&
	    read_user(&isolate, sizeof(isolate), thread_pointer(task) + w->process.tls_isolate))
		return isolate;
	if (w->code == CODE_BUILTIN || w->code == CODE_JIT)
		return w->root - ROOT_BIAS;
	return seen ? seen->isolate : 0;
}

/* The number of collections so far, and whether nothing is being moved now: gc_count_ is within 64
 * bytes after gc_state_ (0x1c to 0x34 of them in 9.4 to 14.6). V8 counts a collection some time before gc_state_ says
 * that it is under way; meanwhile the isolate's state does.
 */
#define VM_STATE_GC 1 /* src/common/globals.h: enum StateTag */

static __always_inline bool read_collections(struct walk *w, u32 *collections)
{
	const struct layout *l = &w->process.layout;
	u32 heap[16];
	u8 state;

	if (!l->gc_count || !read_user(heap, sizeof(heap), w->isolate + l->gc_state) || heap[0] ||
	    !read_user(&state, sizeof(state), w->isolate + l->vm_state) || state == VM_STATE_GC)
		return false;
	*collections = heap[(l->gc_count - l->gc_state) >> 2 & 15];
	return true;
}

/* What must be known of V8 before its frames are: is a collection under way, how many were there,
 * and where did the thread leave JavaScript. What is read in a thread's first sample of an epoch is
 * not remembered: while V8 runs callbacks before a collection, it shows no sign of what is to come.
 */
static __always_inline void begin_v8(struct walk *w, struct task_struct *task)
{
	const struct layout *l = &w->process.layout;
	struct thread *seen = bpf_map_lookup_elem(&threads, &w->owner);
	struct thread now = {};
	u32 collections;

	w->isolate = now.isolate = find_isolate(w, task, seen);
	if (!w->isolate)
		return;
	if (read_collections(w, &collections))
		w->epoch = now.epoch = (w->isolate << 20) + collections + 1;
	w->settled = seen && w->epoch && seen->epoch == w->epoch;
	now.runs_v8 = w->runs_v8 = seen && seen->runs_v8;
	if (!seen)
		bpf_map_update_elem(&threads, &w->owner, &now, BPF_ANY);
	else if (!w->settled)
		*seen = now;
	/* V8's helper threads point to an isolate whose frames are another thread's */
	if (l->c_entry_fp && w->code == CODE_NATIVE && w->runs_v8 &&
	    (!read_user(&w->exit_fp, 8, w->isolate + l->c_entry_fp) ||
	        w->exit_fp - w->sp > MAX_FRAME_BYTES))
		w->exit_fp = 0;
}

/* Keeps in mind that the thread runs V8, once a frame of V8's was met on its stack. */
static __always_inline void end_v8(struct walk *w)
{
	struct thread *seen = bpf_map_lookup_elem(&threads, &w->owner);

	if (seen)
		seen->runs_v8 = 1;
}

#endif
