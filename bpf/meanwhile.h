/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * Tracepoints at which the kernel may preempt a thread in a program. Until that thread runs on, the
 * kernel does not run the program for others on its CPU. User space then attaches it more than once:
 * the attach cookie of the first is 0, the others are numbered. Of those that run for a thread's
 * event, one handles it.
 */
#ifndef USTACK_MEANWHILE_H
#define USTACK_MEANWHILE_H

#include "target.h"

enum moment { CALL_BEGINS, CALL_ENDS, POLL_ENDS }; /* four at most */

const volatile u32 repeats = 0; /* how many programs there are besides the first */

/* Threads whose event a program has handled, and the last one has not met yet. User space makes room
 * for more than one if there are other programs.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1);
	__type(key, u64); /* tgid, tid, and the moment in the two highest bits */
	__type(value, u8);
} handled SEC(".maps");

/* Whether the program is the one to handle what a thread, of a traced process, has come to. */
static __always_inline bool is_to_handle(void *ctx, u64 ids, enum moment moment)
{
	u64 key = ids | (u64)moment << 62, number;
	u8 is = 1;

	if (!repeats)
		return true;
	if (!is_traced(ids))
		return false;
	number = bpf_get_attach_cookie(ctx);
	if (number == repeats)
		return bpf_map_delete_elem(&handled, &key) != 0;
	return !bpf_map_update_elem(&handled, &key, &is, number ? BPF_NOEXIST : BPF_ANY);
}

#endif
