//go:build ignore

// SPDX-License-Identifier: GPL-2.0 OR MIT
//
// logsnoop: what a process logs, as it writes it, and what its static probes say.
//
// A write is seen when it returns, by any thread: what was written then is still in memory. A probe
// is a uprobe, and user space says where its arguments are. The text of either is sent in chunks,
// each with the event that it is of; user space puts them together. Nobody is woken for a chunk:
// user space looks many times a second.
// Needs Linux 5.15.

#include "exec.h"
#include "socket.h"
#include "unended.h"
#include "usdt.h"

#define CHUNK_BYTES 8192 /* a power of two */
#define MAX_CHUNKS 1024  /* of a write, which has at most so many vectors (IOV_MAX) */
#define MAX_TEXT_CHUNKS 64
#define MAX_FDS 16
#define MAX_UNWANTED 16384
#define MAX_BROKEN 1024
#define WAKE_STEP 16      /* of bytes: more than a chunk has */
#define WAKE_AT (1 << 20) /* bytes that wait: user space is woken early */
#define FILE_TYPE 0170000 /* include/uapi/linux/stat.h: S_IFMT */
#define REGULAR 0100000
#define FIFO 0010000
#define CHARACTERS 0020000      /* such as a terminal */
#define PIPEFS_MAGIC 0x50495045 /* include/uapi/linux/magic.h */
#define APPENDS 02000           /* include/uapi/asm-generic/fcntl.h: O_APPEND */

enum { EVENT_CHUNK = EVENT_TOOL };
enum source { SOURCE_WRITE, SOURCE_PROBE };

enum chunk_flag {
	CHUNK_MORE = 1, /* other chunks of this event follow */
	CHUNK_CUT = 2,  /* after this one, text is missing: it is too long, or cannot be read */
	CHUNK_GAP = 4,  /* before this one, there was no room for chunks of writes to this file */
};

/* Part of the text of an event; all have the same ids and time. */
struct chunk {
	u32 event; /* EVENT_CHUNK */
	u16 source;
	u16 flags;
	u64 ids;                      /* tgid, tid */
	u64 time;                     /* ns, CLOCK_MONOTONIC */
	u64 hash;                     /* of the stack, which was sent before; 0: none */
	u64 what;                     /* the probe's attach cookie; the inode number of a file */
	u64 arguments[MAX_ARGUMENTS]; /* of a probe */
	u32 device, generation;       /* of the file; see struct open_file */
	s32 fd;
	u32 argument; /* number of the one whose text it is */
	u32 length;
	u8 text[CHUNK_BYTES];
};

/* A chunk and what is still to be sent. */
struct sending {
	struct chunk chunk;
	u64 address;        /* of the next byte */
	u64 left, total;    /* bytes of this vector, of the whole write */
	u64 vectors, count; /* the next vector, and how many there are */
	u32 texts;          /* arguments whose texts were not begun, a bit each */
	u32 failed;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, MAX_WALKS);
	__type(key, u32);
	__type(value, struct sending);
} sendings SEC(".maps");

/* A file of a process. The number of an inode may be another file's once the file is deleted, with
 * another generation where the file system has one.
 */
struct open_file {
	u64 inode;
	u32 device, generation;
	u32 tgid, pad;
};

/* Until when (ns, CLOCK_MONOTONIC) user space does not want a file, if it chooses by name: files are
 * renamed.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, MAX_UNWANTED);
	__type(key, struct open_file);
	__type(value, u64);
} unwanted SEC(".maps");

/* Files for a write to which there was no room. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, MAX_BROKEN);
	__type(key, struct open_file);
	__type(value, u8);
} broken SEC(".maps");

const volatile s32 fds[MAX_FDS]; /* the only ones that are wanted */
const volatile u32 fd_count = 0; /* 0: see is_wanted_file */
const volatile u32 by_name = 0;  /* user space chooses files */
const volatile u32 with_stacks = 0;

volatile u64 lost = 0;   /* events there was no room for */
volatile u64 unread = 0; /* events of which text could not be read */
volatile u64 cut = 0;    /* events with too much text */
volatile u64 closed = 0; /* writes to files that were closed meanwhile */

/* Keeps the types, which no map names as such, in the object for Go's bindings. */
const enum chunk_flag flag_unused __attribute__((unused));
const enum source source_unused __attribute__((unused));
const struct chunk chunk_unused __attribute__((unused));

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct super_block___log {
	unsigned int s_dev;
	unsigned long s_magic;
};

struct inode___log {
	unsigned short i_mode;
	unsigned long i_ino;
	u32 i_generation;
	struct super_block___log *i_sb;
};

struct file___log {
	struct inode___log *f_inode;
	unsigned int f_flags;
};

#pragma clang attribute pop

/* Names are only sent. */
static __always_inline void note_name(struct walk *w)
{
}

/* Sends the chunk. Not inlined: it would be verified for each place. */
__noinline int send_chunk(struct sending *s)
{
	struct open_file file = {};
	u64 bytes, waiting;
	u8 is = 1;

	if (!s)
		return 0;
	file.inode = s->chunk.what;
	file.device = s->chunk.device;
	file.generation = s->chunk.generation;
	file.tgid = s->chunk.ids >> 32;
	bytes = s->chunk.length;
	if (bytes > CHUNK_BYTES)
		return 0; /* cannot happen; tells the verifier so */
	if (lost && s->chunk.source == SOURCE_WRITE && !bpf_map_delete_elem(&broken, &file))
		s->chunk.flags |= CHUNK_GAP;
	waiting = bpf_ringbuf_query(&events, BPF_RB_AVAIL_DATA);
	if (!bpf_ringbuf_output(&events, &s->chunk, __builtin_offsetof(struct chunk, text) + bytes,
	        waiting >> WAKE_STEP == WAKE_AT >> WAKE_STEP ? BPF_RB_FORCE_WAKEUP :
	                                                       BPF_RB_NO_WAKEUP)) {
		s->chunk.flags &= ~CHUNK_GAP;
		return 1;
	}
	count(lost);
	s->failed = 1;
	if (s->chunk.source == SOURCE_WRITE)
		bpf_map_update_elem(&broken, &file, &is, BPF_ANY);
	return 0;
}

/* Sends what is missing of the event as such. */
static __always_inline void send_end(struct sending *s)
{
	s->chunk.length = 0;
	s->chunk.flags = CHUNK_CUT;
	send_chunk(s);
}

/* The event's record, to be filled; its walk is kept until give_back. */
static __always_inline struct sending *begin_sending(struct walk *w, u64 ids, u32 source)
{
	struct sending *s;
	u32 number;

	if (!w)
		return 0;
	number = w->number;
	s = bpf_map_lookup_elem(&sendings, &number);
	if (!s) {
		give_back(w);
		return 0; /* cannot happen; tells the verifier so */
	}
	s->chunk.event = EVENT_CHUNK;
	s->chunk.source = source;
	s->chunk.flags = 0;
	s->chunk.ids = ids;
	s->chunk.time = bpf_ktime_get_ns();
	s->chunk.hash = 0;
	s->chunk.argument = 0;
	s->chunk.length = 0;
	s->failed = 0;
	return s;
}

static __always_inline void take_stack(void *ctx, struct walk *w, struct sending *s, u64 ids)
{
	if (!with_stacks)
		return;
	capture(w, ctx, ids, 0);
	if (send_stack(w, false))
		s->chunk.hash = w->stack.hash;
}

/* Writes */

struct vector { /* include/uapi/linux/uio.h: struct iovec */
	u64 address, length;
};

/* Sends the next chunk of a write; 0: that was the last one. */
__noinline int next_chunk(struct sending *s)
{
	struct vector v;
	u64 bytes;

	if (!s || !s->total)
		return 0;
	if (!s->left) {
		if (!s->count || !read_user(&v, sizeof(v), s->vectors))
			return 0;
		s->vectors += sizeof(v);
		s->count--;
		s->address = v.address;
		s->left = v.length < s->total ? v.length : s->total;
		if (!s->left)
			return 1;
	}
	bytes = s->left < CHUNK_BYTES ? s->left : CHUNK_BYTES;
	if (bytes > CHUNK_BYTES || !read_user(s->chunk.text, bytes, s->address))
		return 0;
	s->address += bytes;
	s->left -= bytes;
	s->total -= bytes;
	s->chunk.length = bytes;
	s->chunk.flags = s->total ? CHUNK_MORE : 0;
	return send_chunk(s);
}

static __always_inline bool is_listed(s32 fd)
{
	for (u32 i = 0; i < MAX_FDS; i++) {
		if (i < fd_count && fds[i] == fd)
			return true;
	}
	return false;
}

/* Whether a file may have the name that user space wants. */
static __always_inline bool is_named(struct file___log *file, struct open_file *key)
{
	u32 type = BPF_CORE_READ(file, f_inode, i_mode) & FILE_TYPE;
	u64 *until;

	if (type == FIFO && BPF_CORE_READ(file, f_inode, i_sb, s_magic) == PIPEFS_MAGIC)
		return false;
	if (type != REGULAR && type != FIFO && type != CHARACTERS)
		return false;
	until = bpf_map_lookup_elem(&unwanted, key);
	return !until || bpf_ktime_get_ns() >= *until;
}

/* Whether a file is a log: standard output and standard error are, and what is only appended to. */
static __always_inline bool is_wanted_file(struct file___log *file, s32 fd, struct open_file *key)
{
	if (fd_count)
		return is_listed(fd);
	if (by_name)
		return is_named(file, key);
	if (fd == 1 || fd == 2)
		return true;
	return BPF_CORE_READ(file, f_flags) & APPENDS &&
	    (BPF_CORE_READ(file, f_inode, i_mode) & FILE_TYPE) == REGULAR;
}

/* A write that begins, where its end may go unseen. */
SEC("tp_btf/sys_enter")
int on_system_call(u64 *ctx)
{
	u64 nr = syscall_number((struct pt_regs *)ctx[0]);

	if (nr < MAX_SYSCALLS && syscalls[nr].wanted)
		handles_begin(ctx, current_ids());
	return 0;
}

/* A write that ended, at the tracepoint or in the kernel's function for it (stopon.bpf.c). */
SEC("tp_btf/sys_exit")
int on_system_call_end(u64 *ctx)
{
	struct pt_regs *regs = (struct pt_regs *)ctx[0];
	u64 nr = syscall_number(regs), ids, arguments[6];
	s64 result = ctx[1];
	struct open_file key = {};
	struct file___log *file;
	struct sending *s;
	struct walk *w;

	if (nr >= MAX_SYSCALLS || !syscalls[nr].wanted)
		return 0;
	ids = current_ids();
	if (!is_traced(ids) || !handles_end(ctx, ids, CALL_ENDS) || result <= 0)
		return 0;
	key.tgid = ids >> 32;
	syscall_arguments(regs, arguments);
	file = (void *)file_of(arguments[0]);
	if (!file) {
		count(closed);
		return 0;
	}
	key.inode = BPF_CORE_READ(file, f_inode, i_ino);
	key.device = BPF_CORE_READ(file, f_inode, i_sb, s_dev);
	key.generation = BPF_CORE_READ(file, f_inode, i_generation);
	if (!is_wanted_file(file, arguments[0], &key))
		return 0;
	w = take_walk(key.tgid);
	s = begin_sending(w, ids, SOURCE_WRITE);
	if (!s)
		return 0;
	s->chunk.what = key.inode;
	s->chunk.device = key.device;
	s->chunk.generation = key.generation;
	s->chunk.fd = arguments[0];
	s->total = result;
	s->left = s->count = s->address = 0;
	if (syscalls[nr].data_kind == DATA_BUFFER) {
		s->address = arguments[1];
		s->left = result;
	} else {
		s->vectors = arguments[1];
		s->count = arguments[2];
	}
	take_stack(ctx, w, s, ids);
	for (u32 i = 0; i < MAX_CHUNKS; i++) {
		if (!next_chunk(s))
			break;
	}
	if (s->total && !s->failed) {
		count(unread);
		send_end(s);
	}
	give_back(w);
	return 0;
}

/* Probes */

/* Sends the next chunk of a probe's texts; 0: that was the last one. */
__noinline int next_text(struct sending *s)
{
	u32 number = MAX_ARGUMENTS;
	long length;

	if (!s)
		return 0;
	if (!s->address) {
		for (u32 i = 0; i < MAX_ARGUMENTS; i++) {
			if (number == MAX_ARGUMENTS && s->texts >> i & 1)
				number = i;
		}
		if (number >= MAX_ARGUMENTS)
			return 0;
		s->texts &= ~(1u << number);
		s->address = s->chunk.arguments[number];
		s->chunk.argument = number;
	}
	length = bpf_probe_read_user_str(s->chunk.text, CHUNK_BYTES, (void *)s->address);
	s->address += CHUNK_BYTES - 1;
	if (length != CHUNK_BYTES)
		s->address = 0;
	s->chunk.length = length > 0 ? length - 1 : 0;
	s->chunk.flags = s->address || s->texts ? CHUNK_MORE : 0;
	return send_chunk(s) && s->chunk.flags & CHUNK_MORE;
}

SEC("uprobe")
int on_usdt(struct pt_regs *ctx)
{
	u64 ids = current_ids(), cookie = bpf_get_attach_cookie(ctx);
	struct walk *w = take_walk(ids >> 32);
	struct usdt *usdt;
	struct sending *s = begin_sending(w, ids, SOURCE_PROBE);

	if (!s)
		return 0;
	s->chunk.what = cookie;
	s->chunk.device = s->chunk.generation = s->chunk.fd = 0;
	usdt = usdt_arguments(ctx, cookie, s->chunk.arguments);
	s->address = 0;
	s->texts = 0;
	for (u32 i = 0; i < MAX_ARGUMENTS; i++) {
		if (usdt && may_be_text(&usdt->arguments[i]) && s->chunk.arguments[i])
			s->texts |= 1u << i;
	}
	take_stack(ctx, w, s, ids);
	if (!s->texts) {
		send_chunk(s);
		goto out;
	}
	for (u32 i = 0; i < MAX_TEXT_CHUNKS; i++) {
		if (!next_text(s))
			break;
	}
	if (!s->failed && s->chunk.flags & CHUNK_MORE) {
		count(cut);
		send_end(s);
	}
out:
	give_back(w);
	return 0;
}

char _license[] SEC("license") = "Dual MIT/GPL";
