/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * Why parts of stacks are missing: a counter for each cause.
 */
#ifndef USTACK_FAILURE_H
#define USTACK_FAILURE_H

#include "types.h"

/* By enum failure. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, FAILURES);
	__type(key, u32);
	__type(value, u64);
} failures SEC(".maps");

__noinline int count_failure(u32 cause)
{
	u64 *counter = bpf_map_lookup_elem(&failures, &cause);

	if (counter)
		count(*counter); /* a probe may interrupt another's */
	return 0;
}

#endif
