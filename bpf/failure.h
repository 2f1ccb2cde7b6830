/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * Why parts of stacks are missing: a counter for each cause.
 */
#ifndef USTACK_FAILURE_H
#define USTACK_FAILURE_H

#include "types.h"

/* By enum failure, for all CPUs: a map of counters for each CPU takes a function call, for which older
 * kernels have no stack left (Linux 6.1: 512 bytes for a program and the functions it calls).
 */
u64 failures[FAILURES];

static __always_inline void count_failure(u32 cause)
{
	if (cause < FAILURES)
		count(failures[cause]);
}

#endif
