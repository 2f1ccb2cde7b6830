/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * Processes that send before nodesnoop watches them, since they have only just begun.
 */
#ifndef USTACK_EARLY_H
#define USTACK_EARLY_H

#include "ends.h"

#define EARLY 2000000000ull /* ns after a process has begun, in which it becomes watched, if ever */

/* When they did last, in ns of CLOCK_BOOTTIME, by tgid. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, u32);
	__type(value, u64);
} early_senders SEC(".maps");

/* A process that is not watched has sent something on a socket. */
static __always_inline void note_unwatched(struct sock *sk)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task_btf();
	u64 now = bpf_ktime_get_boot_ns();
	u32 tgid = current_ids() >> 32;
	u16 family;

	if (now - task->start_boottime > EARLY)
		return;
	family = BPF_CORE_READ(sk, __sk_common.skc_family);
	if (family == AF_INET || family == AF_INET6)
		bpf_map_update_elem(&early_senders, &tgid, &now, BPF_ANY);
}

#endif
