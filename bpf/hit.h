/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * What stopon waits for, as user space configured it, and the record of an event that matched:
 * shared by predicate.h, written.h and act.h.
 */
#ifndef USTACK_HIT_H
#define USTACK_HIT_H

#include "busy.h"
#include "match.h"

#define MAX_CALLS 16384   /* under way at once */
#define UNIX_BYTES 108    /* include/uapi/linux/un.h: UNIX_PATH_MAX */
#define ADDRESS_BYTES 112 /* of a struct sockaddr: a Unix socket's has 110 */
#define CLASS_BYTES 64    /* of an exception's class */

enum { EVENT_HIT = EVENT_TOOL };

/* What one run may have. */
enum hit_limit {
	MAX_SYSCALLS = 512, /* a power of two */
	MAX_CONDITIONS = 8,
	MAX_ERRNOS = 16,
	MAX_BURST = 1024, /* a power of two */
};

enum trigger {
	TRIGGER_SYSCALL,
	TRIGGER_ENTRY,
	TRIGGER_RETURN,
	TRIGGER_SIGNAL,
	TRIGGER_EXIT,
	TRIGGER_STALL,
	TRIGGER_JS,
	TRIGGER_THROW,
	TRIGGER_UNCAUGHT,
	TRIGGER_STALL_END,
};

enum operand { ARGUMENT, RESULT = 6, DESCRIPTOR };
enum comparison { EQUAL, NOT_EQUAL, LESS, LESS_OR_EQUAL, GREATER, GREATER_OR_EQUAL };

struct condition {
	u32 operand; /* an argument's number, or enum operand */
	u32 comparison;
	s64 value;
};

/* How to read a system call's arguments; -1: it has no such argument. */
struct syscall {
	u8 wanted;
	u8 polls; /* an event loop waits in it */
	s8 descriptor, path, data;
	u8 data_kind;
	s8 address; /* the next argument is its length */
	u8 flags;   /* enum call_flag */
};

enum call_flag {
	CALL_LENGTH_AT = 1, /* the address's length is where its argument points */
	CALL_ACCEPTS = 2,   /* the result is the descriptor of a socket */
};

enum data_kind { DATA_BUFFER, DATA_VECTORS, DATA_MESSAGE };

const volatile struct syscall syscalls[MAX_SYSCALLS];
const volatile struct condition conditions[MAX_CONDITIONS];
const volatile u32 condition_count = 0;
const volatile s32 errnos[MAX_ERRNOS];
const volatile u32 errno_count = 0;
const volatile struct condition exit_code;
const volatile u64 signals = 0;                         /* bit n - 1: signal n */
const volatile u64 slower = 0, stall = 0, interval = 0; /* ns; 0: not asked for */
const volatile u64 burst = 1;                           /* actions within each interval */
const volatile u64 nth = 1;                             /* the first match that counts */
const volatile u32 raised = 0;                          /* the signal; 0: none */
const volatile u32 with_kernel = 0;
const volatile struct pattern path, data, javascript;

volatile s64 remaining = 0; /* times to act */
volatile u64 matches = 0, limited = 0, unsearched = 0;
volatile u64 sent = 0;   /* matches sent to user space */
volatile u64 lost = 0;   /* matches that did not fit into events: nothing was done */
volatile u64 missed = 0; /* stalls whose stack was not taken: the thread hardly ran */

/* What a socket is bound and connected to. */
struct ends {
	u32 family;      /* AF_…; 0: not a socket */
	u32 name_length; /* of a Unix socket's name, or its peer's */
	u32 local_port, peer_port;
	u8 local[16], peer[16]; /* the first 4 of IPv4; all zero: none */
	u8 name[UNIX_BYTES];
	u8 pad[4];
};

/* An event that matched; its stack is sent after it, except for the end of a stall. */
struct hit {
	u32 event; /* EVENT_HIT */
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

/* Keeps types that no map names in the object, for Go's bindings. */
const struct hit *hit_unused __attribute__((unused));
const enum hit_limit *hit_limit_unused __attribute__((unused));
const struct condition *condition_unused __attribute__((unused));
const struct syscall *syscall_unused __attribute__((unused));
const struct pattern *pattern_unused __attribute__((unused));
const enum trigger *trigger_unused __attribute__((unused));
const enum operand *operand_unused __attribute__((unused));
const enum comparison *comparison_unused __attribute__((unused));
const enum call_flag *call_flag_unused __attribute__((unused));
const enum data_kind *data_kind_unused __attribute__((unused));

/* The current match of each walk on this CPU. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, MAX_WALKS);
	__type(key, u32);
	__type(value, struct hit);
} hits SEC(".maps");

/* A call in progress. A thread has only one system call in progress; calls of functions are
 * distinguished by their stack pointers.
 */
struct call_key {
	u64 ids, sp;
};

struct call {
	u64 begun;
	u64 arguments[6];
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, MAX_CALLS);
	__type(key, struct call_key);
	__type(value, struct call);
} calls SEC(".maps");

static __always_inline u64 argument_of(struct hit *hit, u64 number)
{
	mask_index(number, 7);
	return number < 6 ? hit->arguments[number] : 0;
}

#endif
