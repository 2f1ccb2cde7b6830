//go:build ignore

// SPDX-License-Identifier: GPL-2.0 OR MIT
//
// offcpu: how long threads are off the CPU, by the stack they wait with, apart for the time that they
// are blocked and the time that they could run; and, for the whole of a thread's time, where it runs.
//
// Each context switch notes when a thread leaves its CPU and why, and charges the time when it returns.
// The stack is taken when the thread leaves if it is likely to stay away for long, or if it has not left
// from within a system call. Otherwise it is taken at the end of that call, once the time is known: of
// waits shorter than a quantum, so few are taken that each stands for a quantum.
// Needs Linux 5.15.

#include "exec.h"
#include "absence.h"
#include "socket.h"
#include "aggregate.h"
#include "tick.h"

/* include/linux/sched.h: task_struct.__state */
#define TASK_RUNNING 0
#define TASK_SLEEPS 3 /* mask: interruptible, uninterruptible */
#define TASK_STOPS 12 /* mask: stopped, traced */

#define TASK_DEAD 0x80

#define NO_SYSCALL 0xffff

const volatile u64 least = 0;        /* ns: shorter waits are ignored */
const volatile u32 with_running = 0; /* threads that run are sampled */
volatile u64 displaced =
    0; /* waits whose system call had ended before their stack could be taken */
volatile u64 unreported =
    0; /* waits that ended, though no switch to their thread was reported: not charged */
volatile u64 unforeseen =
    0; /* ns that threads could run, of waits that were taken for short ones */

/* What a thread waits for, in a key's bucket: the number of a system call in the low 16 bits, or
 * NO_SYSCALL; above them the kind of the file that it works on, or why there is no call.
 */
enum wait_kind {
	WAIT_OTHER,
	WAIT_FILE,
	WAIT_DIRECTORY,
	WAIT_PIPE,
	WAIT_SOCKET,
	WAIT_DEVICE,
	WAIT_FAULT,
	WAIT_STOPPED
};

enum { WAIT_KIND_SHIFT = 16 };

/* Keeps types that no map names in the object, for Go's bindings. */
const enum time_kind *time_kind_unused __attribute__((unused));
const enum wait_kind *wait_kind_unused __attribute__((unused));

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct task_struct___state {
	unsigned int __state;
};

#pragma clang attribute pop

/* The kind of the current process's open file of that number. */
static __always_inline u32 kind_of_file(u32 number)
{
	struct file *file = file_of(number);

	if (!file)
		return WAIT_OTHER;
	switch (
	    BPF_CORE_READ(file, f_inode, i_mode) >> 12) { /* include/uapi/linux/stat.h: S_IFMT */
	case 1:
		return WAIT_PIPE;
	case 2:
	case 6:
		return WAIT_DEVICE;
	case 4:
		return WAIT_DIRECTORY;
	case 8:
		return WAIT_FILE;
	case 12:
		return WAIT_SOCKET;
	}
	return WAIT_OTHER;
}

/* What the current thread waits for in a system call. */
static __always_inline u32 place_in(struct pt_regs *regs, u64 nr)
{
	u64 arguments[6];
	s8 descriptor;
	u64 at;

	if (nr >= MAX_SYSCALLS)
		return NO_SYSCALL; /* cannot happen; tells the verifier so */
	descriptor = syscalls[nr].descriptor;
	if (descriptor < 0)
		return nr;
	syscall_arguments(regs, arguments);
	at = descriptor;
	mask_index(at, 7);
	return nr | (at < 6 ? kind_of_file(arguments[at]) << WAIT_KIND_SHIFT : 0);
}

/* Takes the stack that the current thread leaves its CPU with, and sees that user space has it. */
static __always_inline void leave_stack(void *ctx, struct absence *a, struct walk *w)
{
	capture(w, ctx, a->ids, with_kernel ? WITH_KERNEL : 0);
	a->hash = w->stack.hash;
	add_to_stack(w, a->runs ? TIME_RUNNABLE : TIME_BLOCKED, a->place, 0, 0);
}

/* A thread leaves its CPU. */
static __always_inline void leave(
    void *ctx, struct task_struct *task, struct task_struct *next, bool preempted)
{
	u32 state = BPF_CORE_READ((struct task_struct___state *)task, __state);
	struct pt_regs *regs = user_regs(task);
	u32 pid = task->pid, tgid;
	u64 ids = current_ids(), nr;
	struct absence *a;
	struct walk *w;

	if (state & TASK_DEAD) {
		bpf_map_delete_elem(&absences, &pid);
		return;
	}
	tgid = ids >> 32;
	if (!bpf_map_lookup_elem(&processes, &tgid))
		return;
	a = absence_of(pid);
	if (!a) {
		count(lost);
		return;
	}
	if (a->left)
		count(unreported);
	nr = syscall_number(regs);
	if (nr >= MAX_SYSCALLS)
		nr = NO_SYSCALL;
	a->ids = ids;
	a->woken = 0;
	a->hash = 0;
	a->late = 0;
	a->chance = 0;
	a->runs = preempted || state == TASK_RUNNING;
	a->called = a->runs && nr != NO_SYSCALL && next->tgid == task->tgid;
	a->skipped = a->called && skips(a);
	if (a->runs)
		a->place = NO_SYSCALL;
	else if (state & TASK_STOPS)
		a->place = NO_SYSCALL | WAIT_STOPPED << WAIT_KIND_SHIFT;
	else if (nr == NO_SYSCALL)
		a->place = NO_SYSCALL | WAIT_FAULT << WAIT_KIND_SHIFT;
	else
		a->place = place_in(regs, nr);
	if (!a->runs && state & TASK_SLEEPS && nr != NO_SYSCALL && a->before &&
	    a->before < quantum) {
		a->late = 1;
		a->pc = user_pc(regs);
		a->sp = user_sp(regs);
	} else if (!a->skipped) {
		w = take_walk(tgid);
		if (w) {
			leave_stack(ctx, a, w);
			give_back(w);
		} else {
			count(lost);
		}
	}
	a->left = bpf_ktime_get_ns();
}

/* Adds time to a stack that user space has. */
static __always_inline void charge(struct absence *a, u32 kind, u64 time, u64 events)
{
	struct stack_key key = {
		.ids = a->ids, .hash = a->hash, .event = kind, .turn = turn, .bucket = a->place
	};
	struct total *seen, add = { .events = events, .value = time };

	if (!time)
		return;
	seen = bpf_map_lookup_elem(&counts, &key);
	if (seen) {
		__sync_fetch_and_add(&seen->events, events);
		__sync_fetch_and_add(&seen->value, time);
	} else if (bpf_map_update_elem(&counts, &key, &add, BPF_ANY)) {
		count(lost);
	}
}

/* A thread returns to a CPU that was off it since before the programs were attached. If it is in a
 * system call, the wait since then is charged at its end.
 */
static __always_inline void arrive_first(struct task_struct *task, u32 pid)
{
	u32 tgid = pid_namespace ? number_of(BPF_CORE_READ(task, group_leader)) : (u32)task->tgid;
	u64 tid = pid_namespace ? number_of(task) : pid, nr;
	struct pt_regs *regs = user_regs(task);
	struct absence *a;

	if (!bpf_map_lookup_elem(&processes, &tgid))
		return;
	nr = syscall_number(regs);
	a = begun ? absence_of(pid) : 0;
	if (!a || nr >= MAX_SYSCALLS)
		return;
	a->ids = (u64)tgid << 32 | tid;
	a->pc = user_pc(regs);
	a->sp = user_sp(regs);
	a->place = nr;
	a->first = 1;
	a->before = bpf_ktime_get_ns() - begun;
	if (a->before >= least)
		owe(a, a->before, 0);
}

/* A thread that was off the CPU is on one again. What was before everything was attached is not
 * charged.
 */
static __always_inline void end_absence(struct absence *a)
{
	u64 now = bpf_ktime_get_ns(), from = a->left, blocked, runnable, events = 1;

	a->left = 0;
	if (!begun)
		return;
	if (from < begun)
		from = begun < now ? begun : now;
	blocked = a->runs ? 0 : (a->woken ? a->woken : now) - from;
	if (a->woken && a->woken < from)
		blocked = 0; /* it could run when everything was attached */
	runnable = now - from - blocked;
	a->before = now - from;
	if (a->called)
		foresee(a, runnable);
	if (a->before < least)
		return;
	if (a->late) {
		owe(a, blocked, runnable);
		return;
	}
	if (a->skipped) {
		if (runnable > foreseen(a)) {
			__sync_fetch_and_add(&unforeseen, runnable);
			charge(a, TIME_RUNNABLE, runnable, 1); /* to no stack */
		}
		return;
	}
	if (!a->hash)
		return; /* counted as lost when it left */
	if (a->chance && runnable <= foreseen(a)) {
		events = quantum / a->chance;
		runnable = runnable * quantum / a->chance;
	}
	__sync_fetch_and_add(&matched[TIME_BLOCKED], events);
	charge(a, TIME_BLOCKED, blocked, 1);
	charge(a, TIME_RUNNABLE, runnable, blocked ? 0 : events);
}

/* A thread returns to a CPU. */
static __noinline void arrive(struct task_struct *task)
{
	u32 pid = task->pid;
	struct absence *a;

	if (!pid)
		return; /* idle */
	a = bpf_map_lookup_elem(&absences, &pid);
	if (!a)
		arrive_first(task, pid);
	else if (a->left)
		end_absence(a);
}

/* include/trace/events/sched.h: preempt, prev, next */
SEC("tp_btf/sched_switch")
int on_switch(u64 *ctx)
{
	if (with_running &&
	    (!((struct task_struct *)ctx[1])->pid || !((struct task_struct *)ctx[2])->pid))
		turn_idle(!((struct task_struct *)ctx[2])->pid);
	leave(ctx, (struct task_struct *)ctx[1], (struct task_struct *)ctx[2], ctx[0]);
	arrive((struct task_struct *)ctx[2]);
	return 0;
}

/* A thread is woken: from now on it could run. */
SEC("tp_btf/sched_wakeup")
int on_wake(u64 *ctx)
{
	u32 pid = ((struct task_struct *)ctx[0])->pid;
	struct absence *a = bpf_map_lookup_elem(&absences, &pid);

	if (a && a->left && !a->woken)
		a->woken = bpf_ktime_get_ns();
	return 0;
}

/* A system call ends: its waits are charged to the stack that it was called with. One that has not
 * ended yet has ended now: not every switch is reported, on kernels that hide some of their threads.
 * Where threads are preempted here, copies see what this program does not (meanwhile.h). Any number of
 * them may see a call's end: the first leaves nothing that is owed.
 */
SEC("tp_btf/sys_exit")
int on_system_call_end(u64 *ctx)
{
	u32 pid = bpf_get_current_pid_tgid();
	struct absence *a = bpf_map_lookup_elem(&absences, &pid);
	struct pt_regs *regs = (struct pt_regs *)ctx[0];
	u64 blocked, runnable, events;
	struct walk *w;
	bool first;

	if (!a)
		return 0;
	if (a->left)
		end_absence(a);
	first = a->first;
	a->first = 0;
	if (!a->events)
		return 0;
	blocked = a->owed[TIME_BLOCKED];
	runnable = a->owed[TIME_RUNNABLE];
	events = a->events;
	a->owed[TIME_BLOCKED] = a->owed[TIME_RUNNABLE] = a->events = 0;
	if (user_pc(regs) != a->pc || user_sp(regs) != a->sp) {
		if (!first)
			__sync_fetch_and_add(&displaced, events);
		return 0;
	}
	w = take_walk(a->ids >> 32);
	if (!w) {
		__sync_fetch_and_add(&lost, events);
		return 0;
	}
	__sync_fetch_and_add(&matched[TIME_BLOCKED], events);
	capture(w, ctx, a->ids, 0);
	if (blocked)
		add_to_stack(w, TIME_BLOCKED, a->owed_place, events, blocked);
	if (runnable)
		add_to_stack(w, TIME_RUNNABLE, a->owed_place, blocked ? 0 : events, runnable);
	give_back(w);
	return 0;
}

/* A timer interrupts a thread that runs. The sample stands for the time that the CPU has been in use
 * since its last one, which is longer than the timer's period if interrupts were late or left out.
 */
SEC("perf_event")
int on_sample(void *ctx)
{
	u64 ids, now = bpf_ktime_get_ns(), passed;
	struct tick *t = tick_of_cpu();
	struct walk *w;

	if (!t)
		return 0;
	passed = take_busy(t, now);
	if (!begun)
		return 0;
	ids = current_ids();
	w = take_walk(ids >> 32);
	if (!w)
		return 0;
	count(matched[TIME_RUNNING]);
	capture(w, ctx, ids, with_kernel ? WITH_KERNEL : 0);
	add_to_stack(w, TIME_RUNNING, 0, 1, passed);
	give_back(w);
	return 0;
}

char _license[] SEC("license") = "Dual MIT/GPL";
