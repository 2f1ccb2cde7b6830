//go:build ignore

// SPDX-License-Identifier: GPL-2.0 OR MIT
//
// stopon: acts on a process at the very moment that something happens in it.
//
// A trigger is what may happen; conditions are what must hold for it to count. Both are checked
// here. When all hold, the stack is taken with JavaScript names and sent to user space, and the
// thread gets a signal that it takes before its next instruction in user mode. No signal is sent
// if user space cannot be notified.
// Needs Linux 5.15.

#include "calls.h"
#include "socket.h"
#include "throw.h"
#include "usdt.h"
#include "written.h"

#define MAX_LOOPS 16384 /* threads */
#define MAX_EXITS 1024
#define SI_FIELDS \
	16 /* include/uapi/asm-generic/siginfo.h: si_signo, si_errno, si_code, then a union */

/* Stalls of event loops */

struct loop {
	u64 since;    /* it last returned from its poll; 0: it is polling */
	u64 noticed;  /* 1: this stall was */
	u64 reported; /* the number of the match; 0: it was not reported */
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, MAX_LOOPS);
	__type(key, u64);
	__type(value, struct loop);
} loops SEC(".maps");

/* Processes whose program has begun while we watch, by tgid, until they poll for the first time:
 * starting up is no stall. User space enters them.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, MAX_PROCESSES);
	__type(key, u32);
	__type(value, u8);
} starting SEC(".maps");

/* Sends user space the length of a stall. There is no stack. */
static __always_inline void send_stall_end(u64 ids, u64 number, u64 duration)
{
	struct hit *hit = bpf_ringbuf_reserve(&events, sizeof(*hit), 0);

	if (!hit)
		return;
	__builtin_memset(hit, 0, sizeof(*hit));
	hit->event = EVENT_HIT;
	hit->trigger = TRIGGER_STALL_END;
	hit->ids = ids;
	hit->time = bpf_ktime_get_ns();
	hit->number = number;
	hit->duration = duration;
	bpf_ringbuf_submit(hit, BPF_RB_FORCE_WAKEUP);
}

/* The loop begins its poll (since 0), or returns from it. check_stall may run at any instant of this:
 * it finds the stall that was, or none.
 */
static __always_inline void turn(u64 ids, u64 since)
{
	struct loop *loop = bpf_map_lookup_elem(&loops, &ids), fresh = { .since = since };
	u64 before, reported, now;
	u32 tgid = ids >> 32;

	if (loop) {
		now = bpf_ktime_get_ns();
		before = __sync_lock_test_and_set(&loop->since, 0);
		reported = __sync_lock_test_and_set(&loop->reported, 0);
		if (reported)
			send_stall_end(ids, reported, now - before);
		if (!__sync_lock_test_and_set(&loop->noticed, 0) && before && now - before > stall)
			count(missed);
		if (since)
			__sync_lock_test_and_set(&loop->since, since);
	} else if (bpf_map_lookup_elem(&processes, &tgid)) {
		bpf_map_update_elem(&loops, &ids, &fresh, BPF_ANY);
		if (tgid == (u32)ids) /* V8's workers poll before the program begins */
			bpf_map_delete_elem(&starting, &tgid);
	}
}

/* Starts to time the loop of a main thread whose polls were not seen, unless the program is starting.
 * User space records a start, then deletes the loop; if this program looked before the start was
 * recorded, one of the two still deletes the loop.
 */
static __always_inline void begin_loop(u64 ids, u64 now)
{
	struct loop fresh = { .since = now };
	u32 tgid = ids >> 32;

	if (bpf_map_lookup_elem(&starting, &tgid) || !bpf_map_lookup_elem(&processes, &tgid))
		return;
	bpf_map_update_elem(&loops, &ids, &fresh, BPF_ANY);
	if (bpf_map_lookup_elem(&starting, &tgid))
		bpf_map_delete_elem(&loops, &ids);
}

/* Acts if the thread's event loop has stalled. Every main thread is assumed to run one. */
static __always_inline void check_stall(void *ctx, u64 ids)
{
	struct loop *loop = bpf_map_lookup_elem(&loops, &ids);
	u64 now = bpf_ktime_get_ns(), number;
	u32 tgid = ids >> 32;
	struct walk *w;
	struct hit *hit;

	if (!loop) {
		if (tgid == (u32)ids)
			begin_loop(ids, now);
		return;
	}
	if (!loop->since || loop->noticed || now < loop->since + stall)
		return;
	if (__sync_lock_test_and_set(&loop->noticed, 1))
		return; /* by another call, at the end of a system call that came just here */
	w = take_walk(ids >> 32);
	hit = begin_hit(w, ids, TRIGGER_STALL);
	if (!hit) {
		loop->noticed = 0;
		return;
	}
	hit->duration = hit->time - loop->since;
	if (finish_hit(ctx, w, hit, 0)) {
		number = hit->number;
		loop->reported = number;
	}
}

/* On each CPU, many times a second: finds a thread that stalls while it runs. */
SEC("perf_event")
int on_tick(void *ctx)
{
	u64 ids = current_ids();
	struct walk *w;
	struct hit *hit;

	if (stall) {
		check_stall(ctx, ids);
		return 0;
	}
	w = take_walk(ids >> 32);
	hit = begin_hit(w, ids, TRIGGER_JS);
	if (hit)
		finish_hit(ctx, w, hit, 0);
	return 0;
}

/* System calls: all of them at the tracepoints; or a few, each at the beginning and the end of the
 * function that the kernel calls for it (fentry, fexit). User space then loads these programs once
 * for each: the context is alike, the registers and at the end the result, which the registers do
 * not have yet there.
 */

SEC("tp_btf/sys_enter")
int on_system_call(u64 *ctx)
{
	struct call_key key = { current_ids(), 0 };
	struct call call = {};
	u64 nr = syscall_number((struct pt_regs *)ctx[0]);
	bool polls;

	if (nr >= MAX_SYSCALLS)
		return 0;
	polls = stall && syscalls[nr].polls;
	if ((!polls && !syscalls[nr].wanted) || !handles_call(ctx, key.ids, nr))
		return 0;
	if (polls)
		turn(key.ids, 0);
	if (!slower || !syscalls[nr].wanted || !is_traced(key.ids))
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
	u64 nr, duration = 0;
	s64 result = ctx[1];
	struct walk *w;
	struct hit *hit;

	if (!slower && !repeats && !is_wanted_error(result))
		return 0; /* as most calls of the machine */
	nr = syscall_number(regs);
	if (nr >= MAX_SYSCALLS || !syscalls[nr].wanted)
		return 0;
	key.ids = current_ids();
	if (!handles_end(ctx, key.ids, CALL_ENDS))
		return 0;
	if (slower)
		duration = duration_of(&key);
	if (duration < slower || !is_wanted_error(result))
		return 0;
	w = take_walk(key.ids >> 32);
	hit = begin_hit(w, key.ids, TRIGGER_SYSCALL);
	if (!hit)
		return 0;
	hit->what = nr;
	hit->result = result;
	hit->duration = duration;
	syscall_arguments(regs, hit->arguments);
	if (!is_wanted_call(hit, &syscalls[nr])) {
		give_back(w);
		return 0;
	}
	read_addresses(hit, &syscalls[nr]);
	finish_hit(ctx, w, hit, 0);
	return 0;
}

/* Follows event loops. It is a program of its own since older kernels have no stack for two matches
 * in one.
 */
SEC("tp_btf/sys_exit")
int on_call_in_loop(u64 *ctx)
{
	u64 nr = syscall_number((struct pt_regs *)ctx[0]), ids;

	if (nr >= MAX_SYSCALLS)
		return 0;
	ids = current_ids();
	if (!syscalls[nr].polls)
		check_stall(ctx, ids); /* any number of programs may */
	else if (handles_end(ctx, ids, POLL_ENDS))
		turn(ids, bpf_ktime_get_ns());
	return 0;
}

/* Functions: the attach cookie is the function's number */

SEC("uprobe")
int on_entry(struct pt_regs *ctx)
{
	u64 ids = current_ids();
	struct walk *w = take_walk(ids >> 32);
	struct hit *hit = begin_hit(w, ids, TRIGGER_ENTRY);

	if (!hit)
		return 0;
	hit->what = bpf_get_attach_cookie(ctx);
	call_arguments(ctx, hit->arguments);
	if (all_hold(hit, -1))
		finish_hit(ctx, w, hit, AT_ENTRY);
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

	if (duration >= slower) {
		w = take_walk(key.ids >> 32);
		hit = begin_hit(w, key.ids, TRIGGER_RETURN);
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
		finish_hit(ctx, w, hit, 0);
	else
		give_back(w);
	return 0;
}

/* Keeps the text of the first argument that may be one. */
static __always_inline void read_usdt_text(struct hit *hit, const struct usdt *usdt)
{
	long length;

	for (u32 i = 0; i < MAX_ARGUMENTS; i++) {
		if (!may_be_text(&usdt->arguments[i]))
			continue;
		length = bpf_probe_read_user_str(
		    hit->match.text, MATCH_BYTES, (void *)argument_of(hit, i));
		hit->match.length = length > 0 ? length - 1 : 0;
		return;
	}
}

/* A USDT probe: the lower half of the attach cookie is its number. */
SEC("uprobe")
int on_usdt(struct pt_regs *ctx)
{
	u64 ids = current_ids(), cookie = bpf_get_attach_cookie(ctx);
	struct walk *w = take_walk(ids >> 32);
	struct hit *hit = begin_hit(w, ids, TRIGGER_USDT);
	struct usdt *usdt;

	if (!hit)
		return 0;
	hit->what = cookie;
	hit->result = cookie >> USDT_SHIFT; /* which of the probes of that number */
	usdt = usdt_arguments(ctx, cookie, hit->arguments);
	if (!all_hold(hit, -1)) {
		give_back(w);
		return 0;
	}
	if (usdt)
		read_usdt_text(hit, usdt);
	finish_hit(ctx, w, hit, 0);
	return 0;
}

/* Programs that are about to exit, by generation: some pass several of the places where they do. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, MAX_EXITS);
	__type(key, u32);
	__type(value, u8);
} exits SEC(".maps");

/* exit(status), _exit(status): the system call itself does not come back, which would leave no
 * moment to stop at.
 */
SEC("uprobe")
int on_exit(struct pt_regs *ctx)
{
	u64 ids = current_ids();
	s32 status = argument0(ctx) & 0xff; /* the rest is lost */
	struct walk *w;
	struct hit *hit;
	u8 seen = 1;

	if (!holds(exit_code.comparison, status, exit_code.value))
		return 0;
	w = take_walk(ids >> 32);
	hit = begin_hit(w, ids, TRIGGER_EXIT);
	if (!hit)
		return 0;
	hit->result = status;
	if (bpf_map_update_elem(&exits, &w->process.generation, &seen, BPF_NOEXIST))
		give_back(w);
	else
		finish_hit(ctx, w, hit, AT_ENTRY);
	return 0;
}

/* Signals */

/* include/linux/signal_types.h: the head of siginfo_t as users know it */
struct kernel_siginfo;

SEC("tp_btf/signal_deliver")
int on_signal(u64 *ctx)
{
	u32 number = (u32)ctx[0];
	s32 head[4];
	struct walk *w;
	struct hit *hit;
	u64 ids;

	if (number < 1 || number > 64 || !(signals >> (number - 1) & 1))
		return 0;
	ids = current_ids();
	w = take_walk(ids >> 32);
	hit = begin_hit(w, ids, TRIGGER_SIGNAL);
	if (!hit)
		return 0;
	hit->what = number;
	if (!bpf_probe_read_kernel(head, sizeof(head), (void *)ctx[1])) {
		hit->arguments[0] = (s64)head[2];
		bpf_probe_read_kernel(&hit->arguments[1], 8, (void *)(ctx[1] + SI_FIELDS));
	}
	finish_hit(ctx, w, hit, 0);
	return 0;
}

char _license[] SEC("license") = "Dual MIT/GPL";
