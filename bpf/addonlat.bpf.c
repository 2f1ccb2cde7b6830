//go:build ignore

// SPDX-License-Identifier: GPL-2.0 OR MIT
//
// addonlat: how long the jobs of libuv's thread pool wait, run and take to be delivered.
//
// A job is followed from its submission to its completion by the address of its struct uv__work,
// which stays the same. The stack at its submission identifies the submitter. Its times are added
// up here; user space reads the sums.
// Needs Linux 5.15.

#include "exec.h"
#include "jobs.h"
#include "submitter.h"
#include "turn.h"
#include "work.h"

#define MAX_KINDS 1024
#define MAX_WORKS 65536 /* Node-API works with a resource name */
#define SLOTS 496       /* tools/quantize: buckets of all u64 */

const volatile s64 linear_low = 0, linear_step = 0, linear_levels = 0; /* no steps: none wanted */

volatile u64 unfollowed = 0; /* jobs for which there was no room */

struct kind_key {
	u64 generation;
	u64 kind;
	u16 work;      /* enum work_kind */
	u16 turn;      /* turn.h */
	u32 operation; /* uv_fs_type of WORK_FS */
};

enum part { TOTAL, WAIT, RUN, DELIVERY, PARTS };

/* Names are only sent. */
static __always_inline void note_name(struct walk *w)
{
}

struct histogram { /* of ns */
	u64 sum, min, max;
	u64 buckets[SLOTS];
};

struct kind {
	u64 cancelled, failed;
	struct histogram parts[PARTS];
	u64 linear[SLOTS];
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_KINDS);
	__type(key, struct kind_key);
	__type(value, struct kind);
} kinds SEC(".maps");

/* An empty kind: too large for the stack. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct kind);
} empty SEC(".maps");

#define CACHE_LINE 64

/* libuv's pool of one traced process. Fields that its threads write, fields that the loop writes
 * and fields that are only read are on separate cache lines.
 */
struct pool {
	u64 generation; /* of the process */
	u64 size;       /* threads, as user space knows it */
	u8 of_loops[CACHE_LINE];
	u64 submitted, completed, cancelled, failed, before, uring;
	u64 withdrawn;  /* submitted, but will never run on a thread */
	u64 deepest;    /* jobs without a thread, at most */
	u64 slow_quota; /* slow jobs submitted while the maximum number of them was on threads */
	u8 of_threads[CACHE_LINE];
	u64 begun;
	u64 slow; /* jobs on threads */
	u64 busy; /* ns that threads ran jobs */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_PROCESSES);
	__type(key, u32);
	__type(value, struct pool);
} pools SEC(".maps");

/* A probe's cookie: the number of its process's pool in the lower half. */
static __always_inline struct pool *pool_of(u64 cookie)
{
	u32 number = cookie;

	return bpf_map_lookup_elem(&pools, &number);
}

#define add(counter, n) __sync_fetch_and_add(&(counter), n)

/* The moments */

static __always_inline void begin_job(
    struct pt_regs *ctx, struct pool *pool, u64 work, u64 callback, bool is_slow, bool is_builtin)
{
	struct job_key key = { pool->generation, work };
	struct job *old, job;
	u64 waiting, kind = 0, ids = current_ids();

	old = is_builtin ? find_job(&key) : 0;
	if (old && !old->begun && old->tid == (u32)ids) { /* for uv_queue_work() */
		old->slow = is_slow;
		return;
	}
	if (!is_builtin || keyed_by == BY_JS || keyed_by == BY_STACK || keyed_by == BY_WORK)
		kind = find_kind(ctx,
		    &(struct submission){
		        pool->generation, ids, return_address(ctx), work, callback });
	waiting = add(pool->submitted, 1) + 1 - pool->withdrawn - pool->begun;
	if (waiting > pool->deepest)
		pool->deepest = waiting;
	if (is_slow && pool->size && 2 * pool->slow >= pool->size)
		add(pool->slow_quota, 1);
	job = (struct job){ bpf_ktime_get_ns(), .kind = kind, .slow = is_slow, .tid = (u32)ids };
	if (!put_job(&key, &job)) {
		count(unfollowed);
		add(pool->withdrawn, 1);
	}
}

/* uv_queue_work(loop, req, work_cb, after_work_cb) */
SEC("uprobe")
int on_queue(struct pt_regs *ctx)
{
	struct pool *pool = pool_of(bpf_get_attach_cookie(ctx));

	if (pool && argument2(ctx)) /* without a callback it is refused */
		begin_job(ctx, pool, argument1(ctx) + UV_WORK_OFFSET, argument2(ctx), false, false);
	return 0;
}

/* uv__work_submit(loop, w, kind, work, done) */
SEC("uprobe")
int on_submit(struct pt_regs *ctx)
{
	struct pool *pool = pool_of(bpf_get_attach_cookie(ctx));

	if (pool)
		begin_job(ctx, pool, argument1(ctx), argument3(ctx),
		    (u32)argument2(ctx) == UV_WORK_SLOW_IO, true);
	return 0;
}

/* In worker(), just before w->work(w): the cookie says in which register the job's link is. */
SEC("uprobe")
int on_run(struct pt_regs *ctx)
{
	u64 cookie = bpf_get_attach_cookie(ctx);
	struct pool *pool = pool_of(cookie);
	struct job_key key = { 0, linked_work(ctx, cookie) };
	struct job *job;

	if (!pool)
		return 0;
	key.generation = pool->generation;
	job = find_job(&key);
	if (!job) /* submitted before we came */
		return 0;
	add(pool->begun, 1);
	if (job->slow)
		add(pool->slow, 1);
	job->begun = bpf_ktime_get_ns();
	return 0;
}

/* In worker(), just after w->work(w). */
SEC("uprobe")
int on_ran(struct pt_regs *ctx)
{
	u64 now = bpf_ktime_get_ns(), cookie = bpf_get_attach_cookie(ctx);
	struct pool *pool = pool_of(cookie);
	struct job_key key = { 0, linked_work(ctx, cookie) };
	struct job *job;

	if (!pool)
		return 0;
	key.generation = pool->generation;
	job = find_job(&key);
	if (!job || !job->begun)
		return 0;
	job->ended = now;
	add(pool->busy, now - job->begun);
	if (job->slow)
		add(pool->slow, -1);
	return 0;
}

/* tools/quantize.Index */
static __always_inline u32 bucket_of(u64 v)
{
	u32 e = 0;

	if (v < 8)
		return v;
	for (u32 step = 32; step; step >>= 1) {
		if (v >> (e + step))
			e += step;
	}
	return (e - 2) * 8 + (v >> (e - 3) & 7);
}

static __always_inline void add_to(struct histogram *h, u64 v)
{
	u64 at = bucket_of(v);

	add(h->sum, v);
	if (v < h->min)
		h->min = v;
	if (v > h->max)
		h->max = v;
	if (at < SLOTS)
		add(h->buckets[at], 1);
}

static __always_inline void add_linear(struct kind *kind, u64 v)
{
	s64 below = (s64)v - linear_low;
	u64 at = below < 0 ? 0 : (u64)below / (u64)linear_step + 1;

	if (at > linear_levels + 1)
		at = linear_levels + 1;
	if (at < SLOTS)
		add(kind->linear[at], 1);
}

/* The kind's sums; null if there is no room for them. */
static __always_inline struct kind *kind_of(struct kind_key *key)
{
	struct kind *kind = bpf_map_lookup_elem(&kinds, key), *none;
	u32 zero = 0;

	if (kind)
		return kind;
	none = bpf_map_lookup_elem(&empty, &zero);
	if (!none)
		return 0; /* cannot happen; tells the verifier so */
	bpf_map_update_elem(&kinds, key, none, BPF_NOEXIST);
	return bpf_map_lookup_elem(&kinds, key);
}

/* uv__queue_done(w, status), uv__fs_done(w, status) ...: on the loop's thread. */
SEC("uprobe")
int on_done(struct pt_regs *ctx)
{
	u64 now = bpf_ktime_get_ns(), cookie = bpf_get_attach_cookie(ctx);
	struct job_key key = { 0, completed_work(ctx, cookie) };
	bool cancelled = (s32)argument1(ctx) == UV_ECANCELED, failed;
	struct pool *pool = pool_of(cookie);
	struct kind_key kind_key = {};
	struct job job;
	struct kind *kind;

	if (!pool)
		return 0;
	key.generation = kind_key.generation = pool->generation;
	kind_key.work = work_kind_of(cookie);
	kind_key.turn = turn;
	if (kind_key.work == WORK_FS)
		read_user(&kind_key.operation, 4, key.work + FS_TYPE);
	failed = result_of(kind_key.work, key.work) && !cancelled;
	if (!take_job(&key, &job)) {
		add(pool->before, 1);
		return 0;
	}
	if (!job.begun)
		add(pool->withdrawn, 1);
	add(pool->completed, 1);
	if (cancelled)
		add(pool->cancelled, 1);
	if (failed)
		add(pool->failed, 1);
	kind_key.kind = job.kind;
	kind = kind_of(&kind_key);
	if (!kind) {
		count(lost);
		return 0;
	}
	if (cancelled)
		add(kind->cancelled, 1);
	if (failed)
		add(kind->failed, 1);
	add_to(&kind->parts[TOTAL], now - job.submitted);
	if (linear_step > 0)
		add_linear(kind, now - job.submitted);
	if (!job.begun || job.ended < job.begun)
		return 0;
	add_to(&kind->parts[WAIT], job.begun - job.submitted);
	add_to(&kind->parts[RUN], job.ended - job.begun);
	add_to(&kind->parts[DELIVERY], now - job.ended);
	return 0;
}

/* uv__iou_fs_*(loop, req): returns 1 if io_uring does it. */
SEC("uretprobe")
int on_uring(struct pt_regs *ctx)
{
	struct pool *pool = pool_of(bpf_get_attach_cookie(ctx));

	if (pool && (s32)returned(ctx) == 1)
		add(pool->uring, 1);
	return 0;
}

/* uv_check_init(): node calls it once V8 is set up, and may have mapped its builtins a second
 * time. User space reads the mappings again.
 */
SEC("uprobe")
int on_init(struct pt_regs *ctx)
{
	u64 ids = current_ids();
	struct walk *w = take_walk(ids >> 32);

	if (!w)
		return 0;
	begin_walk(w, user_regs((struct task_struct *)bpf_get_current_task_btf()), ids);
	push(w, frame_of(FRAME_NATIVE, w->pc & PC_MASK));
	w->stack.flags |= STACK_NEW_CODE;
	send_stack(w, true);
	give_back(w);
	return 0;
}

/* Names of Node-API's works */

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, MAX_WORKS);
	__type(key, struct job_key);
	__type(value, u64);
} works SEC(".maps");

/* The work that a thread is creating. */
struct creation {
	u64 name;
	u64 result; /* where its address will be */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_THREADS_IN_CALLS);
	__type(key, u64);
	__type(value, struct creation);
} creating SEC(".maps");

/* napi_create_async_work(env, resource, resource name, execute, complete, data, result) */
SEC("uprobe")
int on_create(struct pt_regs *ctx)
{
	u64 string, ids = current_ids();
	struct walk *w = take_walk(ids >> 32);
	struct creation creation = {};

	if (!w)
		return 0;
	begin_walk(w, user_regs((struct task_struct *)bpf_get_current_task_btf()), ids);
	forget_types(w);
	w->head_of = 0;
	w->name.flags = 0;
	w->name.script = 0;
	w->name.start = -1;
	w->owner = (u64)w->process.generation << 32; /* all threads of the process alike */
	if (read_user(&string, 8, argument2(ctx)) && is_string(w, read_head(w, string))) {
		read_text(w, string, 0, NAME_BYTES);
		w->id = identity(w);
		send_function(w);
		creation.name = w->id;
		creation.result = argument6(ctx);
		bpf_map_update_elem(&creating, &ids, &creation, BPF_ANY);
	}
	give_back(w);
	return 0;
}

SEC("uretprobe")
int on_created(struct pt_regs *ctx)
{
	u64 ids = current_ids();
	struct creation *creation = bpf_map_lookup_elem(&creating, &ids);
	struct pool *pool = pool_of(bpf_get_attach_cookie(ctx));
	struct job_key key = {};

	if (!creation || !pool)
		return 0;
	key.generation = pool->generation;
	if (!returned(ctx) && read_user(&key.work, 8, creation->result))
		bpf_map_update_elem(&works, &key, &creation->name, BPF_ANY);
	bpf_map_delete_elem(&creating, &ids);
	return 0;
}

/* napi_queue_async_work(env, work): calls uv_queue_work(). */
SEC("uprobe")
int on_queue_named(struct pt_regs *ctx)
{
	u64 ids = current_ids();
	struct pool *pool = pool_of(bpf_get_attach_cookie(ctx));
	struct job_key key = { 0, argument1(ctx) };
	u64 *name;

	if (!pool)
		return 0;
	key.generation = pool->generation;
	name = bpf_map_lookup_elem(&works, &key);
	if (name)
		bpf_map_update_elem(&queueing, &ids, name, BPF_ANY);
	return 0;
}

char _license[] SEC("license") = "Dual MIT/GPL";
