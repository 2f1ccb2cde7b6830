/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * Reports processes that execute a new program to user space, which describes those it traces.
 */
#ifndef USTACK_EXEC_H
#define USTACK_EXEC_H

#include "v8_name.h"

SEC("raw_tp/sched_process_exec")
int on_exec(void *ctx)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task_btf();
	struct exec exec = { .event = EVENT_EXEC };

	exec.pid = current_ids() >> 32;
	if (!exec.pid)
		return 0;
	if (!bpf_map_delete_elem(&processes, &exec.pid))
		count(execs);
	exec.parent = pid_namespace ? number_of(BPF_CORE_READ(task, real_parent)) :
	                              (u32)BPF_CORE_READ(task, real_parent, tgid);
	bpf_get_current_comm(exec.comm, sizeof(exec.comm));
	send(&exec, sizeof(exec), true);
	return 0;
}

#endif
