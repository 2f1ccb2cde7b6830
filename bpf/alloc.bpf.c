//go:build ignore

// SPDX-License-Identifier: GPL-2.0 OR MIT
//
// jsprof --alloc and --gc: which stacks allocate memory, and which have V8 collect garbage.
//
// V8 allocates by moving a pointer through a buffer, and calls one function when the buffer has run
// out: what was used of the buffer is the weight of that moment. A thread adds up weights until they
// exceed a random number of bytes, and only then its stack is taken, with all of them. Large objects
// and memory outside of the heap each have a call of their own. What V8 allocates inside of a
// collection is not the program's.
// Needs Linux 5.15.

#include "exec.h"
#include "aggregate.h"

#define MAX_ALLOCATING 16384
#define MAX_BUFFERS 4               /* of a thread that are known: of young and of old objects */
#define MAX_COLLECTIONS 6           /* kinds of them */
#define HEAP_PAGE_BYTES (256 << 10) /* V8's */
#define LEAST_BYTES 1024            /* that a stack is taken for */
#define ORIGIN_COLLECTOR 2          /* AllocationOrigin::kGC */
#define COLLECTION_OTHER (MAX_COLLECTIONS - 1)

/* Kinds of events of --alloc. */
enum { HEAP, LARGE, EXTERNAL };

/* Of attach cookies. */
enum alloc_cookie {
	COOKIE_OFFSET = 0xffff,   /* of the buffer, or of the pointer to it, in its owner */
	COOKIE_INLINE = 1 << 16,  /* the owner has the buffer itself */
	COOKIE_ORIGIN_SHIFT = 20, /* number of the argument that says who allocates */
	COOKIE_ARGUMENT = 7,      /* number of an argument */
	COOKIE_KIND_SHIFT = 8,    /* kind of event */
	COOKIE_NO_MINOR = 1,      /* V8 has no minor mark-sweep */
	COOKIE_COLLECTOR = 2,     /* the argument is a GarbageCollector, not a GCType */
};

const volatile u32 with_kernel = 0;
const volatile u64 interval = 0; /* mean bytes between two stacks; 0: each event has its own */
volatile u64 heap_bytes = 0;     /* of buffers that have run out */
volatile u64 taken_bytes = 0;    /* of those, what stacks stand for */
volatile u64 leftover_bytes = 0; /* in buffers when a collection began: no stack stands for them */
volatile u64 doubtful = 0;       /* buffers that do not look like V8's */
volatile u64 unread = 0;         /* events of threads there was no room for */
volatile u64 buffers = 0;        /* that were read */

struct buffer {
	u64 start, top, limit;
};

/* A buffer of a thread, and how much of it is counted. */
struct tracked {
	u64 at;
	u64 start, counted;
};

struct collections {
	u64 ns, count;
};

/* What is known about a thread. */
struct allocating {
	u64 carried;    /* bytes that no stack stands for yet */
	u64 events;     /* likewise */
	u64 budget;     /* the stack is taken when they exceed it */
	u64 collecting; /* collections that it is inside of */
	u64 began;      /* when the outermost did */
	u64 kind;       /* its kind; COLLECTION_OTHER until that is known */
	u64 turn;       /* which of known is replaced next */
	struct tracked known[MAX_BUFFERS];
	u64 pauses_began[MAX_COLLECTIONS]; /* 0: not in one */
	struct collections pauses[MAX_COLLECTIONS];
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, MAX_ALLOCATING);
	__type(key, u64);
	__type(value, struct allocating);
} allocations SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct allocating);
} none SEC(".maps"); /* what a thread begins with */

/* What is known about the current thread; null if its process is not traced. */
static __always_inline struct allocating *thread_of(u64 ids)
{
	struct allocating *thread = bpf_map_lookup_elem(&allocations, &ids);
	u32 tgid = ids >> 32, zero = 0;
	struct allocating *begins;

	if (thread)
		return thread;
	if (!bpf_map_lookup_elem(&processes, &tgid))
		return 0;
	begins = bpf_map_lookup_elem(&none, &zero);
	if (!begins)
		return 0; /* cannot happen; tells the verifier so */
	bpf_map_update_elem(&allocations, &ids, begins, BPF_NOEXIST);
	thread = bpf_map_lookup_elem(&allocations, &ids);
	if (!thread)
		count(unread);
	return thread;
}

/* The means of 16 equally likely parts of an exponential distribution of mean 1024. */
static __always_inline u64 part_of_mean(u32 part)
{
	static const u16 parts[16] = { 33, 101, 174, 253, 338, 432, 534, 648, 777, 923, 1095, 1301,
		1560, 1908, 2444, 3863 };

	return parts[part & 15];
}

/* A random number of bytes: exponentially distributed, with the interval as its mean, so that no
 * program keeps in step with it.
 */
static __always_inline u64 random_budget(void)
{
	u32 random = bpf_get_prandom_u32();
	u64 mean = interval, within = (random >> 4) & 0xff;

	/* around the mean of the part, by up to half of the distance to the next */
	return (mean * part_of_mean(random & 15) >> 10) * (192 + (within >> 1)) >> 8;
}

/* A buffer is within a page; one that is empty may be at the end of it. */
static __always_inline bool looks_right(const struct buffer *b)
{
	return b->start <= b->top && b->top <= b->limit &&
	    (b->start == b->limit ||
	        (b->start & ~(u64)(HEAP_PAGE_BYTES - 1)) ==
	            ((b->limit - 1) & ~(u64)(HEAP_PAGE_BYTES - 1)));
}

/* The known buffer at an address, or the place for it. */
static __always_inline struct tracked *known_of(struct allocating *thread, u64 at)
{
	u64 turn;

	for (u32 i = 0; i < MAX_BUFFERS; i++) {
		if (thread->known[i].at == at)
			return &thread->known[i];
	}
	turn = thread->turn++;
	mask_index(turn, MAX_BUFFERS - 1);
	thread->known[turn].at = at;
	thread->known[turn].start = 0;
	thread->known[turn].counted = 0;
	return &thread->known[turn];
}

/* The bytes of a buffer that were used since it was last read. */
static __always_inline u64 used_since(struct tracked *known)
{
	struct buffer b;
	u64 from;

	if (!read_user(&b, sizeof(b), known->at)) {
		count(doubtful);
		return 0;
	}
	if (!b.start)
		return 0; /* none is in use, as after a collection */
	if (!looks_right(&b)) {
		count(doubtful);
		return 0;
	}
	count(buffers);
	from = known->start == b.start && known->counted <= b.top ? known->counted : b.start;
	known->start = b.start;
	known->counted = b.top;
	return b.top - from;
}

/* Takes the current thread's stack, at the entry of a function, and adds to it. */
static __always_inline void take(void *ctx, u32 kind, u64 events, u64 bytes)
{
	u64 ids = current_ids();
	struct walk *w = take_walk(ids >> 32);

	if (!w) {
		__sync_fetch_and_add(&lost, events);
		return;
	}
	capture(w, ctx, ids, AT_ENTRY | (with_kernel ? WITH_KERNEL : 0));
	add_to_stack(w, kind, 0, events, bytes);
	give_back(w);
}

/* The function's argument of the number that the cookie ends with. */
static __always_inline u64 argument_at(struct pt_regs *ctx, u64 cookie)
{
	u64 second = argument1(ctx), third = argument2(ctx), fourth = argument3(ctx);

	/* keeps the compiler from choosing an address in ctx, which the verifier refuses */
	asm volatile("" : "+r"(second), "+r"(third), "+r"(fourth));
	cookie &= COOKIE_ARGUMENT;
	return cookie == 1 ? second : cookie == 2 ? third : fourth;
}

/* A buffer has run out. The cookie says where its owner, the first argument, has it. */
SEC("uprobe")
int on_buffer(struct pt_regs *ctx)
{
	u64 ids = current_ids(), cookie = bpf_get_attach_cookie(ctx), at, bytes, events;
	struct allocating *thread;

	if ((u32)argument_at(ctx, cookie >> COOKIE_ORIGIN_SHIFT) == ORIGIN_COLLECTOR)
		return 0;
	thread = thread_of(ids);
	if (!thread || thread->collecting)
		return 0;
	at = argument0(ctx) + (cookie & COOKIE_OFFSET);
	if (!(cookie & COOKIE_INLINE) && !read_user(&at, sizeof(at), at)) {
		count(doubtful);
		return 0;
	}
	bytes = used_since(known_of(thread, at));
	if (!bytes)
		return 0;
	count(matched[HEAP]);
	__sync_fetch_and_add(&heap_bytes, bytes);
	if (!thread->budget)
		thread->budget = random_budget();
	thread->carried += bytes;
	thread->events++;
	if (thread->carried < thread->budget || bytes < LEAST_BYTES)
		return 0;
	bytes = thread->carried;
	events = thread->events;
	thread->carried = 0;
	thread->events = 0;
	thread->budget = random_budget();
	__sync_fetch_and_add(&taken_bytes, bytes);
	take(ctx, HEAP, events, bytes);
	return 0;
}

/* Memory of its own: a large object, or outside of the heap. The cookie says which argument is its
 * size.
 */
SEC("uprobe")
int on_size(struct pt_regs *ctx)
{
	u64 ids = current_ids(), cookie = bpf_get_attach_cookie(ctx), bytes;
	u64 kind = cookie >> COOKIE_KIND_SHIFT;
	struct allocating *thread = thread_of(ids);

	if (!thread || thread->collecting)
		return 0;
	bytes = argument_at(ctx, cookie);
	if (kind == LARGE)
		bytes = (u32)bytes;
	mask_index(kind, MAX_EVENTS - 1);
	count(matched[kind]);
	if (bytes)
		take(ctx, kind, 1, bytes);
	return 0;
}

/* Collections. */

/* A collection begins: what its buffers hold has no stack. */
SEC("uprobe")
int on_collect(struct pt_regs *ctx)
{
	struct allocating *thread = thread_of(current_ids());
	u64 bytes = 0;

	if (!thread)
		return 0;
	if (thread->collecting++)
		return 0;
	for (u32 i = 0; i < MAX_BUFFERS; i++) {
		if (thread->known[i].at)
			bytes += used_since(&thread->known[i]);
	}
	__sync_fetch_and_add(&leftover_bytes, bytes);
	return 0;
}

SEC("uretprobe")
int on_collected(struct pt_regs *ctx)
{
	struct allocating *thread = thread_of(current_ids());

	if (thread && thread->collecting)
		thread->collecting--;
	return 0;
}

/* The number of the kind of a collection by the bit that V8 has for it, or by its collector. */
static __always_inline u32 collection_of(u64 argument, u64 cookie)
{
	u32 kind;

	if (cookie & COOKIE_COLLECTOR) /* scavenger, mark-compactor, minor mark-sweeper */
		kind = argument == 1 ? 2 : argument ? 1 : 0;
	else
		kind = bits_of((u32)argument) - 1;
	if (!(cookie & COOKIE_COLLECTOR) && (cookie & COOKIE_NO_MINOR) && kind)
		kind++;
	return kind < COLLECTION_OTHER ? kind : COLLECTION_OTHER;
}

/* A pause begins; the second argument is its type. */
SEC("uprobe")
int on_pause(struct pt_regs *ctx)
{
	struct allocating *thread = thread_of(current_ids());
	u64 cookie = bpf_get_attach_cookie(ctx), kind = collection_of(argument1(ctx), cookie);

	if (!thread)
		return 0;
	thread->kind = kind;
	if (cookie & COOKIE_COLLECTOR)
		return 0; /* has no end of its own */
	mask_index(kind, 7);
	if (kind < MAX_COLLECTIONS)
		thread->pauses_began[kind] = bpf_ktime_get_ns();
	return 0;
}

/* A pause ends. Outside of a collection, it has its own stack. */
SEC("uprobe")
int on_pause_end(struct pt_regs *ctx)
{
	u64 cookie = bpf_get_attach_cookie(ctx), kind = collection_of(argument1(ctx), cookie), ns;
	struct allocating *thread = thread_of(current_ids());

	mask_index(kind, 7);
	if (!thread || kind >= MAX_COLLECTIONS || !thread->pauses_began[kind])
		return 0;
	ns = bpf_ktime_get_ns() - thread->pauses_began[kind];
	thread->pauses_began[kind] = 0;
	if (thread->collecting) {
		thread->pauses[kind].ns += ns;
		thread->pauses[kind].count++;
		return 0;
	}
	count(matched[kind]);
	take(ctx, kind, 1, ns);
	return 0;
}

SEC("uprobe")
int on_collection(struct pt_regs *ctx)
{
	struct allocating *thread = thread_of(current_ids());

	if (!thread || thread->collecting++)
		return 0;
	thread->began = bpf_ktime_get_ns();
	thread->kind = COLLECTION_OTHER;
	for (u32 i = 0; i < MAX_COLLECTIONS; i++) {
		thread->pauses[i].ns = 0;
		thread->pauses[i].count = 0;
	}
	return 0;
}

/* A collection has ended: its caller's stack is what it was before. */
SEC("uretprobe")
int on_collection_end(struct pt_regs *ctx)
{
	u64 ids = current_ids(), now = bpf_ktime_get_ns(), seen = 0, kind;
	struct allocating *thread = thread_of(ids);
	struct walk *w;

	if (!thread || !thread->collecting || --thread->collecting)
		return 0;
	for (u32 i = 0; i < MAX_COLLECTIONS; i++)
		seen += thread->pauses[i].count;
	kind = thread->kind;
	mask_index(kind, 7);
	if (!seen && kind < COLLECTION_OTHER) { /* V8 has the function that ends it inline */
		thread->pauses[kind].ns = now - thread->began;
		thread->pauses[kind].count = 1;
	}
	w = take_walk(ids >> 32);
	if (!w) {
		count(lost);
		return 0;
	}
	capture(w, ctx, ids, with_kernel ? WITH_KERNEL : 0);
	for (u32 i = 0; i < MAX_COLLECTIONS; i++) {
		if (!thread->pauses[i].count)
			continue;
		__sync_fetch_and_add(&matched[i], thread->pauses[i].count);
		add_to_stack(w, i, 0, thread->pauses[i].count, thread->pauses[i].ns);
	}
	give_back(w);
	return 0;
}

char _license[] SEC("license") = "Dual MIT/GPL";
