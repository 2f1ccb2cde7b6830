/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * Asynchronous operations besides HTTP: the jobs of libuv's pool, which look up names, use files,
 * compress, encrypt and work for add-ons, and what waits for others without a job: connections, and
 * queries to DNS servers. Each is followed from where it is submitted to where it completes, a job by
 * the address of its struct uv__work, a connection by that of its uv_connect_t, a query by the pointer
 * that node has c-ares pass to the callback.
 */
#ifndef USTACK_OPERATION_H
#define USTACK_OPERATION_H

#include "ends.h"
#include "snooped.h"
#include "work.h"

#define MAX_OPERATIONS 16384 /* under way */
#define MAX_EXCHANGES 4096

enum operation_limit {
	TARGET_BYTES = 256,  /* of a path, a name or an address */
	SOCKADDR_BYTES = 28, /* struct sockaddr_in6 */
};

/* What an operation is, besides an enum work_kind. */
enum operation_kind {
	OPERATION_CONNECT = 16,
	OPERATION_CONNECT_PATH,
	OPERATION_QUERY,   /* DNS, for a name */
	OPERATION_REVERSE, /* DNS, for an address */
};

volatile u64 operations = 0;            /* that completed */
volatile u64 unfollowed_operations = 0; /* for which there was no room */

struct operation_key {
	u64 generation; /* of the process */
	u64 at;         /* address of its struct uv__work or uv_connect_t, or c-ares' argument */
};

struct job {
	u64 submitted, begun, ended;   /* ns, CLOCK_MONOTONIC; 0: not seen */
	u64 ids;                       /* tgid, tid: of the thread that submitted it */
	u64 class;                     /* of queued work: the vtable of node's object */
	u64 functions[1 + WORK_WORDS]; /* that may do it: see WORK_WORDS */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_OPERATIONS);
	__type(key, struct operation_key);
	__type(value, struct job);
} jobs SEC(".maps");

struct exchange {
	u64 submitted, ids;
	u32 kind; /* enum operation_kind */
	s32 type; /* of the records that OPERATION_QUERY asks for */
	u8 target[TARGET_BYTES];
};

/* Of a connection that fails at once nothing more is heard: it goes when others need its place. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, MAX_EXCHANGES);
	__type(key, struct operation_key);
	__type(value, struct exchange);
} exchanges SEC(".maps");

/* An operation that has completed. */
struct operation {
	u32 event; /* EVENT_OPERATION */
	u32 kind;  /* enum work_kind or operation_kind */
	u64 generation;
	struct job job;
	u64 completed; /* ns */
	s64 result;    /* negative: libuv's number of an error; of DNS: c-ares' status */
	s32 type;      /* uv_fs_type of WORK_FS; of OPERATION_QUERY, that of the records */
	s32 file;      /* its descriptor, if it has no path */
	s32 read_error, write_error; /* of WORK_QUEUED, if it reads or writes a whole file */
	u8 target[TARGET_BYTES];
};

/* Keep types that no map names in the object, for Go's bindings. */
const struct operation *operation_unused __attribute__((unused));
const enum operation_limit *operation_limit_unused __attribute__((unused));
const enum operation_kind *operation_kind_unused __attribute__((unused));

/* include/uv.h, unix: more fields of the requests, from their struct uv__work. */
#define FS_PATH (104 - 336)
#define FS_FILE (280 - 336)
#define ADDRINFO_NAME 56
#define NAMEINFO_ADDRESS 48

static __always_inline void read_string(u8 *to, u64 at)
{
	if (!at || bpf_probe_read_user_str(to, TARGET_BYTES, (void *)at) < 0)
		to[0] = 0;
}

/* Reads the name of a Unix socket; an abstract one, which begins with a zero, begins with @. */
static __always_inline void read_socket_name(u8 *to, u64 at)
{
	read_string(to, at);
	if (to[0] || !at ||
	    bpf_probe_read_user_str(to + 1, TARGET_BYTES - 1, (void *)(at + 1)) <= 1)
		return;
	to[0] = '@';
}

/* What the job works on. Of queued work, that is what it would be if it were on a whole file: user
 * space knows its class.
 */
static __always_inline void read_job_target(struct operation *o, struct node *node, u64 work)
{
	u64 at = 0;

	o->file = -1;
	o->target[0] = 0;
	switch (o->kind) {
	case WORK_FS:
		read_user(&o->type, 4, work + FS_TYPE);
		read_user(&at, 8, work + FS_PATH);
		if (!at)
			read_user(&o->file, 4, work + FS_FILE);
		break;
	case WORK_ADDRINFO:
		read_user(&at, 8, work + ADDRINFO_NAME);
		break;
	case WORK_QUEUED:
		if (!node->file_path)
			break;
		work -= UV_WORK_OFFSET + THREAD_POOL_WORK_OFFSET;
		read_user(&at, 8, work + node->file_path);
		read_user(&o->read_error, 4, work + node->read_error);
		read_user(&o->write_error, 4, work + node->write_error);
		break;
	case WORK_NAMEINFO:
		read_user(o->target, SOCKADDR_BYTES, work + NAMEINFO_ADDRESS);
		return;
	}
	read_string(o->target, at);
}

/* Counts an operation that has completed. Null if it is not wanted or there is no room; what is
 * returned lacks job, result, type, file and target.
 */
static __always_inline struct operation *new_operation(
    u64 generation, u32 kind, u64 submitted, u64 now)
{
	struct operation *o;

	count(operations);
	if (now - submitted < slower)
		return 0;
	o = bpf_ringbuf_reserve(&events, sizeof(*o), 0);
	if (!o) {
		count(unsent);
		return 0;
	}
	o->event = EVENT_OPERATION;
	o->kind = kind;
	o->generation = generation;
	o->completed = now;
	o->read_error = o->write_error = 0;
	return o;
}

static __always_inline void begin_operation(u64 cookie, u64 work, u64 callback, bool is_queued)
{
	struct node *node = node_of(cookie);
	struct operation_key key = {};
	struct job job = {}, *old;

	if (!node || !node->opened)
		return;
	key.generation = node->generation;
	key.at = work;
	job.ids = current_ids();
	old = is_queued ? 0 : bpf_map_lookup_elem(&jobs, &key);
	if (old && !old->begun && old->ids == job.ids)
		return; /* by uv_queue_work() */
	job.submitted = bpf_ktime_get_ns();
	job.functions[0] = callback;
	if (is_queued) {
		read_user(&job.class, 8, work - UV_WORK_OFFSET - THREAD_POOL_WORK_OFFSET);
		read_user(&job.functions[1], 8 * WORK_WORDS, work - UV_WORK_OFFSET + UV_WORK_BYTES);
	}
	if (bpf_map_update_elem(&jobs, &key, &job, BPF_ANY))
		count(unfollowed_operations);
}

/* uv_queue_work(loop, req, work_cb, after_work_cb) */
SEC("uprobe")
int on_queue(struct pt_regs *ctx)
{
	if (argument2(ctx)) /* without a callback it is refused */
		begin_operation(bpf_get_attach_cookie(ctx), argument1(ctx) + UV_WORK_OFFSET,
		    argument2(ctx), true);
	return 0;
}

/* uv__work_submit(loop, w, kind, work, done) */
SEC("uprobe")
int on_submit(struct pt_regs *ctx)
{
	begin_operation(bpf_get_attach_cookie(ctx), argument1(ctx), argument3(ctx), false);
	return 0;
}

/* The job that a thread is about to run, or has run. */
static __always_inline struct job *linked_job(struct pt_regs *ctx)
{
	u64 cookie = bpf_get_attach_cookie(ctx);
	struct node *node = node_of(cookie);
	struct operation_key key = {};

	if (!node)
		return 0;
	key.generation = node->generation;
	key.at = linked_work(ctx, cookie);
	return bpf_map_lookup_elem(&jobs, &key);
}

/* In worker(), just before w->work(w). */
SEC("uprobe")
int on_run(struct pt_regs *ctx)
{
	struct job *job = linked_job(ctx);

	if (job)
		job->begun = bpf_ktime_get_ns();
	return 0;
}

/* In worker(), just after w->work(w). */
SEC("uprobe")
int on_ran(struct pt_regs *ctx)
{
	struct job *job = linked_job(ctx);

	if (job)
		job->ended = bpf_ktime_get_ns();
	return 0;
}

/* uv__queue_done(w, status), uv__fs_done(w, status) ...: on the loop's thread. */
SEC("uprobe")
int on_done(struct pt_regs *ctx)
{
	u64 now = bpf_ktime_get_ns(), cookie = bpf_get_attach_cookie(ctx);
	struct node *node = node_of(cookie);
	struct operation_key key = {};
	struct operation *o;
	struct job *job;

	if (!node)
		return 0;
	key.generation = node->generation;
	key.at = completed_work(ctx, cookie);
	job = bpf_map_lookup_elem(&jobs, &key);
	if (!job)
		return 0;
	o = new_operation(key.generation, work_kind_of(cookie), job->submitted, now);
	if (o) {
		o->job = *job;
		o->type = 0;
		o->result = (s32)argument1(ctx);
		if (o->result != UV_ECANCELED)
			o->result = result_of(o->kind, key.at);
		read_job_target(o, node, key.at);
		bpf_ringbuf_submit(o, BPF_RB_NO_WAKEUP);
	}
	bpf_map_delete_elem(&jobs, &key);
	return 0;
}

/* Keeps the address of family AF_INET or AF_INET6 as its struct sockaddr has it. */
static __always_inline void read_address(u8 *to, u32 family, u64 at)
{
	*(u16 *)to = family;
	if (family == AF_INET)
		read_user(to + 4, 4, at);
	else if (family == AF_INET6)
		read_user(to + 8, 16, at);
}

static __always_inline void begin_exchange(struct pt_regs *ctx, u32 kind, u64 at)
{
	struct node *node = node_of(bpf_get_attach_cookie(ctx));
	struct operation_key key = {};
	struct exchange x = {};

	if (!node || !node->opened)
		return;
	key.generation = node->generation;
	key.at = at;
	x.submitted = bpf_ktime_get_ns();
	x.ids = current_ids();
	x.kind = kind;
	switch (kind) {
	case OPERATION_CONNECT:
		read_user_part(x.target, SOCKADDR_BYTES, argument2(ctx));
		break;
	case OPERATION_CONNECT_PATH:
		read_socket_name(x.target, argument2(ctx));
		break;
	case OPERATION_QUERY:
		x.type = argument3(ctx);
		read_string(x.target, argument1(ctx));
		break;
	case OPERATION_REVERSE:
		read_address(x.target, argument3(ctx), argument1(ctx));
		break;
	}
	bpf_map_update_elem(&exchanges, &key, &x, BPF_ANY);
}

/* uv_tcp_connect(req, handle, addr, cb) */
SEC("uprobe")
int on_connect(struct pt_regs *ctx)
{
	begin_exchange(ctx, OPERATION_CONNECT, argument0(ctx));
	return 0;
}

/* uv_pipe_connect(req, handle, name, cb), uv_pipe_connect2(req, handle, name, length, flags, cb) */
SEC("uprobe")
int on_connect_path(struct pt_regs *ctx)
{
	begin_exchange(ctx, OPERATION_CONNECT_PATH, argument0(ctx));
	return 0;
}

/* ares_query(channel, name, class, type, callback, arg), and ares_query_dnsrec() */
SEC("uprobe")
int on_query(struct pt_regs *ctx)
{
	begin_exchange(ctx, OPERATION_QUERY, argument5(ctx));
	return 0;
}

/* ares_gethostbyaddr(channel, addr, length, family, callback, arg) */
SEC("uprobe")
int on_reverse(struct pt_regs *ctx)
{
	begin_exchange(ctx, OPERATION_REVERSE, argument5(ctx));
	return 0;
}

/* ConnectionWrap::AfterConnect(req, status), QueryWrap::Callback(arg, status, timeouts, answer) */
SEC("uprobe")
int on_exchanged(struct pt_regs *ctx)
{
	struct node *node = node_of(bpf_get_attach_cookie(ctx));
	u64 now = bpf_ktime_get_ns();
	struct operation_key key = {};
	struct operation *o;
	struct exchange *x;

	if (!node)
		return 0;
	key.generation = node->generation;
	key.at = argument0(ctx);
	x = bpf_map_lookup_elem(&exchanges, &key);
	if (!x)
		return 0;
	o = new_operation(key.generation, x->kind, x->submitted, now);
	if (o) {
		__builtin_memset(&o->job, 0, sizeof(o->job));
		o->job.submitted = x->submitted;
		o->job.ids = x->ids;
		o->result = (s32)argument1(ctx);
		o->type = x->type;
		o->file = -1;
		__builtin_memcpy(o->target, x->target, TARGET_BYTES);
		bpf_ringbuf_submit(o, BPF_RB_NO_WAKEUP);
	}
	bpf_map_delete_elem(&exchanges, &key);
	return 0;
}

#endif
