/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * What stopon waits for, as user space configured it; whether an event matches; and what is done
 * if it does.
 */
#ifndef USTACK_HIT_H
#define USTACK_HIT_H

#include "heap.h"
#include "match.h"

static __always_inline void note_name(struct walk *w);

#define note_name note_name /* of each function that user space is told of */

#include "busy.h" /* first of those that walk: it says how many walks there are */
#include "exec.h"
#include "function.h"

#define MAX_CALLS 16384       /* under way at once */
#define MAX_JS_FUNCTIONS 4096 /* with the requested name */
#define MAX_STOPPED 1024
#define MAX_VECTORS 8                            /* of one write */
#define MAX_CHUNKS 64                            /* of what is written at once: 8 KiB */
#define CHUNK_STEP (MATCH_BYTES - PATTERN_BYTES) /* so that one chunk has the whole pattern */
#define UNIX_BYTES 108                           /* include/uapi/linux/un.h: UNIX_PATH_MAX */
#define ADDRESS_BYTES 112                        /* of a struct sockaddr: a Unix socket's has 110 */
#define CLASS_BYTES 64                           /* of an exception's class */
#define CAPTURED 4 /* beside what a stack is taken with: it was taken already */
#define SIGCONT 18
#define SIGSTOP 19
#define SEND_SIG_PRIV 1                  /* include/linux/sched/signal.h: from the kernel */
#define JOBCTL_STOP_PENDING (1ull << 17) /* include/linux/sched/jobctl.h */
#define SIGNAL_GROUP_EXIT 4              /* include/linux/sched/signal.h */

enum { EVENT_HIT = EVENT_TOOL };

/* What one run may have. */
enum hit_limit {
	MAX_SYSCALLS = 512, /* a power of two */
	MAX_CONDITIONS = 8,
	MAX_ERRNOS = 16,
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
const volatile u64 nth = 1;                             /* the first match that counts */
const volatile u32 raised = 0;                          /* the signal; 0: none */
const volatile u32 with_kernel = 0;
const volatile struct pattern path, data, javascript;

const volatile u32 owner = 0; /* the process that resumes others */

volatile u32 owner_ends = 0; /* 1: it has begun to end, and nothing is stopped any longer */
volatile s64 remaining = 0;  /* times to act */
volatile u64 matches = 0, limited = 0, unsearched = 0, last = 0;
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

/* Conditions */

static __always_inline bool holds(u32 comparison, s64 v, s64 value)
{
	switch (comparison) {
	case EQUAL:
		return v == value;
	case NOT_EQUAL:
		return v != value;
	case LESS:
		return v < value;
	case LESS_OR_EQUAL:
		return v <= value;
	case GREATER:
		return v > value;
	}
	return v >= value;
}

/* A register that holds an int is not extended to 64 bits. */
static __always_inline s64 extended(u64 v)
{
	return v >> 32 ? (s64)v : (s32)v;
}

static __always_inline u64 argument_of(struct hit *hit, u64 number)
{
	mask_index(number, 7);
	return number < 6 ? hit->arguments[number] : 0;
}

static __always_inline bool all_hold(struct hit *hit, s8 descriptor)
{
	for (u32 i = 0; i < MAX_CONDITIONS; i++) {
		u64 operand = conditions[i].operand;
		s64 v;

		if (i >= condition_count)
			break;
		if (operand == RESULT) {
			v = hit->trigger == TRIGGER_SYSCALL ? hit->result : extended(hit->result);
		} else if (operand == DESCRIPTOR) {
			if (descriptor < 0)
				return false;
			v = (s32)argument_of(hit, descriptor);
		} else {
			v = extended(argument_of(hit, operand));
		}
		if (!holds(conditions[i].comparison, v, conditions[i].value))
			return false;
	}
	return true;
}

static __always_inline bool is_wanted_error(s64 result)
{
	if (!errno_count)
		return true;
	for (u32 i = 0; i < MAX_ERRNOS; i++) {
		if (i < errno_count && result == -(s64)errnos[i])
			return true;
	}
	return false;
}

/* JavaScript functions with the requested name, by their id in frames. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_JS_FUNCTIONS);
	__type(key, u64);
	__type(value, u8);
} sought SEC(".maps");

/* Records a function with the requested name, once its name has been read. */
static __always_inline void note_name(struct walk *w)
{
	struct match *m = (struct match *)w->raw; /* free once the text is there */
	u64 id = w->id;
	u8 found = 1;

	if (!javascript.length)
		return;
	m->length = w->name.length < MATCH_BYTES ? w->name.length : MATCH_BYTES;
	for (u32 i = 0; i < MATCH_BYTES / 8; i++)
		((u64 *)m->text)[i] = ((u64 *)w->name.text)[i];
	if (is_like(m, &javascript))
		bpf_map_update_elem(&sought, &id, &found, BPF_ANY);
}

static __always_inline bool is_looked_for(u64 frame)
{
	u64 id = frame & ID_MASK;

	return frame >> 60 == FRAME_JS && bpf_map_lookup_elem(&sought, &id);
}

/* Whether a function with the requested name is on the stack. */
static __always_inline bool runs_javascript(struct walk *w)
{
	for (u32 i = 0; i < MAX_FRAMES; i++) {
		u64 at = i;

		if (i >= w->stack.count)
			return false;
		mask_index(at, MAX_FRAMES - 1);
		if (is_looked_for(w->stack.frames[at]))
			return true;
	}
	return false;
}

/* What is written */

__noinline int has_data(struct match *m)
{
	return m && has_within(m, &data);
}

__noinline int read_text_of(struct hit *hit, u64 bytes, u64 address)
{
	if (!hit || bytes > MATCH_BYTES)
		return 0;
	hit->match.length = bytes;
	return read_user(hit->match.text, bytes, address);
}

__noinline int is_in_text(struct hit *hit, u64 address, u64 length)
{
	if (!hit)
		return 0;
	for (u32 i = 0; i < MAX_CHUNKS; i++) {
		u64 from = i * CHUNK_STEP, bytes = MATCH_BYTES;

		if (from >= length)
			return 0;
		if (bytes > length - from)
			bytes = length - from;
		if (!read_text_of(hit, bytes, address + from))
			break;
		if (has_data(&hit->match))
			return 1;
		if (hit->match.mark)
			break;
	}
	count(unsearched);
	return 0;
}

struct vector { /* include/uapi/linux/uio.h: struct iovec */
	u64 address, length;
};

static __always_inline bool is_in_vectors(struct hit *hit, u64 vectors, u64 vector_count)
{
	u64 left = hit->result;

	for (u32 i = 0; i < MAX_VECTORS; i++) {
		struct vector v;

		if (i >= vector_count || !left)
			return false;
		if (!read_user(&v, sizeof(v), vectors + i * sizeof(v)))
			break;
		if (v.length > left)
			v.length = left;
		left -= v.length;
		if (is_in_text(hit, v.address, v.length))
			return true;
	}
	count(unsearched);
	return false;
}

/* Whether this call wrote the requested data. */
static __always_inline bool writes_data(struct hit *hit, u32 kind)
{
	u64 message[4], at = hit->arguments[1];

	if (hit->result <= 0)
		return false;
	if (kind == DATA_BUFFER)
		return is_in_text(hit, at, hit->result);
	if (kind == DATA_VECTORS)
		return is_in_vectors(hit, at, hit->arguments[2]);
	if (!read_user(message, sizeof(message), at)) /* name, its length, vectors, their count */
		return false;
	return is_in_vectors(hit, message[2], message[3]);
}

/* Acting */

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

/* Whether to act on this match: it is the nth or a later one, not too soon after another, and
 * actions remain.
 */
static __always_inline bool is_due(struct hit *hit)
{
	u64 before = last;

	hit->number = __sync_fetch_and_add(&matches, 1) + 1;
	if (hit->number < nth)
		return false;
	if (interval &&
	    ((before && (s64)(hit->time - before) < (s64)interval) ||
	        __sync_val_compare_and_swap(&last, before, hit->time) != before)) {
		count(limited); /* also by one that is acted on now, on another CPU */
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
	u64 bytes = __builtin_offsetof(struct stack, frames) + 8 * (u64)stack->count;

	if (bytes > sizeof(*stack))
		return false; /* cannot happen; tells the verifier so */
	return !bpf_ringbuf_output(
	    &events, stack, bytes, urgent ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP);
}

/* Sends the match, then its stack, and raises the signal; false if there is no room for both. */
static __always_inline bool send_hit(struct hit *hit, struct stack *stack)
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

/* Takes the stack of a match, tells user space and raises the signal; false if it was not sent. */
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
		count(lost);
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
