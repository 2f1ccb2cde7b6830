/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * What is waited for, as user space configured it, and the record of an event while its conditions
 * are checked.
 */
#ifndef USTACK_HIT_H
#define USTACK_HIT_H

#include "busy.h"
#include "ends.h"
#include "event.h"

#define ADDRESS_BYTES 112 /* of a struct sockaddr: a Unix socket's has 110 */
#define CLASS_BYTES 64    /* of an exception's class */

const volatile struct syscall syscalls[MAX_SYSCALLS];
const volatile struct condition conditions[MAX_CONDITIONS];
const volatile u32 condition_count = 0;
const volatile s32 errnos[MAX_ERRNOS];
const volatile u32 errno_count = 0;
const volatile u64 slower = 0;                     /* ns; 0: not asked for */
const volatile u32 with_kernel = 0, with_path = 0; /* what is reported */
const volatile struct pattern path, data, javascript;

volatile u64 unsearched = 0; /* writes whose text was not searched to its end */

/* An event that matched; its stack is sent after it, except for the end of a stall. */
struct hit {
	u32 event; /* EVENT_TOOL */
	u32 trigger;
	u64 ids;      /* tgid, tid */
	u64 hash;     /* of the stack */
	u64 time;     /* ns, CLOCK_MONOTONIC */
	u64 number;   /* of the match, from 1 */
	u64 duration; /* ns: of the call, or of the stall; 0: not measured */
	/* A signal's: its code, and the address at fault or who sent it. An exception's: whether it
	 * comes from a promise, whether the stack is its thrower's, the value itself.
	 */
	u64 arguments[6];
	s64 result;
	u32 what;   /* number of the system call or signal; the attach cookie of a function; an
	             * exception's enum thrown_kind
	             */
	u32 raised; /* the signal, if it was */
	u32 class_length;
	u32 pad;
	u8 class[CLASS_BYTES]; /* of an exception */
	struct ends ends;      /* of the socket that a system call works on */
	u32 address_length;
	u8 address[ADDRESS_BYTES]; /* struct sockaddr that a system call was given, or gave */
	u32 pad2;
	struct match match; /* the path, or what was written */
};

/* The current match of each walk on this CPU. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, MAX_WALKS);
	__type(key, u32);
	__type(value, struct hit);
} hits SEC(".maps");

static __always_inline u64 argument_of(struct hit *hit, u64 number)
{
	mask_index(number, 7);
	return number < 6 ? hit->arguments[number] : 0;
}

#endif
