/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * Reports processes that execute a new program to user space, which describes those it traces.
 */
#ifndef USTACK_EXEC_H
#define USTACK_EXEC_H

#include "v8_name.h"

/* Notes who has started the current process. What lies outside the namespace is 0. */
static __always_inline void note_ancestors(u32 *ancestors)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();

	for (u32 i = 0; i < MAX_ANCESTORS; i++) {
		task = BPF_CORE_READ(task, real_parent, group_leader);
		ancestors[i] = pid_namespace ? number_of(task) : (u32)BPF_CORE_READ(task, tgid);
		if (!ancestors[i])
			return;
	}
}

SEC("raw_tp/sched_process_exec")
int on_exec(void *ctx)
{
	struct exec exec = { .event = EVENT_EXEC };

	exec.pid = current_ids() >> 32;
	if (!exec.pid)
		return 0;
	if (!bpf_map_delete_elem(&processes, &exec.pid))
		count(execs);
	note_ancestors(exec.ancestors);
	bpf_get_current_comm(exec.comm, sizeof(exec.comm));
	send(&exec, sizeof(exec), true);
	return 0;
}

#endif
