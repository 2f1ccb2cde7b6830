/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * Stacks at the interrupts of a timer and at perf events. The attach cookie is the number of the kind
 * of event.
 */
#ifndef USTACK_SAMPLE_H
#define USTACK_SAMPLE_H

#include "aggregate.h"

const volatile u64 max_elapsed = 0; /* nanoseconds that one sample can stand for */
volatile u64 sampled[MAX_EVENTS];   /* ns that samples stand for: since the CPU's last interrupt */

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, MAX_EVENTS);
	__type(key, u32);
	__type(value, u64);
} interrupted SEC(".maps"); /* when the CPU last was, by bpf_ktime_get_ns */

/*
 * since_last returns the nanoseconds since this CPU was last interrupted by that event, 0 at first. A
 * throttled event returns with the next tick, and an idle CPU has none: what is longer was not used.
 */
static __always_inline u64 since_last(u32 event)
{
	u64 *last = bpf_map_lookup_elem(&interrupted, &event);
	u64 now = bpf_ktime_get_ns(), elapsed;

	if (!last)
		return 0; /* cannot happen; tells the verifier so */
	elapsed = *last ? now - *last : 0;
	*last = now;
	return elapsed < max_elapsed ? elapsed : max_elapsed;
}

/* Counts a perf event, and as many as it stands for. */
static __always_inline void count_sample(void *ctx, u64 ids, struct walk *w, u64 events)
{
	u64 number = bpf_get_attach_cookie(ctx);

	mask_index(number, MAX_EVENTS - 1);
	__sync_fetch_and_add(&matched[number], events);
	capture(w, ctx, ids, with_kernel ? WITH_KERNEL : 0);
	add_to_stack(w, number, 0, events, events);
	give_back(w);
}

/* A timer interrupts the CPU: the attach cookie is the number of the kind of event. */
SEC("perf_event")
int on_sample(void *ctx)
{
	u64 ids = current_ids(), number = bpf_get_attach_cookie(ctx);
	u64 elapsed = since_last(number);
	struct walk *w = take_walk(ids >> 32);

	if (!w)
		return 0;
	mask_index(number, MAX_EVENTS - 1);
	__sync_fetch_and_add(&sampled[number], elapsed);
	count_sample(ctx, ids, w, 1);
	return 0;
}

/* A perf event, or one in so many of them. */
SEC("perf_event")
int on_perf_event(struct perf_event_data *ctx)
{
	u64 ids = current_ids(), events = ctx->sample_period;
	struct walk *w = take_walk(ids >> 32);

	if (w)
		count_sample(ctx, ids, w, events);
	return 0;
}

#endif
