/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * What event loops do between two system calls in which libuv waits.
 */
#ifndef USTACK_ITERATIONS_H
#define USTACK_ITERATIONS_H

#include "once.h"
#include "snooped.h"
#include "unended.h"

volatile u64 iterations = 0; /* that ended */

/* What an event loop did between two waits. */
struct iteration {
	u32 event; /* EVENT_ITERATION */
	u32 generation;
	u64 ids;           /* tgid, tid */
	u64 begun, length; /* ns */
	u64 hash;          /* of the stack that was taken once it was long; 0: none */
};

/* Keeps a type that no map names in the object, for Go's bindings. */
const struct iteration *iteration_unused __attribute__((unused));

#define MAX_WAITS 4

/* The system calls in which libuv waits, by number; 0: none. */
const volatile u32 waits[MAX_WAITS];

/* What a thread does since it woke last. */
struct turn {
	u64 since;   /* ns, CLOCK_MONOTONIC */
	u64 noticed; /* 1: it has been long, and its stack was taken */
	u64 hash;
};

/* Of each thread of the processes. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_THREADS);
	__type(key, u64); /* tgid, tid */
	__type(value, struct turn);
} woken SEC(".maps");

static __always_inline bool is_wait(u64 call)
{
	for (u32 i = 0; i < MAX_WAITS; i++) {
		if (waits[i] && call == waits[i])
			return true;
	}
	return false;
}

/* sys_enter(struct pt_regs *, number of the call) */
SEC("tp_btf/sys_enter")
int on_wait(u64 *ctx)
{
	struct iteration iteration = { .event = EVENT_ITERATION };
	struct process *process;
	struct turn *turn;
	u64 ids;
	u32 tgid;

	if (!is_wait(ctx[1]))
		return 0;
	ids = current_ids();
	tgid = ids >> 32;
	if (!handles_begin(ctx, ids))
		return 0;
	turn = bpf_map_lookup_elem(&woken, &ids);
	process = bpf_map_lookup_elem(&processes, &tgid);
	if (!turn || !process)
		return 0;
	count(iterations);
	iteration.generation = process->generation;
	iteration.ids = ids;
	iteration.begun = turn->since;
	iteration.hash = turn->hash;
	iteration.length = bpf_ktime_get_ns() - iteration.begun;
	if (iteration.length >= slower)
		send_event(&iteration, sizeof(iteration));
	return 0;
}

/* Takes the stack of a thread whose turn has lasted long, once. */
static __always_inline void check_turn(void *ctx, u64 ids)
{
	struct turn *turn = bpf_map_lookup_elem(&woken, &ids);

	if (!turn || turn->noticed || bpf_ktime_get_ns() - turn->since < slower)
		return;
	if (!__sync_lock_test_and_set(&turn->noticed, 1))
		turn->hash = stack_once(ctx, ids, 0);
}

/* On each CPU, many times a second: finds a thread whose turn becomes long while it runs. */
SEC("perf_event")
int on_loop_tick(void *ctx)
{
	check_turn(ctx, current_ids());
	return 0;
}

/* sys_exit(struct pt_regs *, result) */
SEC("tp_btf/sys_exit")
int on_woken(u64 *ctx)
{
	struct turn turn = {};
	u64 ids;

	if (!is_wait(syscall_number((struct pt_regs *)ctx[0]))) {
		if (with_stacks) /* it may have waited in this call, where no tick comes */
			check_turn(ctx, current_ids());
		return 0;
	}
	ids = current_ids();
	if (!is_traced(ids) || !handles_end(ctx, ids, CALL_ENDS))
		return 0;
	turn.since = bpf_ktime_get_ns();
	bpf_map_update_elem(&woken, &ids, &turn, BPF_ANY);
	return 0;
}

#endif
