/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * Keeping a process that is about to end until user space has read the scripts that it was told of:
 * their sources end with it, and without them functions have names but no lines.
 */
#ifndef USTACK_LINGER_H
#define USTACK_LINGER_H

#include "function.h"

#define MAX_LINGER 10000000ull /* ns */
#define LINGER_STEPS 1024      /* squared, they take longer than that */

volatile u64 heard = 0; /* of the scripts told, those that user space has read: it counts them */

/* Waits for a moment; true if there is more to wait for. By itself, so that the verifier goes through
 * it once.
 */
__noinline int linger_on(u64 wanted, u64 begun)
{
	for (u32 i = 0; i < LINGER_STEPS; i++) {
		if ((s64)(wanted - heard) <= 0 || bpf_ktime_get_ns() - begun > MAX_LINGER)
			return 0;
	}
	return 1;
}

/* Nothing else runs on the CPU meanwhile, but for interrupts, which must be on: user space is woken
 * by one.
 */
static __always_inline void linger(void)
{
	u64 wanted = told, begun = bpf_ktime_get_ns();

	for (u32 i = 0; i < LINGER_STEPS; i++) {
		if (!linger_on(wanted, begun))
			return;
	}
}

/* A thread ends: sched_process_exit(task, whether it is the last). Its memory is there still, unless
 * the kernel is older than 6.16, which has no second argument and refuses this. User space reads as
 * the main thread does.
 */
SEC("raw_tp/sched_process_exit")
int on_end(u64 *ctx)
{
	u64 ids = current_ids();
	u32 tgid = ids >> 32;

	if ((ctx[1] || tgid == (u32)ids) && bpf_map_lookup_elem(&processes, &tgid))
		linger();
	return 0;
}

#endif
