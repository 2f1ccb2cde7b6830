/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * What is known of functions and threads from one stack to the next.
 *
 * What was read about a function is cached by its address until a collection moves objects (the
 * epoch), so that its next frame costs one lookup. The thread's isolate is cached, too, and whether
 * a collection is in progress.
 */
#ifndef USTACK_V8_CACHE_H
#define USTACK_V8_CACHE_H

#include "regexp.h"
#include "wasm.h"

#define MAX_FUNCTIONS 4096 /* cached by address; a power of two */
#define MAX_THREADS 8192
#define MAX_CODES 16384          /* code objects sent; one that is forgotten is sent again */
#define MAX_NEAR_BYTES (1 << 20) /* of native frames, on a stack that is not known */
#define POSITION_CHECK_MASK ((1u << POSITION_CHECK_BITS) - 1)

/* What is cached about a function. */
struct known {
	u64 function; /* its address, which it keeps for the epoch */
	u64 epoch;
	u64 named; /* id: 56 bits, tier: 4 bits, KNOWN_BUILTIN */
	u64 code_start;
	u32 code_size;
	u32 stray; /* chunk_of() a pc that it ran at outside its code; 0: none */
	u32 check; /* of its code: code_key.check */
	u32 pad;
};

#define KNOWN_BUILTIN (1ull << 60)
#define ID_MASK ((1ull << FRAME_ID_BITS) - 1)

/* Each CPU's own: no lock is taken, and a lookup costs as little as the reads. A function may be
 * in two places.
 */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, MAX_FUNCTIONS);
	__type(key, u32);
	__type(value, struct known);
} functions SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, MAX_THREADS);
	__type(key, u64);
	__type(value, struct thread);
} threads SEC(".maps");

/* Code objects that have been sent to user space; it deletes one to have it sent again. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, MAX_CODES);
	__type(key, struct code_key);
	__type(value, u8);
} codes SEC(".maps");

/* Sends the code that was just read of a function, unless it was sent already. Up to Linux 6.1 a
 * key must be on the stack.
 */
static __always_inline void send_code(struct walk *w, u64 address)
{
	struct code_key key = { .owner = w->owner, .id = w->id, .check = w->check };
	struct code_object *code = &w->code_object;
	u8 sent = 1;

	if (bpf_map_lookup_elem(&codes, &key))
		return;
	code->event = EVENT_CODE;
	code->tier = w->tier;
	code->key = key;
	code->address = address;
	code->start = w->code_start;
	code->size = w->code_size;
	if (!read_user(&code->shared, 8, w->function - 1 + w->process.layout.function_shared))
		code->shared = 0;
	w->fresh = 1;
	if (send(code, sizeof(*code), false))
		bpf_map_update_elem(&codes, &key, &sent, BPF_ANY);
}

/* The machine code that the function runs when it is called: where it is and which tier's. */
__noinline int read_code(struct walk *w)
{
	u64 table, kind, code;
	const struct layout *l;

	if (!w)
		return 0;
	l = &w->process.layout;
	code = w->code_word;
	w->code_size = 0;
	w->stray = 0;
	if (l->dispatch_handle) {
		table = w->process.dispatch_base;
		if (!table &&
		    !(l->dispatch_table && w->isolate &&
		        read_user(&table, 8, w->isolate + l->dispatch_table))) {
			count_failure(FAILURE_CODE);
			return 0;
		}
		if (!read_user(&code, 8, table + 16 * (u64)((u32)code >> 8) + 8)) {
			count_failure(FAILURE_CODE);
			return 0;
		}
		code = code >> 16 | 1;
	}
	if (read_object(w, &code, w->part, CODE_BYTES) != l->code) {
		count_failure(FAILURE_CODE);
		return 0;
	}
	w->code_start =
	    l->code_start_pointer ? field(w->part, l->code_start) : code - 1 + l->code_start;
	w->code_size = half(w->part, l->code_size);
	kind = half(w->part, l->code_flags) & l->code_kind_mask;
	w->tier = kind == l->kind_turbofan           ? TIER_TURBOFAN :
	    kind == l->kind_baseline                 ? TIER_BASELINE :
	    l->kind_maglev && kind == l->kind_maglev ? TIER_MAGLEV :
	                                               TIER_NONE;
	w->check = finish(mix(mix(w->code_start, w->code_size), kind)) & POSITION_CHECK_MASK;
	if (w->tier != TIER_NONE && !w->is_builtin)
		send_code(w, code);
	return 0;
}

/* The first of the two places of the thread's function at that address. */
static __always_inline u32 place_of(u64 owner, u64 function)
{
	u64 hash = (function >> 3 ^ owner) * 0x9e3779b97f4a7c15ull; /* 2^64 / golden ratio */

	return hash >> 40 & (MAX_FUNCTIONS - 1);
}

/* Keeps what was read of the function until the next collection: in its place, else in one that
 * holds nothing of use. What may move already is kept for its id only.
 */
static __always_inline void remember(struct walk *w)
{
	u32 first = place_of(w->owner, w->function), second = first ^ 1;
	struct known *known, *other;

	if (!w->complete || w->forgetful)
		return;
	known = bpf_map_lookup_elem(&functions, &first);
	other = bpf_map_lookup_elem(&functions, &second);
	if (!known || !other)
		return; /* cannot happen; tells the verifier so */
	if (known->function != w->function && w->epoch && known->epoch == w->epoch)
		known = other;
	known->function = w->function;
	known->epoch = w->settled ? w->epoch : 0;
	known->named = w->id | (u64)w->tier << FRAME_ID_BITS | (w->is_builtin ? KNOWN_BUILTIN : 0);
	known->code_start = w->code_start;
	known->code_size = w->code_size;
	known->stray = w->stray;
	known->check = w->check;
}

/* The cache entry in that place, of any epoch, or null. */
static __always_inline struct known *recall_at(u64 function, u32 place)
{
	struct known *known = bpf_map_lookup_elem(&functions, &place);

	return known && known->function == function ? known : 0;
}

/* The same in either place. */
static __always_inline struct known *recall(struct walk *w, u64 function)
{
	u32 place = place_of(w->owner, function);
	struct known *known = recall_at(function, place);

	return known ? known : recall_at(function, place ^ 1);
}

/* Names the function at w->function: from what is remembered of it, or afresh. False if it is no
 * function.
 */
__noinline int name_function(struct walk *w)
{
	struct known *known;

	if (!w)
		return false;
	known = recall(w, w->function);
	if (known && w->settled && known->epoch == w->epoch) {
		w->id = known->named & ID_MASK;
		w->tier = known->named >> 56 & 15;
		w->is_builtin = !!(known->named & KNOWN_BUILTIN);
		w->code_start = known->code_start;
		w->code_size = known->code_size;
		w->stray = known->stray;
		w->check = known->check;
		w->complete = 1;
		return true;
	}
	read_function(w);
	if (!w->id)
		return false;
	read_code(w);
	remember(w);
	return true;
}

#define runs_at(w, pc) ((pc) - (w)->code_start < (w)->code_size)

/* The tier of a function that runs builtins: the interpreter's, if its frame at fp has a bytecode's
 * offset. Sparkplug's code has them build its frame and take it down, with something else there.
 */
static __always_inline u32 builtin_tier(struct walk *w, u64 fp)
{
	return is_heap_object(word(w, fp + w->process.layout.fp_bytecode_offset)) ?
	    TIER_BASELINE :
	    TIER_INTERPRETED;
}

#define code_position(check, offset) \
	position_of(POSITION_CODE, (u64)(check) << POSITION_OFFSET_BITS | (u32)(offset))
#define bytecode_position(w, fp)       \
	position_of(POSITION_BYTECODE, \
	    (u32)smi_value(word(w, (fp) + (w)->process.layout.fp_bytecode_offset)))

#define chunk_of(pc) ((u32)((pc) >> 8) | 1u << 31) /* 256 bytes; never 0 */

/* The tier of the code at pc, on whose behalf the frame at fp is. A loop that was entered in the
 * middle (OSR) runs code that the function does not refer to: then only the frame's slots tell
 * Sparkplug's code, which keeps the interpreter's frame but for the bytecode offset, from others.
 * That a function strays is remembered, so that its code is not read again for each frame.
 */
static __always_inline u32 tier_at(struct walk *w, u64 pc, u32 code)
{
	const struct layout *l = &w->process.layout;
	u64 bytecodes, head[2];

	if (w->is_builtin)
		return TIER_NONE;
	if (code == CODE_BUILTIN ||
	    (code == CODE_UNKNOWN && !w->tier && runs_at(w, pc))) /* V8 has mapped them again */
		return builtin_tier(w, w->fp);
	if (runs_at(w, pc))
		return w->tier;
	if (w->stray != chunk_of(pc)) { /* it may have been compiled anew */
		if (read_user(&w->code_word, 8, w->function - 1 + l->function_code))
			read_code(w);
		if (!runs_at(w, pc))
			w->stray = chunk_of(pc);
		remember(w);
		if (runs_at(w, pc))
			return w->tier;
	}
	bytecodes = word(w, w->fp + l->fp_bytecode_array);
	if (is_heap_object(word(w, w->fp + l->fp_bytecode_offset)) &&
	    read_object(w, &bytecodes, head, sizeof(head)) == l->bytecode_array)
		return TIER_BASELINE;
	return TIER_OPTIMIZED;
}

/* The position of a pc in code that the function does not refer to, so that nothing identifies it but
 * the code around pc: V8 may have other code there by the time that user space looks; 0 if it cannot
 * be read.
 */
static __always_inline u64 stray_position(struct walk *w, u64 pc)
{
	u64 *code = w->part;
	u64 hash;

	if (pc >> POSITION_PC_BITS ||
	    !read_user(code, POSITION_CODE_BYTES, pc - POSITION_CODE_BYTES / 2)) {
		count_failure(FAILURE_POSITION);
		return 0;
	}
	w->fresh = 1;
	hash = (code[0] * 0x9e3779b97f4a7c15ull ^ code[1]) * 0x9e3779b97f4a7c15ull;
	return position_of(POSITION_PC,
	    hash >> (64 - POSITION_FORM_SHIFT + POSITION_PC_BITS) << POSITION_PC_BITS | pc);
}

/* Where in its code the function is whose frame is at fp: pc is in code. */
static __always_inline u64 position_at(struct walk *w, u32 tier)
{
	u64 offset = w->pc - w->returned - w->code_start;

	if (w->is_builtin)
		return 0;
	if (tier == TIER_INTERPRETED)
		return bytecode_position(w, w->fp);
	if (w->code == CODE_BUILTIN) /* on behalf of Sparkplug's code */
		return 0;
	if (w->tier != TIER_NONE && offset < w->code_size)
		return code_position(w->check, offset);
	return stray_position(w, w->pc - w->returned);
}

#define push_function(w, tier, position) \
	push_at(w, frame_of(FRAME_JS, (u64)(tier) << FRAME_ID_BITS | (w)->id), position)

/* Reads the thread's isolate as its thread-local variable has it. A library's variables are in a
 * block of their own, which the thread's vector has the address of (glibc: two words for each
 * library).
 */
static __always_inline bool read_isolate(struct walk *w, struct task_struct *task, u64 *isolate)
{
	u64 block = thread_pointer(task), module = w->process.tls_module;

	if (!w->process.tls_isolate && !module)
		return false;
	if (module &&
	    !(read_user(&block, 8, block + 8) && read_user(&block, 8, block + 16 * module)))
		return false;
	return read_user(isolate, sizeof(*isolate), block + w->process.tls_isolate);
}

/* The thread's isolate: from thread-local storage where the binary says where, else from V8's root
 * register, now or when it was last seen.
 */
static __always_inline u64 find_isolate(struct walk *w, struct task_struct *task)
{
	u64 isolate, by_root = w->code >= CODE_BUILTIN ? w->root - ROOT_BIAS : 0;

	if (by_root && by_root == w->thread.isolate)
		return by_root;
	if (read_isolate(w, task, &isolate))
		return isolate;
	return by_root ? by_root : w->thread.isolate;
}

/* The epoch: a number for the thread, its isolate, how many collections there were, and what user
 * space has changed. 0 if something may be moved now. gc_count_ is within 64 bytes after gc_state_
 * (0x1c to 0x34 of them in 9.4 to 14.6). V8 counts a collection some time before gc_state_ says
 * that it is under way; meanwhile the isolate's state does, unless it runs JavaScript.
 */
#define VM_STATE_GC 1 /* src/common/globals.h: enum StateTag */

static __always_inline u64 read_epoch(struct walk *w)
{
	const struct layout *l = &w->process.layout;
	u32 heap[16];
	u64 collections;
	u8 state;

	if (!l->gc_count || !read_user(heap, sizeof(heap), w->isolate + l->gc_state) || heap[0])
		return 0;
	if (w->code == CODE_NATIVE &&
	    (!read_user(&state, sizeof(state), w->isolate + l->vm_state) || state == VM_STATE_GC))
		return 0;
	collections = heap[(l->gc_count - l->gc_state) >> 2 & 15];
	return finish(mix(w->owner, w->isolate) ^ (collections | (u64)described << 32)) | 1;
}

/* Keeps what is now known of the thread, for this CPU and for others. */
static __always_inline void keep_thread(struct walk *w)
{
	struct thread *seen = bpf_map_lookup_elem(&threads, &w->owner);

	if (seen)
		*seen = w->thread;
	else
		bpf_map_update_elem(&threads, &w->owner, &w->thread, BPF_ANY);
}

/* What was last seen of the thread: mostly by this CPU's last sample. */
static __always_inline void find_thread(struct walk *w)
{
	const struct thread none = {}, *seen;

	if (w->thread_owner == w->owner)
		return;
	seen = bpf_map_lookup_elem(&threads, &w->owner);
	w->thread = seen ? *seen : none;
	w->thread_owner = w->owner;
}

/* Whether an exit frame of the isolate's is the thread's: V8's helper threads point to an isolate
 * whose frames are another thread's. That one is not farther from where the thread is now than its
 * stack is large, but for what no frame of V8's was met on yet, nearer: stacks of two threads are 4
 * MiB apart or more (src/node_worker.h, libuv's default).
 */
static __always_inline bool is_own(struct walk *w, u64 fp)
{
	bool is_main = w->stack.ids >> 32 == (u32)w->stack.ids;
	u64 distance = fp - w->sp;

	return distance <= (w->thread.runs_v8 || is_main ? MAX_FRAME_BYTES : MAX_NEAR_BYTES);
}

/* What must be known of V8 before its frames are: is a collection under way, how many were there,
 * and where did the thread leave JavaScript. What is read in a thread's first sample of an epoch is
 * not remembered: while V8 runs callbacks before a collection, it shows no sign of what is to come.
 */
static __always_inline void begin_v8(struct walk *w, struct task_struct *task)
{
	const struct layout *l = &w->process.layout;

	find_thread(w);
	w->isolate = find_isolate(w, task);
	if (!w->isolate)
		return;
	w->epoch = read_epoch(w);
	w->settled = w->epoch && w->thread.epoch == w->epoch && !w->forgetful;
	forget_types(w);
	if (!w->settled) {
		w->thread.isolate = w->isolate;
		w->thread.epoch = w->epoch;
		keep_thread(w);
	}
	if (!l->c_entry_fp || w->code == CODE_JIT || w->code == CODE_BUILTIN ||
	    !read_user(&w->exit_fp, 8, w->isolate + l->c_entry_fp) || !is_own(w, w->exit_fp))
		w->exit_fp = 0;
}

/* Records that the thread runs V8, once a V8 frame was found on its stack. */
static __always_inline void end_v8(struct walk *w)
{
	if (!w->met_v8 || w->thread.runs_v8)
		return;
	w->thread.runs_v8 = 1;
	keep_thread(w);
}

#endif
