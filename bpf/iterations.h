/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * What event loops do between two system calls in which libuv waits.
 */
#ifndef USTACK_ITERATIONS_H
#define USTACK_ITERATIONS_H

#include "snooped.h"

volatile u64 iterations = 0; /* that ended */

/* What an event loop did between two waits. */
struct iteration {
	u32 event; /* EVENT_ITERATION */
	u32 generation;
	u64 ids;           /* tgid, tid */
	u64 begun, length; /* ns */
};

/* Keeps a type that no map names in the object, for Go's bindings. */
const struct iteration *iteration_unused __attribute__((unused));

#define MAX_WAITS 4

/* The system calls in which libuv waits, by number; 0: none. */
const volatile u32 waits[MAX_WAITS];

/* When each thread of the processes woke last, ns. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_THREADS);
	__type(key, u64); /* tgid, tid */
	__type(value, u64);
} woken SEC(".maps");

static __always_inline bool is_wait(u64 call)
{
	for (u32 i = 0; i < MAX_WAITS; i++) {
		if (waits[i] && call == waits[i])
			return true;
	}
	return false;
}

/* args: struct pt_regs *, number of the call */
SEC("raw_tp/sys_enter")
int on_wait(u64 *args)
{
	struct iteration iteration = { .event = EVENT_ITERATION };
	struct process *process;
	u64 ids, *since;
	u32 tgid;

	if (!is_wait(args[1]))
		return 0;
	ids = current_ids();
	tgid = ids >> 32;
	since = bpf_map_lookup_elem(&woken, &ids);
	process = bpf_map_lookup_elem(&processes, &tgid);
	if (!since || !process)
		return 0;
	count(iterations);
	iteration.generation = process->generation;
	iteration.ids = ids;
	iteration.begun = *since;
	iteration.length = bpf_ktime_get_ns() - iteration.begun;
	if (iteration.length >= slower)
		send_event(&iteration, sizeof(iteration));
	return 0;
}

/* args: struct pt_regs *, result */
SEC("raw_tp/sys_exit")
int on_woken(u64 *args)
{
	struct pt_regs *regs = user_regs((struct task_struct *)bpf_get_current_task_btf());
	u64 ids, now;
	u32 tgid;

	if (!is_wait(syscall_number(regs)))
		return 0;
	ids = current_ids();
	tgid = ids >> 32;
	if (!bpf_map_lookup_elem(&processes, &tgid))
		return 0;
	now = bpf_ktime_get_ns();
	bpf_map_update_elem(&woken, &ids, &now, BPF_ANY);
	return 0;
}

#endif
