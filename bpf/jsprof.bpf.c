//go:build ignore

// SPDX-License-Identifier: GPL-2.0 OR MIT
//
// jsprof: which stacks cause the events of a process: CPU time, perf events, system calls, functions,
// USDT probes and tracepoints.
//
// Each kind of event has a number. If the process is one that user space described and the event meets
// all conditions, its stack is taken with JavaScript names, and the event is counted by it or adds its
// value. Processes that start or exec are announced, so that user space can describe them.
// Needs Linux 5.15.

#include "exec.h"
#include "calls.h"
#include "written.h"
#include "sample.h"
#include "usdt.h"

#define BYTES_OF_RECORD 8192 /* fields of a tracepoint begin before */

const volatile struct weigher weighers[MAX_EVENTS];
const volatile struct field fields[MAX_EVENTS][MAX_ARGUMENTS]; /* of tracepoints */
const volatile u32 quantized = 0; /* values are kept apart by powers of two */
const volatile u32 every = 1; /* of events without a period of their own, one in so many is taken */
const volatile u32 timed = 0; /* how long system calls take matters */
const volatile u32 paired = 0; /* what functions were called with, and when, matters */
volatile u64 unbegun =
    0; /* calls that began before they were seen, of which the beginning matters */

/* A record to check conditions on; null if the process is not traced. */
static __always_inline struct hit *begin_event(struct walk *w, u32 trigger)
{
	struct hit *hit;
	u32 number;

	if (!w)
		return 0;
	number = w->number;
	hit = bpf_map_lookup_elem(&hits, &number);
	if (!hit) {
		give_back(w);
		return 0; /* cannot happen; tells the verifier so */
	}
	hit->trigger = trigger;
	hit->match.length = 0;
	return hit;
}

/* What the event weighs; a result or an argument that is an int is not extended to 64 bits. */
static __always_inline s64 weigh(struct hit *hit, const volatile struct weigher *by)
{
	switch (by->weight) {
	case WEIGHT_DURATION:
		return hit->duration;
	case WEIGHT_RESULT:
		return hit->trigger == TRIGGER_SYSCALL ? hit->result : extended(hit->result);
	case WEIGHT_ARGUMENT:
		return argument_of(hit, by->argument);
	case WEIGHT_PRODUCT:
		return argument_of(hit, by->argument) * argument_of(hit, by->factor);
	}
	return 1;
}

/* Counts an event whose conditions hold, if it is one of those that are taken. */
static __always_inline void finish_event(void *ctx, struct walk *w, struct hit *hit, u32 with)
{
	u64 ids = current_ids(), number = hit->what;
	u32 bucket = 0;
	s64 value;

	mask_index(number, MAX_EVENTS - 1);
	count(matched[number]);
	if (every > 1 && bpf_get_prandom_u32() % every)
		goto out;
	with |= with_kernel ? WITH_KERNEL : 0;
	capture(w, ctx, ids, with);
	/* After the stack: older kernels verify what follows again for each of these branches. */
	value = weigh(hit, &weighers[number]);
	if (quantized)
		bucket = bucket_of(value);
	if (value < 0) {
		count(negative[number]);
		value = 0;
	}
	add_to_stack(w, number, bucket, every, (u64)value * every);
out:
	give_back(w);
}

/* System calls, at the tracepoints or at the functions that the kernel calls for them (stopon.bpf.c):
 * a row of syscalls has the number of the kind of event, from 1, as wanted.
 */

/* Counts a call of a traced process whose beginning was not seen. */
static __always_inline void count_unbegun(u64 ids)
{
	if (is_traced(ids))
		count(unbegun);
}

SEC("tp_btf/sys_enter")
int on_system_call(u64 *ctx)
{
	struct call_key key = { current_ids(), 0 };
	struct call call = {};
	u64 nr = syscall_number((struct pt_regs *)ctx[0]);

	if (nr >= MAX_SYSCALLS || !syscalls[nr].wanted || !handles_call(ctx, key.ids, nr))
		return 0;
	if (!timed || !is_traced(key.ids))
		return 0;
	call.begun = bpf_ktime_get_ns();
	bpf_map_update_elem(&calls, &key, &call, BPF_ANY);
	return 0;
}

SEC("tp_btf/sys_exit")
int on_system_call_end(u64 *ctx)
{
	struct pt_regs *regs = (struct pt_regs *)ctx[0];
	struct call_key key = { 0, 0 };
	u64 nr = syscall_number(regs), duration = 0;
	s64 result = ctx[1];
	struct walk *w;
	struct hit *hit;

	if (nr >= MAX_SYSCALLS || !syscalls[nr].wanted)
		return 0;
	key.ids = current_ids();
	if (!handles_end(ctx, key.ids, CALL_ENDS))
		return 0;
	if (timed) {
		duration = duration_of(&key);
		if (!duration) {
			count_unbegun(key.ids);
			return 0;
		}
	}
	if (duration < slower || !is_wanted_error(result))
		return 0;
	w = take_walk(key.ids >> 32);
	hit = begin_event(w, TRIGGER_SYSCALL);
	if (!hit)
		return 0;
	hit->result = result;
	hit->duration = duration;
	hit->what = syscalls[nr].wanted - 1;
	syscall_arguments(regs, hit->arguments);
	if (is_wanted_call(hit, &syscalls[nr]))
		finish_event(ctx, w, hit, 0);
	else
		give_back(w);
	return 0;
}

/* Functions: the attach cookie is the number of the kind of event. */

SEC("uprobe")
int on_entry(struct pt_regs *ctx)
{
	struct walk *w = take_walk(current_ids() >> 32);
	struct hit *hit = begin_event(w, TRIGGER_ENTRY);

	if (!hit)
		return 0;
	hit->what = bpf_get_attach_cookie(ctx);
	call_arguments(ctx, hit->arguments);
	if (all_hold(hit, -1))
		finish_event(ctx, w, hit, AT_ENTRY);
	else
		give_back(w);
	return 0;
}

SEC("uretprobe")
int on_return(struct pt_regs *ctx)
{
	struct call_key key = { current_ids(), user_sp(ctx) };
	struct call *call = bpf_map_lookup_elem(&calls, &key);
	u64 duration = call ? bpf_ktime_get_ns() - call->begun : 0;
	struct hit *hit = 0;
	struct walk *w = 0;

	if (paired && !call) {
		count_unbegun(key.ids);
		return 0;
	}
	if (duration >= slower) {
		w = take_walk(key.ids >> 32);
		hit = begin_event(w, TRIGGER_RETURN);
	}
	if (hit && call)
		__builtin_memcpy(hit->arguments, call->arguments, sizeof(hit->arguments));
	if (call)
		bpf_map_delete_elem(&calls, &key);
	if (!hit)
		return 0;
	hit->what = bpf_get_attach_cookie(ctx);
	hit->result = returned(ctx);
	hit->duration = duration;
	if (all_hold(hit, -1))
		finish_event(ctx, w, hit, 0);
	else
		give_back(w);
	return 0;
}

SEC("uprobe")
int on_usdt(struct pt_regs *ctx)
{
	u64 cookie = bpf_get_attach_cookie(ctx);
	struct walk *w = take_walk(current_ids() >> 32);
	struct hit *hit = begin_event(w, TRIGGER_ENTRY);

	if (!hit)
		return 0;
	hit->what = cookie & (MAX_EVENTS - 1);
	usdt_arguments(ctx, cookie, hit->arguments);
	if (all_hold(hit, -1))
		finish_event(ctx, w, hit, 0);
	else
		give_back(w);
	return 0;
}

/* A tracepoint, in the thread that reaches it; its first fields are the arguments. */
SEC("tracepoint")
int on_tracepoint(void *ctx)
{
	struct walk *w = take_walk(current_ids() >> 32);
	struct hit *hit = begin_event(w, TRIGGER_ENTRY);
	u64 number;

	if (!hit)
		return 0;
	number = bpf_get_attach_cookie(ctx);
	hit->what = number;
	mask_index(number, MAX_EVENTS - 1);
	for (u32 i = 0; i < MAX_ARGUMENTS; i++) {
		const volatile struct field *f = &fields[number][i];
		u64 at = f->offset, word = 0;

		if (f->size && at < BYTES_OF_RECORD)
			bpf_probe_read_kernel(&word, 8, ctx + at);
		hit->arguments[i] = resized(word, f->size, f->is_signed);
	}
	if (all_hold(hit, -1))
		finish_event(ctx, w, hit, 0);
	else
		give_back(w);
	return 0;
}

char _license[] SEC("license") = "Dual MIT/GPL";
