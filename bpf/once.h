/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * Stacks that are sent once: the events that have them refer to them by their hash.
 */
#ifndef USTACK_ONCE_H
#define USTACK_ONCE_H

#include "busy.h"

#define MAX_SENT 32768

const volatile u32 with_stacks = 0;

/* Stacks that user space has, which deletes those that it forgets. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, MAX_SENT);
	__type(key, u64); /* hash */
	__type(value, u8);
} sent SEC(".maps");

/* Captures the current thread's stack and sends it, unless user space has it. Returns its hash; 0 if
 * there was no room.
 */
static __always_inline u64 capture_once(struct walk *w, void *ctx, u64 ids, u32 with)
{
	u64 hash;
	u8 is = 1;

	capture(w, ctx, ids, with);
	hash = w->stack.hash;
	if (bpf_map_lookup_elem(&sent, &hash))
		return hash;
	if (!send_stack(w, w->stack.flags & STACK_NEW_CODE))
		return 0;
	bpf_map_update_elem(&sent, &hash, &is, BPF_ANY);
	return hash;
}

/* The same with a walk of its own; 0 also if none is free, which is counted. */
static __always_inline u64 stack_once(void *ctx, u64 ids, u32 with)
{
	struct walk *w = take_walk(ids >> 32);
	u64 hash;

	if (!w)
		return 0;
	hash = capture_once(w, ctx, ids, with);
	give_back(w);
	return hash;
}

#endif
