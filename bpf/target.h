/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * Which processes are traced, and what the kernel knows about each: where its code is and of
 * what kind, and how its V8 lays out objects. User space writes a struct process for each
 * process; a process without one is not traced.
 */
#ifndef USTACK_TARGET_H
#define USTACK_TARGET_H

#include "types.h"

#define MAX_PID_LEVELS 8

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_PROCESSES);
	__type(key, u32);
	__type(value, struct process);
} processes SEC(".maps");

/* Change counters of processes, and of what was sent about them: user space bumps described, when it
 * describes a process or deletes what it wants to have sent again; the kernel bumps execs. There are
 * two because neither side can increment the other's.
 */
volatile u32 described = 1, execs = 0;

/* Whether user space has described the process; ids as current_ids() has them. */
static __always_inline bool is_traced(u64 ids)
{
	u32 tgid = ids >> 32;

	return bpf_map_lookup_elem(&processes, &tgid) != 0;
}

/* Inode of user space's pid namespace; 0: the initial one, which the kernel uses. */
const volatile u32 pid_namespace = 0;

/* The task's pid in user space's pid namespace; 0: it has none there. */
static __always_inline u32 number_of(struct task_struct *task)
{
	struct pid *pid = BPF_CORE_READ(task, thread_pid);
	u32 level = BPF_CORE_READ(pid, level);
	struct upid upid;

	for (u32 i = 0; i < MAX_PID_LEVELS && i <= level; i++) {
		bpf_probe_read_kernel(&upid, sizeof(upid), &pid->numbers[i]);
		if (BPF_CORE_READ(upid.ns, ns.inum) == pid_namespace)
			return upid.nr;
	}
	return 0;
}

/* The current thread's ids in that namespace: tgid in the upper half, tid in the lower. */
static __always_inline u64 current_ids(void)
{
	struct task_struct *task;

	if (!pid_namespace)
		return bpf_get_current_pid_tgid();
	task = (struct task_struct *)bpf_get_current_task();
	return (u64)number_of(BPF_CORE_READ(task, group_leader)) << 32 | number_of(task);
}

#endif
