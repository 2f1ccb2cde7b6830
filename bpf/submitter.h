/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * Who submits a job to libuv's pool: from the stack at that moment, the first function of an
 * add-on, or another requested key. Two jobs of one submitter are of one kind.
 */
#ifndef USTACK_SUBMITTER_H
#define USTACK_SUBMITTER_H

#include "busy.h" /* a probe may be preempted by another thread's */
#include "work.h"

#define MAX_THREADS_IN_CALLS 8192
#define MAX_NATIVE 12 /* frames that identify the submitter, if it is not an add-on */
#define MAX_SEARCH 32 /* frames, for an add-on */

/* What makes two jobs of one kind: tools/addonlat.By. */
enum by { BY_FUNCTION, BY_RESOURCE, BY_JS, BY_STACK, BY_WORK };

const volatile u32 keyed_by = BY_FUNCTION;

volatile u64 lost = 0; /* kinds for which there was no room */

/* Keeps a type that no map names in the object, for Go's bindings. */
const enum by *by_unused __attribute__((unused));

/* Continues with the caller, ignoring JavaScript. Code with a frame has a caller, though the
 * caller may have used the frame pointer for something else.
 */
static __always_inline int climb_native(struct walk *w)
{
	u64 frame[2], fp = w->fp; /* few frames are read: no window pays */

	if (!fp || fp & 7 || !read_user(frame, sizeof(frame), fp))
		return DONE;
	w->pc = code_address(frame[1]);
	w->fp = frame[0] > fp && frame[0] - fp <= MAX_FRAME_BYTES ? frame[0] : 0;
	w->code = code_at(w, w->pc - 1);
	return w->pc ? CONTINUE : DONE;
}

/* One frame in search of the add-on's; DONE when it is found or the frames are JavaScript's. */
__noinline int search(struct walk *w)
{
	u64 frame;

	if (!w)
		return DONE;
	if (w->code == CODE_JIT || w->code == CODE_BUILTIN)
		return DONE;
	frame = frame_of(FRAME_NATIVE, (w->pc & PC_MASK) | RETURN_ADDRESS);
	if (w->code == CODE_UNKNOWN) { /* an add-on, or V8's builtins at a new address */
		w->stack.flags |= STACK_NEW_CODE;
		push(w, frame);
		return DONE;
	}
	if (note_addon(w)) {
		w->stack.count = 0;
		w->stack.hash = w->owner >> 32;
		push(w, frame);
		return DONE;
	}
	if (w->stack.count < MAX_NATIVE)
		push(w, frame);
	return climb_native(w);
}

/* The name of the thread's next work, if it has one: a frame of its own. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_THREADS_IN_CALLS);
	__type(key, u64);
	__type(value, u64);
} queueing SEC(".maps");

/* Puts one frame in the place of all. */
static __always_inline void reduce(struct walk *w, u64 owner, u64 frame)
{
	w->stack.count = 0;
	w->stack.hash = owner;
	push(w, frame);
}

/* Adds the name that the work was given, if it was; in the place of all else, if that is wanted. */
static __always_inline void add_resource(struct walk *w, u64 owner, u64 ids)
{
	u64 *name = bpf_map_lookup_elem(&queueing, &ids);

	if (!name)
		return;
	if (keyed_by == BY_RESOURCE)
		reduce(w, owner, frame_of(FRAME_TEXT, *name & ID_MASK));
	else
		push(w, frame_of(FRAME_TEXT, *name & ID_MASK));
	bpf_map_delete_elem(&queueing, &ids);
}

#define MAX_CALLERS 16 /* JavaScript functions among which the program's own is looked for */

/* Keeps the frame at an index if it is a JavaScript function's; DONE when there are enough. */
__noinline int keep_caller(struct walk *w, u32 index)
{
	u64 at = index, frame;

	if (!w || w->stack.count >= MAX_CALLERS)
		return DONE;
	mask_index(at, MAX_FRAMES - 1);
	frame = w->stack.frames[at].word;
	if (frame >> 60 == FRAME_JS && frame >> 56 & 15)
		push(w, frame_of(FRAME_JS, frame & ID_MASK));
	return CONTINUE;
}

/* Leaves of the stack the JavaScript functions that are nearest, if there are any: user space knows
 * which are the program's own.
 */
static __always_inline void reduce_to_javascript(struct walk *w)
{
	u64 hash = w->stack.hash;
	u32 count = w->stack.count;

	w->stack.count = 0;
	w->stack.hash = w->owner;
	for (u32 i = 0; i < MAX_FRAMES; i++) {
		if (i >= count || keep_caller(w, i))
			break;
	}
	if (w->stack.count)
		return;
	w->stack.count = count;
	w->stack.hash = hash;
}

/* The function that does the work, of the add-on that was just found on the stack: what it gave to
 * libuv, or else to Node-API; 0: not known.
 */
static __always_inline u64 find_work(struct walk *w, u64 work, u64 callback)
{
	const struct range *addon = &w->recent[CODE_NATIVE];
	u64 words[WORK_WORDS];

	if (!(w->stack.flags & STACK_ADDON) || !(addon->end & RANGE_ADDON))
		return 0;
	if (is_within(addon, callback))
		return callback;
	if (!read_user(words, sizeof(words), work - UV_WORK_OFFSET + UV_WORK_BYTES))
		return 0;
	for (u32 i = 0; i < WORK_WORDS; i++) {
		if (is_within(addon, words[i]))
			return words[i];
	}
	return 0;
}

/* A job that is being submitted. */
struct submission {
	u64 generation; /* of the process */
	u64 ids;        /* current_ids() */
	u64 caller;     /* where the function returns to that submits it */
	u64 work;       /* address of its struct uv__work */
	u64 callback;   /* that does it */
};

/* Leaves of the stack what makes a kind, and returns its hash. */
static __always_inline u64 find_submitter(struct walk *w, void *ctx, const struct submission *s)
{
	struct pt_regs *regs = user_regs((struct task_struct *)bpf_get_current_task_btf());
	u64 process = 0, vtable, function;

	if (keyed_by == BY_JS || keyed_by == BY_STACK) {
		capture(w, ctx, s->ids, AT_ENTRY);
		if (keyed_by == BY_JS)
			reduce_to_javascript(w);
	} else {
		begin_walk(w, regs, s->ids);
		process = w->owner >> 32; /* all its threads alike */
		w->stack.hash = process;
		push(w, frame_of(FRAME_NATIVE, w->pc & PC_MASK));
		w->pc = s->caller;
		w->sp = 0;
		w->code = code_at(w, w->pc - 1);
		for (u32 i = 0; i < MAX_SEARCH; i++) {
			if (search(w))
				break;
		}
		function = find_work(w, s->work, s->callback);
		if (keyed_by == BY_WORK)
			reduce(w, process,
			    frame_of(FRAME_NATIVE, (function ?: s->callback) & PC_MASK));
		else if (function)
			push(w, frame_of(FRAME_NATIVE, function & PC_MASK));
		if (keyed_by == BY_RESOURCE ||
		    (keyed_by == BY_FUNCTION && w->stack.flags & (STACK_ADDON | STACK_NEW_CODE)))
			add_resource(w, process, s->ids);
		if (keyed_by != BY_WORK && !(w->stack.flags & STACK_ADDON) &&
		    read_user(&vtable, 8, s->work - UV_WORK_OFFSET - THREAD_POOL_WORK_OFFSET))
			push(w, frame_of(FRAME_DATA, vtable & PC_MASK));
	}
	return finish(w->stack.hash ^ (w->stack.flags & STACK_ADDON));
}

/* Kinds recently sent to user space, each at the index of its last bits: a lookup here is faster
 * than one in names.
 */
#define MAX_LATELY 256

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_LATELY);
	__type(key, u32);
	__type(value, u64);
} lately SEC(".maps");

/* Sends a kind to user space, once. */
static __always_inline void send_kind(struct walk *w, u64 kind)
{
	u32 at = kind % MAX_LATELY;
	u64 *last = bpf_map_lookup_elem(&lately, &at);
	u8 sent = 1;

	if (!last || *last == kind)
		return;
	if (!bpf_map_lookup_elem(&names, &kind)) {
		if (!send_stack(w, true))
			return;
		bpf_map_update_elem(&names, &kind, &sent, BPF_ANY);
	}
	*last = kind;
}

/* The kind of a job that an add-on's function submits itself, with a callback of the add-on's:
 * what a walk would find then. 0 if no such kind was sent to user space lately.
 */
static __always_inline u64 guess_kind(u64 generation, u64 caller, u64 callback)
{
	u64 *last,
	    kind = mix(generation, frame_of(FRAME_NATIVE, (caller & PC_MASK) | RETURN_ADDRESS));
	u32 at;

	if (keyed_by != BY_FUNCTION)
		return 0;
	kind = mix(kind, frame_of(FRAME_NATIVE, callback & PC_MASK));
	kind = finish(kind ^ STACK_ADDON);
	at = kind % MAX_LATELY;
	last = bpf_map_lookup_elem(&lately, &at);
	return last && *last == kind ? kind : 0;
}

/* The kind of the job that is being submitted: each is sent to user space once. */
static __always_inline u64 find_kind(struct pt_regs *ctx, const struct submission *s)
{
	u64 kind = guess_kind(s->generation, s->caller, s->callback);
	struct walk *w;

	if (kind)
		return kind;
	w = take_walk(s->ids >> 32);
	if (!w) {
		count(lost);
		return 0;
	}
	kind = find_submitter(w, ctx, s);
	w->stack.hash = kind;
	send_kind(w, kind);
	give_back(w);
	return kind;
}

#endif
