/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * What is known of a thread that is off its CPU, and which of its short waits are taken: so few that
 * each stands for a quantum.
 */
#ifndef USTACK_ABSENCE_H
#define USTACK_ABSENCE_H

#include "event.h"

#define MAX_THREADS_OFF_CPU 16384
#define UNFORESEEN_TIMES 4 /* as long as what was likely */

const volatile u64 quantum = 1; /* ns: shorter waits are sampled */

/* The kinds of time: numbers of events (aggregate.h). */
enum time_kind { TIME_BLOCKED, TIME_RUNNABLE, TIME_RUNNING };

/* A thread that is off its CPU, or was. */
struct absence {
	u64 left;   /* ns; 0: it is on a CPU */
	u64 woken;  /* ns; 0: it is blocked */
	u64 before; /* how long the last absence was */
	u64 ids;
	u64 hash; /* of the stack it left with; 0: not taken */
	u64 pc,
	    sp; /* that it left with, if the stack is to be taken at the end of the system call */
	u64 owed[2];    /* time to charge then, by enum time_kind */
	u64 events;     /* of those */
	u64 until;      /* ns of short waits until one is sampled */
	u64 spare;      /* ns of the quantum after that */
	u64 likely;     /* ns: bound of most of its waits when it has left so; 0: not known */
	u64 taken;      /* ns: when the stack of such a wait was last taken for certain */
	u64 chance;     /* of a quantum, that the stack was taken; 0: it was for certain */
	u32 place;      /* what it waits for */
	u32 runs;       /* it could have run all the time */
	u32 first;      /* it left before the programs were attached: where is not certain */
	u32 owed_place; /* what it waited for in the system call that owed is of */
	u32 called;  /* it is to run on after a system call, and left to a thread of its process */
	u32 skipped; /* then: its stack was not taken, since the wait is likely to be short */
	u32 late;    /* its stack is to be taken at the end of the system call */
	u32 pad;
};

/* By the kernel's number of the thread. User space reads those that have not ended. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_THREADS_OFF_CPU);
	__type(key, u32);
	__type(value, struct absence);
} absences SEC(".maps");

static const struct absence none; /* of a thread that is seen for the first time */

/* What is known of a thread's absences; null if there is no room. */
static __always_inline struct absence *absence_of(u32 pid)
{
	struct absence *a = bpf_map_lookup_elem(&absences, &pid);

	if (a)
		return a;
	if (bpf_map_update_elem(&absences, &pid, &none, BPF_NOEXIST))
		return 0;
	return bpf_map_lookup_elem(&absences, &pid);
}

/* Decides whether to take no stack of a wait to run on after a system call: if it is likely to be
 * short and soon follows another one.
 */
static __always_inline bool skips(struct absence *a)
{
	u64 now = bpf_ktime_get_ns();

	if (!a->likely || a->likely >= quantum || now - a->taken >= quantum) {
		a->taken = now;
		return false;
	}
	a->chance = a->likely;
	return bpf_get_prandom_u32() % quantum >= a->chance;
}

/* Notes that time is to be charged at the end of the system call: all of it if it is long. Of each
 * quantum of a thread's short waits, the wait at a random point is charged for all: the sum is right,
 * and no rhythm of the program can hide a part of it.
 */
static __always_inline void owe(struct absence *a, u64 blocked, u64 runnable)
{
	u64 all = blocked + runnable, events = 1, time, point;

	if (!all)
		return;
	if (all < quantum) {
		if (!a->spare) { /* of the first quantum */
			point = bpf_get_prandom_u32() % quantum;
			a->until = point + 1;
			a->spare = quantum - point;
		}
		if (a->until > all) {
			a->until -= all;
			return;
		}
		point = bpf_get_prandom_u32() % quantum;
		time = a->spare + point + a->until; /* of the waits until the next one */
		a->spare = quantum - point;
		if (time <= all) { /* that is in this wait too */
			point = bpf_get_prandom_u32() % quantum;
			time += a->spare + point;
			a->spare = quantum - point;
			events = 2;
		}
		a->until = time - all;
		time = quantum * events;
		events = time / all;
		blocked = blocked * time / all;
		runnable = time - blocked;
	}
	a->owed[TIME_BLOCKED] += blocked;
	a->owed[TIME_RUNNABLE] += runnable;
	a->events += events;
	a->owed_place = a->place;
}

/* Expects the next waits of a thread that leaves to another one of its process to be as long as the
 * longest of those of late.
 */
static __always_inline void foresee(struct absence *a, u64 time)
{
	a->likely -= a->likely / 8;
	if (a->likely < time)
		a->likely = time;
}

/* How long a wait may be, ns, to stand for others like it: a longer one has another cause, and weighed
 * as they are would count for many quanta.
 */
static __always_inline u64 foreseen(struct absence *a)
{
	u64 bound = UNFORESEEN_TIMES * a->chance;

	return bound < quantum ? bound : quantum - 1;
}

#endif
