/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * For how long each CPU has been in use since its timer came last.
 */
#ifndef USTACK_TICK_H
#define USTACK_TICK_H

#include "event.h"

volatile u64 begun = 0; /* ns: when user space had attached the programs; 0: not yet */

/* When a CPU's timer came last, and for how long the CPU has been idle since, without a timer. */
struct tick {
	u64 last; /* ns; 0: it has not come yet */
	u64 since; /* ns: when the CPU became idle; 0: before the programs were attached, or it is not */
	u64 until; /* ns: when the CPU was last no longer idle */
	u64 idle;  /* ns */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct tick);
} ticks SEC(".maps");

static __always_inline struct tick *tick_of_cpu(void)
{
	u32 only = 0;

	return bpf_map_lookup_elem(&ticks, &only);
}

/* The CPU becomes idle, or is no longer. */
static __noinline void turn_idle(bool idle)
{
	struct tick *t = tick_of_cpu();
	u64 now = bpf_ktime_get_ns(), from;

	if (!t)
		return;
	if (idle) {
		t->since = now;
		return;
	}
	from = t->since ? t->since : t->until;
	if (from < begun)
		from = begun;
	if (from < t->last)
		from = t->last;
	if (begun && from < now)
		t->idle += now - from;
	t->since = 0;
	t->until = now;
}

/* How long the CPU has been in use since its last timer, in ns; another one has come now. 0 before
 * everything is attached.
 */
static __always_inline u64 take_busy(struct tick *t, u64 now)
{
	u64 from = t->last > begun ? t->last : begun, passed;

	passed = begun && from < now ? now - from : 0;
	passed -= passed < t->idle ? passed : t->idle;
	t->last = now;
	t->idle = 0;
	return passed;
}

#endif
