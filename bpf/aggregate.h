/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * Events and the sum of their values, by stack: kept here, so that an event costs a lookup and not a
 * copy. A stack's frames are sent once, when it is first counted. User space drains the counts before
 * the map is full.
 */
#ifndef USTACK_AGGREGATE_H
#define USTACK_AGGREGATE_H

#include "busy.h"
#include "event.h"
#include "turn.h"

#define MAX_STACKS 32768

volatile u64 lost = 0;             /* events there was no room for */
volatile u64 truncated = 0;        /* stacks deeper than MAX_FRAMES */
volatile u64 matched[MAX_EVENTS];  /* events that met all conditions, by kind */
volatile u64 negative[MAX_EVENTS]; /* of those that were taken: values below 0, which add nothing */

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_STACKS);
	__type(key, struct stack_key);
	__type(value, struct total);
} counts SEC(".maps");

/* Names are only sent, where no condition is about them. */
#ifndef USTACK_PREDICATE_H
static __always_inline void note_name(struct walk *w)
{
}
#endif

/* The number of bits of v. */
static __always_inline u32 bits_of(u64 v)
{
	u32 bits = 0;

	for (u32 step = 32; step; step >>= 1) {
		if (v >> step) {
			bits += step;
			v >>= step;
		}
	}
	return bits + (v != 0);
}

/* tools/quantize: the bucket of a signed value by powers of two. */
static __always_inline u32 bucket_of(s64 v)
{
	return v < 0 ? BUCKET_ZERO - bits_of(-(u64)v) : BUCKET_ZERO + bits_of(v);
}

/* Adds events, with the sum of their values, to the stack that was captured. kind is their number;
 * bucket: stack_key.bucket. A function of its own, for older kernels allow small stacks.
 */
__noinline int add_to_stack(struct walk *w, u32 kind, u32 bucket, u64 events, u64 value)
{
	struct total *seen, add = { .events = events, .value = value };
	struct stack_key key = { .event = kind, .turn = turn, .bucket = bucket };

	if (!w)
		return 0;
	key.ids = w->stack.ids;
	key.hash = w->stack.hash;
	if (w->stack.flags & STACK_TRUNCATED)
		count(truncated);
	seen = bpf_map_lookup_elem(&counts, &key);
	if (seen) {
		__sync_fetch_and_add(&seen->events, events);
		__sync_fetch_and_add(&seen->value, value);
		return 0;
	}
	if (!send_stack(w, w->stack.flags & STACK_NEW_CODE) ||
	    bpf_map_update_elem(&counts, &key, &add, BPF_ANY))
		__sync_fetch_and_add(&lost, events);
	return 0;
}

#endif
