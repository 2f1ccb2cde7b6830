//go:build ignore

// SPDX-License-Identifier: GPL-2.0 OR MIT
//
// syscalls: each system call of a process, with its arguments, its result and its stack.
//
// A call is kept while it is under way, so that user space can show one that sleeps, and is sent when
// it returns: what it was given and what it gave is in memory then. Its stack is taken when it begins.
// Needs Linux 5.15.

#include "exec.h"
#include "meanwhile.h"
#include "once.h"
#include "socket.h"
#include "written.h"

#define MAX_UNDER_WAY 16384 /* threads */
#define WAKE_STEP 16        /* of bytes: more than a record has */
#define WAKE_AT (1 << 20)   /* bytes that wait: user space is woken early */

enum { EVENT_MADE = EVENT_TOOL };
enum made_limit {
	MADE_TEXT_BYTES = 1024, /* of what is written or read; a power of two */
};

/* What syscalls[].wanted is besides 1. */
enum wanted { WANTED = 1, WANTED_NEVER_RETURNS = 2 };

/* A system call that has returned, or never does. */
struct made {
	struct hit hit;
	u8 comm[COMM_BYTES];
	u32 unbegun; /* 1: it began before it could be seen */
	u32 length;  /* of text */
	u8 text[2 *
	    MADE_TEXT_BYTES]; /* what was written or read; the second half is the verifier's */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, MAX_WALKS);
	__type(key, u32);
	__type(value, struct made);
} records SEC(".maps");

/* A system call that has not returned. */
struct under_way {
	u64 begun; /* ns, CLOCK_MONOTONIC */
	u64 hash;  /* of the stack; 0: not taken */
	u64 number;
	u64 arguments[6];
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, MAX_UNDER_WAY);
	__type(key, u64); /* tgid, tid */
	__type(value, struct under_way);
} calls_under_way SEC(".maps");

const volatile u32 string_bytes = 0; /* of what is written or read: shown */

volatile u64 seen = 0;    /* calls that ended */
volatile u64 lost = 0;    /* of those, were wanted, but there was no room for them */
volatile u64 unended = 0; /* calls whose end no program saw */

/* Keeps the types, which no map names as such, in the object for Go's bindings. */
const enum made_limit limit_unused __attribute__((unused));
const enum wanted wanted_unused __attribute__((unused));

/* The record of a call, to be filled. */
static __always_inline struct made *begin_record(struct walk *w, u64 ids, u64 number)
{
	struct made *made;
	u32 at = w->number;

	made = bpf_map_lookup_elem(&records, &at);
	if (!made)
		return 0; /* cannot happen; tells the verifier so */
	__builtin_memset(&made->hit, 0, sizeof(made->hit));
	made->hit.event = EVENT_MADE;
	made->hit.trigger = TRIGGER_SYSCALL;
	made->hit.ids = ids;
	made->hit.time = bpf_ktime_get_ns();
	made->hit.what = number;
	made->unbegun = 0;
	made->length = 0;
	bpf_get_current_comm(made->comm, sizeof(made->comm));
	return made;
}

static __noinline int send_record(struct made *made)
{
	u64 bytes, waiting;

	if (!made)
		return 0;
	bytes = made->length;
	if (bytes > MADE_TEXT_BYTES)
		return 0; /* cannot happen; tells the verifier so */
	waiting = bpf_ringbuf_query(&events, BPF_RB_AVAIL_DATA);
	if (bpf_ringbuf_output(&events, made, __builtin_offsetof(struct made, text) + bytes,
	        waiting >> WAKE_STEP == WAKE_AT >> WAKE_STEP ? BPF_RB_FORCE_WAKEUP :
	                                                       BPF_RB_NO_WAKEUP))
		count(lost);
	return 0;
}

/* Reads so many bytes of what was written or read, after those that were read before. */
static __noinline int read_string(struct made *made, u64 address, u64 bytes)
{
	u64 at;

	if (!made)
		return 0;
	at = made->length;
	if (at >= string_bytes || at >= MADE_TEXT_BYTES)
		return 0;
	if (bytes > string_bytes - at)
		bytes = string_bytes - at;
	if (bytes > MADE_TEXT_BYTES)
		return 0; /* cannot happen; tells the verifier so */
	mask_index(at, MADE_TEXT_BYTES - 1);
	if (!read_user(made->text + at, bytes, address))
		return 0;
	made->length += bytes;
	return 1;
}

static __always_inline void read_strings(struct made *made, u32 kind)
{
	u64 vectors = made->hit.arguments[1], vector_count = made->hit.arguments[2], message[4];
	u64 left = made->hit.result;
	struct vector v;

	if (kind == DATA_BUFFER) {
		read_string(made, vectors, left);
		return;
	}
	if (kind == DATA_MESSAGE) {
		if (!read_user(message, sizeof(message), vectors))
			return;
		vectors = message[2]; /* after a name and its length */
		vector_count = message[3];
	}
	for (u32 i = 0; i < MAX_VECTORS; i++) {
		if (i >= vector_count || !left ||
		    !read_user(&v, sizeof(v), vectors + i * sizeof(v)))
			return;
		if (v.length > left)
			v.length = left;
		left -= v.length;
		if (!read_string(made, v.address, v.length))
			return;
	}
}

/* Keeps a call that begins. Not inlined, as others: older kernels allow small stacks. */
static __noinline int keep_call(u64 *ctx, u64 ids, u64 hash)
{
	struct pt_regs *regs = (struct pt_regs *)ctx[0];
	struct under_way call = { .number = syscall_number(regs), .hash = hash };

	syscall_arguments(regs, call.arguments);
	call.begun = bpf_ktime_get_ns(); /* its duration does not include the stack's */
	if (bpf_map_update_elem(&calls_under_way, &ids, &call, BPF_NOEXIST)) {
		count(unended); /* the one before */
		bpf_map_update_elem(&calls_under_way, &ids, &call, BPF_ANY);
	}
	return 0;
}

/* Sends a call that never returns. */
static __noinline int send_last(u64 *ctx, struct walk *w, u64 ids, u64 hash)
{
	struct pt_regs *regs = (struct pt_regs *)ctx[0];
	struct made *made;

	if (!w)
		return 0;
	made = begin_record(w, ids, syscall_number(regs));
	if (!made)
		return 0;
	made->hit.hash = hash;
	syscall_arguments(regs, made->hit.arguments);
	count(seen);
	send_record(made);
	return 0;
}

SEC("tp_btf/sys_enter")
int on_system_call(u64 *ctx)
{
	u64 nr = syscall_number((struct pt_regs *)ctx[0]), ids, hash = 0;
	struct walk *w;
	u32 tgid;

	if (nr >= MAX_SYSCALLS || !syscalls[nr].wanted)
		return 0;
	ids = current_ids();
	tgid = ids >> 32;
	if (!is_traced(ids) || !is_to_handle(ctx, ids, CALL_BEGINS))
		return 0;
	if (with_stacks || syscalls[nr].wanted == WANTED_NEVER_RETURNS) {
		w = take_walk(tgid);
		if (w && with_stacks)
			hash = capture_once(w, ctx, ids, 0);
		if (w && syscalls[nr].wanted == WANTED_NEVER_RETURNS)
			send_last(ctx, w, ids, hash);
		if (w)
			give_back(w);
	}
	if (syscalls[nr].wanted == WANTED)
		keep_call(ctx, ids, hash);
	return 0;
}

SEC("tp_btf/sys_exit")
int on_system_call_end(u64 *ctx)
{
	struct pt_regs *regs = (struct pt_regs *)ctx[0];
	u64 nr = syscall_number(regs), ids, begun = 0, hash = 0;
	struct under_way *call;
	struct made *made;
	struct walk *w;

	if (nr >= MAX_SYSCALLS || syscalls[nr].wanted != WANTED)
		return 0;
	ids = current_ids();
	w = take_walk(ids >> 32);
	if (!w)
		return 0;
	if (!is_to_handle(ctx, ids, CALL_ENDS))
		goto out;
	count(seen);
	call = bpf_map_lookup_elem(&calls_under_way, &ids);
	if (call) {
		if (call->number == nr) {
			begun = call->begun;
			hash = call->hash;
		}
		bpf_map_delete_elem(&calls_under_way, &ids);
	}
	made = begin_record(w, ids, nr);
	if (!made)
		goto out;
	made->unbegun = !begun;
	made->hit.duration = begun ? made->hit.time - begun : 0;
	if (made->hit.duration < slower)
		goto out;
	made->hit.hash = hash;
	made->hit.result = (s64)ctx[1];
	syscall_arguments(regs, made->hit.arguments);
	is_wanted_call(&made->hit, &syscalls[nr]);
	read_addresses(&made->hit, &syscalls[nr]);
	if (string_bytes && syscalls[nr].data >= 0 && made->hit.result > 0)
		read_strings(made, syscalls[nr].data_kind);
	send_record(made);
out:
	give_back(w);
	return 0;
}

char _license[] SEC("license") = "Dual MIT/GPL";
