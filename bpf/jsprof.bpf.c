//go:build ignore

// SPDX-License-Identifier: GPL-2.0 OR MIT
//
// jsprof: where the CPU time of a process goes, by the stack it is spent in.
//
// A perf event on each CPU interrupts at a fixed rate. If the interrupted process is one that user
// space described, its stack is taken with JavaScript names and counted by content; a stack's
// frames are sent once. Processes that start or exec are announced, so that user space can describe
// them.
// Needs Linux 5.15.

#include "stack.h"

#define MAX_STACKS 32768

const volatile u32 with_kernel = 0; /* take kernel frames too */
volatile u64 samples = 0;           /* in described processes */
volatile u64 lost = 0;              /* samples there was no room for */
volatile u64 truncated = 0;         /* samples deeper than MAX_FRAMES */

struct stack_key {
	u64 ids;
	u64 hash;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_STACKS);
	__type(key, struct stack_key);
	__type(value, u64);
} counts SEC(".maps");

static __always_inline void count_stack(struct walk *w)
{
	struct stack_key key = { .ids = w->stack.ids, .hash = w->stack.hash };
	u64 *seen, one = 1;

	if (w->stack.flags & STACK_TRUNCATED)
		count(truncated);
	seen = bpf_map_lookup_elem(&counts, &key);
	if (seen) {
		count(*seen);
		return;
	}
	if (!send_stack(w) || bpf_map_update_elem(&counts, &key, &one, BPF_ANY))
		count(lost);
}

SEC("perf_event")
int on_sample(void *ctx)
{
	u64 ids = current_ids();
	struct walk *w = walk_of(ids >> 32);

	if (!w)
		return 0;
	count(samples);
	capture(w, ctx, ids, with_kernel);
	count_stack(w);
	return 0;
}

/* A process has a new program: what was known of it no longer holds. */
struct exec {
	u32 event; /* EVENT_EXEC */
	u32 pid;
	u32 parent;
	u32 pad;
	u8 comm[COMM_BYTES];
};

/* Keeps types that no map names in the object, for Go's bindings. */
const struct exec *exec_unused __attribute__((unused));

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

char _license[] SEC("license") = "Dual MIT/GPL";
