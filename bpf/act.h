/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * What is done about an event that matched: its record and its stack are sent, and a signal is
 * raised. Also which processes that has stopped, and what ends it.
 */
#ifndef USTACK_ACT_H
#define USTACK_ACT_H

#include "exec.h"
#include "predicate.h"

#define MAX_STOPPED 1024
#define MAX_TALLIES 2048
#define ACT_TRIES 4 /* to find a place among others that act at the same instant */
#define CAPTURED 4  /* beside what a stack is taken with: it was taken already */
#define SIGCONT 18
#define SIGSTOP 19
#define SEND_SIG_PRIV 1                  /* include/linux/sched/signal.h: from the kernel */
#define JOBCTL_STOP_PENDING (1ull << 17) /* include/linux/sched/jobctl.h */
#define SIGNAL_GROUP_EXIT 4              /* include/linux/sched/signal.h */

enum { EVENT_HIT = EVENT_TOOL };

const volatile struct condition exit_code;
const volatile u64 signals = 0;             /* bit n - 1: signal n */
const volatile u64 stall = 0, interval = 0; /* ns; 0: not asked for */
const volatile u64 burst = 1;               /* actions within each interval */
const volatile u64 nth = 1;                 /* the first match that counts */
const volatile u32 raised = 0;              /* the signal; 0: none */
const volatile u32 owner = 0;               /* the process that resumes others */

volatile s64 remaining = 0; /* times to act */
volatile u64 matches = 0, limited = 0;
volatile u64 sent = 0;       /* matches sent to user space */
volatile u64 lost = 0;       /* matches that did not fit into events: nothing was done */
volatile u64 missed = 0;     /* stalls whose stack was not taken: the thread hardly ran */
volatile u32 owner_ends = 0; /* 1: it has begun to end, and nothing is stopped any longer */

/* Keeps the type, which no map names as such, in the object for Go's bindings. */
const struct hit *hit_unused __attribute__((unused));

/* A process that we stopped by a signal. */
struct stop {
	u64 since;  /* ns, CLOCK_MONOTONIC */
	u32 others; /* 1: somebody else stopped it too, so it stays stopped */
	u32 pad;
};

/* Processes that we stopped, by tgid. User space resumes them; if it dies or is suspended, its
 * supervisor does. While there is an entry 0, nothing is stopped.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_STOPPED);
	__type(key, u32);
	__type(value, struct stop);
} stopped SEC(".maps");

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

typedef struct {
	unsigned long sig[1];
} sigset_t;

struct sigpending {
	sigset_t signal;
};

struct signal_struct {
	unsigned int flags;
	struct sigpending shared_pending;
};

struct task_struct___signalled {
	unsigned long jobctl;
	struct sigpending pending;
	struct signal_struct *signal;
};

#pragma clang attribute pop

/* How often a trigger matched, by what it was about: exact, also where nothing was done. */
struct tally_key {
	u32 trigger;
	u32 what; /* as in struct hit, of system calls, functions and signals; 0: of others */
};

struct tally {
	u64 matches;
	u64 limited; /* of those, came too soon after others */
	u64 lost;    /* of those, did not fit into events */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_TALLIES);
	__type(key, struct tally_key);
	__type(value, struct tally);
} tallies SEC(".maps");

volatile u64 untallied = 0; /* matches for which tallies had no room */

/* When the last actions were, as many as interval may have. */
volatile u64 acted[MAX_BURST];
volatile u64 acted_count = 0;

/* Whether somebody else is stopping the process: by a SIGSTOP that no thread has taken yet, or one
 * that another thread has.
 */
static __always_inline bool is_stopping(void)
{
	struct task_struct___signalled *task = (void *)bpf_get_current_task_btf();
	unsigned long pending = BPF_CORE_READ(task, pending.signal.sig[0]) |
	    BPF_CORE_READ(task, signal, shared_pending.signal.sig[0]);

	return pending >> (SIGSTOP - 1) & 1 || BPF_CORE_READ(task, jobctl) & JOBCTL_STOP_PENDING;
}

/* A record to fill; null if the process is not traced, or held by us. */
static __always_inline struct hit *begin_hit(struct walk *w, u64 ids, u32 trigger)
{
	u32 tgid = ids >> 32, number;
	struct hit *hit;

	if (!w)
		return 0;
	number = w->number;
	hit = bpf_map_lookup_elem(&hits, &number);
	if (!hit || (raised == SIGSTOP && bpf_map_lookup_elem(&stopped, &tgid))) {
		give_back(w); /* what happens until it is resumed is our own doing */
		return 0;
	}
	__builtin_memset(hit, 0, sizeof(*hit));
	hit->event = EVENT_HIT;
	hit->trigger = trigger;
	hit->ids = ids;
	hit->time = bpf_ktime_get_ns();
	return hit;
}

/* The trigger's counters; null if there is no room for them. */
static __always_inline struct tally *tally_of(struct hit *hit)
{
	struct tally_key key = { .trigger = hit->trigger };
	struct tally fresh = {}, *tally;

	if (hit->trigger <= TRIGGER_SIGNAL)
		key.what = hit->what;
	tally = bpf_map_lookup_elem(&tallies, &key);
	if (tally)
		return tally;
	bpf_map_update_elem(&tallies, &key, &fresh, BPF_NOEXIST);
	return bpf_map_lookup_elem(&tallies, &key);
}

/* Whether fewer than burst actions lie within interval before now. If so, this one is recorded. */
static __always_inline bool is_in_rate(u64 now)
{
	u64 number = acted_count, before, at;

#pragma unroll
	for (u32 i = 0; i < ACT_TRIES; i++, number++) {
		at = number % burst; /* of the oldest */
		mask_index(at, MAX_BURST - 1);
		before = acted[at];
		if (before && (s64)(now - before) < (s64)interval)
			return false;
		if (__sync_val_compare_and_swap(&acted[at], before, now) == before) {
			__sync_fetch_and_add(&acted_count, 1);
			return true;
		}
	}
	return false;
}

/* Whether to act on this match: it is the nth or a later one, not too soon after others, and
 * actions remain. Not inlined, for older kernels allow small stacks.
 */
static __noinline bool is_due(struct hit *hit)
{
	struct tally *tally = tally_of(hit);

	hit->number = __sync_fetch_and_add(&matches, 1) + 1;
	if (tally)
		count(tally->matches);
	else
		count(untallied);
	if (hit->number < nth)
		return false;
	if (interval && !is_in_rate(hit->time)) {
		count(limited);
		if (tally)
			count(tally->limited);
		return false;
	}
	return remaining > 0 && __sync_fetch_and_add(&remaining, -1) > 0;
}

/* The thread takes the signal before its next instruction in user mode. */
static __always_inline void raise(struct hit *hit)
{
	u32 tgid = hit->ids >> 32, paused = 0;
	struct stop stop = { .since = hit->time };

	if (!raised)
		return;
	if (raised == SIGSTOP) {
		if (owner_ends || bpf_map_lookup_elem(&stopped, &paused))
			return;
		stop.others = is_stopping();
		if (bpf_map_update_elem(&stopped, &tgid, &stop, BPF_ANY))
			return;
	}
	if (!bpf_send_signal_thread(raised))
		hit->raised = raised;
	else if (raised == SIGSTOP)
		bpf_map_delete_elem(&stopped, &tgid);
}

static __always_inline bool send_frames(struct stack *stack, bool urgent)
{
	u64 bytes = stack_bytes(stack);

	if (bytes > sizeof(*stack))
		return false; /* cannot happen; tells the verifier so */
	return !bpf_ringbuf_output(
	    &events, stack, bytes, urgent ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP);
}

/* Sends the match, then its stack, and raises the signal; false if there is no room for both. */
static __noinline bool send_hit(struct hit *hit, struct stack *stack)
{
	struct hit *record = bpf_ringbuf_reserve(&events, sizeof(*record), 0);

	if (!record)
		return false;
	if (!send_frames(stack, stack->flags & STACK_NEW_CODE)) {
		bpf_ringbuf_discard(record, BPF_RB_NO_WAKEUP);
		return false;
	}
	raise(hit);
	bpf_probe_read_kernel(record, sizeof(*record), hit);
	bpf_ringbuf_submit(record, BPF_RB_FORCE_WAKEUP);
	count(sent);
	return true;
}

/* Counts a match that there was no room to send. */
static __noinline int count_lost(struct hit *hit)
{
	struct tally *tally = tally_of(hit);

	count(lost);
	if (tally)
		count(tally->lost);
	return 0;
}

/* Takes the stack of a match, sends both to user space and raises the signal; false if there was no
 * room to send them.
 */
static __always_inline bool finish_hit(void *ctx, struct walk *w, struct hit *hit, u32 with)
{
	bool sent_it;

	with |= with_kernel ? WITH_KERNEL : 0;
	if (javascript.length) {
		if (!(with & CAPTURED))
			capture(w, ctx, hit->ids, with);
		if (!runs_javascript(w)) {
			give_back(w);
			return false;
		}
	}
	if (!is_due(hit)) {
		give_back(w);
		return false;
	}
	if (!javascript.length && !(with & CAPTURED))
		capture(w, ctx, hit->ids, with);
	hit->hash = w->stack.hash;
	bpf_get_current_comm(w->stack.comm, sizeof(w->stack.comm));
	sent_it = send_hit(hit, &w->stack);
	if (!sent_it) {
		count_lost(hit);
		__sync_fetch_and_add(&remaining, 1);
	}
	give_back(w);
	return sent_it;
}

/* A signal is sent: signal_generate(number, info, task, …). Whoever else stops a process while we
 * hold it wants it to stay stopped; whoever resumes it does not.
 */
SEC("tp_btf/signal_generate")
int on_signal_sent(u64 *ctx)
{
	struct task_struct *task = (struct task_struct *)ctx[2], *leader;
	u32 number = (u32)ctx[0], tgid;
	struct stop *stop;

	if ((number != SIGSTOP && number != SIGCONT) || ctx[1] == SEND_SIG_PRIV)
		return 0;
	leader = BPF_CORE_READ(task, group_leader);
	tgid = pid_namespace ? number_of(leader) : (u32)BPF_CORE_READ(leader, tgid);
	stop = bpf_map_lookup_elem(&stopped, &tgid);
	if (stop)
		stop->others = number == SIGSTOP;
	return 0;
}

/* A thread ends. If the owner dies, its first thread does so before the kernel closes any of its
 * files: what resumes processes then (tools/stopon/lifeline.go), and these programs.
 */
SEC("raw_tp/sched_process_exit")
int on_owner_end(void *ctx)
{
	struct task_struct___signalled *task = (void *)bpf_get_current_task_btf();

	if (current_ids() >> 32 == owner && BPF_CORE_READ(task, signal, flags) & SIGNAL_GROUP_EXIT)
		owner_ends = 1;
	return 0;
}

#endif
