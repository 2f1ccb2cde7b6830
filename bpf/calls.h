/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * Calls in progress, for what is known only when they return: how long they took, and what a function
 * was called with.
 */
#ifndef USTACK_CALLS_H
#define USTACK_CALLS_H

#include "hit.h"
#include "unended.h"

#define MAX_CALLS 16384 /* under way at once */

/* A call in progress. A thread has only one system call in progress; calls of functions are
 * distinguished by their stack pointers.
 */
struct call_key {
	u64 ids, sp;
};

struct call {
	u64 begun;
	u64 arguments[6];
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, MAX_CALLS);
	__type(key, struct call_key);
	__type(value, struct call);
} calls SEC(".maps");

/* Whether the program is the one to handle that a system call begins. */
static __always_inline bool handles_call(void *ctx, u64 ids, u64 nr)
{
	if (nr >= MAX_SYSCALLS)
		return false; /* cannot happen; tells the verifier so */
	if (syscalls[nr].flags & CALL_MAY_NOT_RETURN)
		return is_to_handle(ctx, ids, CALL_BEGINS);
	return handles_begin(ctx, ids);
}

/* How long the call that ends took; 0 if its beginning was not seen. */
static __always_inline u64 duration_of(struct call_key *key)
{
	struct call *call = bpf_map_lookup_elem(&calls, key);
	u64 duration;

	if (!call)
		return 0;
	duration = bpf_ktime_get_ns() - call->begun;
	bpf_map_delete_elem(&calls, key);
	return duration;
}

/* Keeps what the call began with until it returns. */
SEC("uprobe")
int on_call(struct pt_regs *ctx)
{
	struct call_key key = { current_ids(), entry_sp(ctx) };
	struct call call = { .begun = bpf_ktime_get_ns() };

	call_arguments(ctx, call.arguments);
	bpf_map_update_elem(&calls, &key, &call, BPF_ANY);
	return 0;
}

#endif
