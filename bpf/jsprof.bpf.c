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

#include "exec.h"
#include "stack.h"

#define MAX_STACKS 32768

const volatile u32 with_kernel = 0; /* take kernel frames too */
const volatile u64 max_elapsed = 0; /* nanoseconds that one sample can stand for */
volatile u64 samples = 0;           /* in described processes */
volatile u64 sampled = 0;   /* nanoseconds that they stand for: since the CPU's last interrupt */
volatile u64 lost = 0;      /* samples there was no room for */
volatile u64 truncated = 0; /* samples deeper than MAX_FRAMES */

struct stack_key {
	u64 ids;
	u64 hash;
};

/* Names are only sent. */
static __always_inline void note_name(struct walk *w)
{
}

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_STACKS);
	__type(key, struct stack_key);
	__type(value, u64);
} counts SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u64);
} interrupted SEC(".maps"); /* when the CPU last was, by bpf_ktime_get_ns */

/*
 * since_last returns the nanoseconds since this CPU was last interrupted, 0 at first. A throttled
 * event returns with the next tick, and an idle CPU has none: what is longer was not used.
 */
static __always_inline u64 since_last(void)
{
	u32 zero = 0;
	u64 *last = bpf_map_lookup_elem(&interrupted, &zero);
	u64 now = bpf_ktime_get_ns(), elapsed;

	if (!last)
		return 0; /* cannot happen; tells the verifier so */
	elapsed = *last ? now - *last : 0;
	*last = now;
	return elapsed < max_elapsed ? elapsed : max_elapsed;
}

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
	if (!send_stack(w, w->stack.flags & STACK_NEW_CODE) ||
	    bpf_map_update_elem(&counts, &key, &one, BPF_ANY))
		count(lost);
}

SEC("perf_event")
int on_sample(void *ctx)
{
	u64 elapsed = since_last(), ids = current_ids();
	struct walk *w = walk_of(ids >> 32, 0);

	if (!w)
		return 0;
	count(samples);
	__sync_fetch_and_add(&sampled, elapsed);
	capture(w, ctx, ids, with_kernel ? WITH_KERNEL : 0);
	count_stack(w);
	return 0;
}

char _license[] SEC("license") = "Dual MIT/GPL";
