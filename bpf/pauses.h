/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * Garbage collections: V8 calls node back before and after each.
 */
#ifndef USTACK_PAUSES_H
#define USTACK_PAUSES_H

#include "once.h"
#include "snooped.h"

#define MAX_NESTED 4 /* collections in collections */

const volatile u32 with_pauses = 1;

volatile u64 collections = 0; /* that ended */

/* A garbage collection. */
struct pause {
	u32 event; /* EVENT_PAUSE */
	u32 kind;  /* v8::GCType */
	u64 ids;   /* tgid, tid */
	u64 generation;
	u64 begun, length; /* ns */
	u64 hash;          /* of the stack that it interrupted, which was sent before; 0: none */
};

/* Keeps a type that no map names in the object, for Go's bindings. */
const struct pause *pause_unused __attribute__((unused));

/* Garbage collections of a thread. */
struct thread_pauses {
	u64 paused; /* ns, of all that ended */
	u64 depth;  /* collections under way */
	u64 begun[MAX_NESTED], hashes[MAX_NESTED];
	u32 kinds[MAX_NESTED]; /* v8::GCType */
};

/* Of main threads, by the numbers of their nodes, and of others. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_PROCESSES);
	__type(key, u32);
	__type(value, struct thread_pauses);
} main_pauses SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_THREADS);
	__type(key, u64); /* tgid, tid */
	__type(value, struct thread_pauses);
} pauses SEC(".maps");

/* The collections of a thread of that node's process; null if it had none. */
static __always_inline struct thread_pauses *pauses_of(u32 number, u64 ids)
{
	struct thread_pauses *t;

	if ((u32)ids != ids >> 32)
		return bpf_map_lookup_elem(&pauses, &ids);
	t = bpf_map_lookup_elem(&main_pauses, &number);
	asm volatile(""); /* one call for both maps would not be inlined */
	return t;
}

/* How long a thread of that node's process has collected garbage so far. */
static __always_inline u64 paused_so_far(u32 number, u64 ids, u64 now)
{
	struct thread_pauses *t = pauses_of(number, ids);

	if (!t)
		return 0;
	return t->paused + (t->depth ? now - t->begun[0] : 0);
}

/* The hash of the stack that a pause interrupts; ctx is at the entry of a function of V8's. */
static __always_inline u64 interrupted_stack(struct pt_regs *ctx)
{
	return with_stacks && with_pauses ? stack_once(ctx, current_ids(), AT_ENTRY) : 0;
}

/* Not inlined: older kernels allow small stacks. */
static __noinline int begin_pause(u32 number, u32 kind, u64 hash)
{
	u64 depth, ids = current_ids();
	struct thread_pauses none = {}, *t = pauses_of(number, ids);

	if (!t) {
		bpf_map_update_elem(&pauses, &ids, &none, BPF_NOEXIST);
		t = bpf_map_lookup_elem(&pauses, &ids);
	}
	if (!t)
		return 0;
	depth = t->depth;
	if (depth >= MAX_NESTED)
		depth = 0; /* ends were missed */
	mask_index(depth, MAX_NESTED - 1);
	t->begun[depth] = bpf_ktime_get_ns();
	t->hashes[depth] = hash;
	t->kinds[depth] = kind;
	t->depth = depth + 1;
	return 0;
}

static __always_inline void end_pause(u64 cookie)
{
	struct node *node = node_of(cookie);
	u64 depth, ids = current_ids();
	struct pause pause = { .event = EVENT_PAUSE, .ids = ids };
	struct thread_pauses *t = pauses_of(cookie, ids);

	if (!node || !t || !t->depth)
		return;
	depth = t->depth - 1;
	mask_index(depth, MAX_NESTED - 1);
	t->depth = depth;
	pause.generation = node->generation;
	pause.kind = t->kinds[depth];
	pause.begun = t->begun[depth];
	pause.hash = t->hashes[depth];
	pause.length = bpf_ktime_get_ns() - pause.begun;
	if (!depth)
		t->paused += pause.length;
	count(collections);
	if (with_pauses && pause.length >= slower)
		send_event(&pause, sizeof(pause));
}

/* Heap::CallGCPrologueCallbacks(GCType, ...), CallGCEpilogueCallbacks(GCType, ...) */
SEC("uprobe")
int on_gc_prologue(struct pt_regs *ctx)
{
	begin_pause(bpf_get_attach_cookie(ctx), argument1(ctx), interrupted_stack(ctx));
	return 0;
}

SEC("uprobe")
int on_gc_epilogue(struct pt_regs *ctx)
{
	end_pause(bpf_get_attach_cookie(ctx));
	return 0;
}

/* Where those are inlined: Heap::CollectGarbage(), to which PerformGarbageCollection(collector) says
 * what it collects.
 */
SEC("uprobe")
int on_collect(struct pt_regs *ctx)
{
	begin_pause(bpf_get_attach_cookie(ctx), 0, interrupted_stack(ctx));
	return 0;
}

#define GC_SCAVENGE 1
#define GC_MARK_COMPACT 4

SEC("uprobe")
int on_collector(struct pt_regs *ctx)
{
	u64 depth, ids = current_ids();
	struct thread_pauses *t = pauses_of(bpf_get_attach_cookie(ctx), ids);

	if (!t || !t->depth)
		return 0;
	depth = t->depth - 1;
	mask_index(depth, MAX_NESTED - 1);
	t->kinds[depth] = (u32)argument1(ctx) ? GC_MARK_COMPACT : GC_SCAVENGE;
	return 0;
}

SEC("uretprobe")
int on_collected(struct pt_regs *ctx)
{
	end_pause(bpf_get_attach_cookie(ctx));
	return 0;
}

#endif
