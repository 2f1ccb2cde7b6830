/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * Walks for programs that can be preempted, by another thread's at the same place.
 */
#ifndef USTACK_BUSY_H
#define USTACK_BUSY_H

#include "stack.h"

volatile u64 unwalked = 0; /* events that came while all walks of their CPU were in use */

/* Not inlined: older kernels allow small stacks. */
static __noinline int count_unwalked(void)
{
	u32 tgid = current_ids() >> 32;

	if (bpf_map_lookup_elem(&processes, &tgid))
		count(unwalked);
	return 0;
}

/* A walk that is not in use on this CPU; null if all are, or the process is not traced. Only the
 * first one caches functions: nothing may disturb it while it uses the cache.
 */
static __always_inline struct walk *take_walk(u32 tgid)
{
	struct walk *w;

	for (u32 i = 0; i < MAX_WALKS; i++) {
		u32 number = i; /* the verifier loses count of what is in memory */

		w = bpf_map_lookup_elem(&walks, &number);
		if (!w || __sync_lock_test_and_set(&w->taken, 1))
			continue;
		w->forgetful = i > 0;
		w->number = i;
		if (walk_of(tgid, i))
			return w;
		w->taken = 0;
		return 0;
	}
	count_unwalked();
	return 0;
}

static __always_inline void give_back(struct walk *w)
{
	w->taken = 0;
}

#endif
