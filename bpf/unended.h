/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * System calls where their ends may go unseen (meanwhile.h): one whose end no program saw is counted
 * when its thread makes the next one.
 */
#ifndef USTACK_UNENDED_H
#define USTACK_UNENDED_H

#include "meanwhile.h"

volatile u64 unended = 0; /* calls whose end no program saw */

/* Threads in a call. User space makes room as for handled. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1);
	__type(key, u64); /* tgid, tid */
	__type(value, u8);
} in_call SEC(".maps");

/* Whether the program is the one to handle that a call begins, which returns. */
static __always_inline bool handles_begin(void *ctx, u64 ids)
{
	u8 is = 1;

	if (!is_to_handle(ctx, ids, CALL_BEGINS))
		return false;
	if (repeats && bpf_map_update_elem(&in_call, &ids, &is, BPF_NOEXIST))
		count(unended); /* the one before */
	return true;
}

/* Whether the program is the one to handle that a call ends, at that moment. */
static __always_inline bool handles_end(void *ctx, u64 ids, enum moment moment)
{
	if (!is_to_handle(ctx, ids, moment))
		return false;
	if (repeats)
		bpf_map_delete_elem(&in_call, &ids);
	return true;
}

#endif
