/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * What nodesnoop's probes know about the node of each process: where it keeps what is read.
 */
#ifndef USTACK_NODE_H
#define USTACK_NODE_H

#include "target.h"

/* Where one process's node keeps what is read, from a Parser's address if nothing else is said. */
struct node {
	u64 generation; /* of the process */
	u64 opened;     /* ns: when all probes were attached, and requests may begin; 0: not yet */
	u32 stream;     /* the connection's StreamBase; see struct parser_head */
	u32 url;        /* struct target_of */
	u32 started;    /* from there, less than TAIL_BYTES: when the message began, in ns */
	u32 wrapped;    /* from TLSWrap's StreamBase: the StreamBase that it encrypts for */
	u32 session;    /* from an Http2Session: its StreamBase */
	u32 idle;       /* from libuv's metrics: how long the loop was idle */
	u32 has_sends;  /* what it writes unencrypted is read when its sockets have taken it */
	u32 number;     /* its own */
	u32 reads;      /* enum reads */
	u32 wrap;       /* from a HandleWrap to its StreamBase */
	u32 tgid;
	u32 file_path; /* from the ThreadPoolWork of a job on a whole file: its path; 0: unknown */
	u32 read_error, write_error; /* from there: libuv's number of its error */
};

/* How the requests that a node serves without encryption are found. */
enum reads {
	READS_BY_PROBE, /* where its parser has read their heads */
	READS_TAKEN,    /* in what its sockets have received (received.h) */
	READS_LEFT,     /* by the probe again, for good */
};

/* Where a Parser has a request's target. */
struct target_of {
	u64 text, on_heap, bytes;
};

/* What of a Parser says which message it is, from its StreamListener's stream on: llhttp's parser
 * follows StreamListener's two links.
 */
struct parser_head {
	u64 stream, previous;
	u8 llhttp[80];
};

#define TAIL_BYTES \
	256 /* of a Parser from there on, a power of two: MaxTail of symbolize/nodehttp */

#define STREAM_HANDLE 0x40 /* from a LibuvStreamWrap's StreamBase: its uv_stream_t */
#define HANDLE_WRAP 0      /* include/uv.h: data, which is its HandleWrap */
#define HANDLE_LOOP 8
#define HANDLE_TYPE 0x10
#define HANDLE_WATCHER 0x88 /* of a uv_stream_t: its uv__io_t */
#define HANDLE_FD 0xb8
#define UV_NAMED_PIPE 7
#define UV_TCP 12
#define LOOP_METRICS 0x28
#define LOOP_WATCHERS 0x68   /* uv__io_t *, by descriptor, and how many there are */
#define MAX_WRAP_BYTES 0x400 /* a LibuvStreamWrap contains its uv_stream_t */
#define LISTENER_STREAM 8    /* src/stream_base.h: from a StreamListener */
#define STREAM_LISTENER 8    /* from a StreamBase */
#define STREAM_BYTES 16      /* that it has read so far */

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_PROCESSES);
	__type(key, u32);
	__type(value, struct node);
} nodes SEC(".maps");

#define MAX_PORTS 4

/* What is known of how a node serves, to decide how to find its requests. */
struct serving {
	u64 listener;         /* the vtable of a Parser's StreamListener */
	u64 plain;            /* requests found by the probe that could have been found otherwise */
	u32 unfit;            /* some cannot, now or later */
	u16 ports[MAX_PORTS]; /* where it serves such; 0: none */
	u32 pad;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_PROCESSES);
	__type(key, u32);
	__type(value, struct serving);
} servings SEC(".maps");

/* Which node the processes may have whose tgids have the same lower bits: most have none, and are
 * passed over at once.
 */
struct node_slot {
	u32 after; /* the number of the first, and one; 0: none is watched; ~0: that has ended */
	u32 is_shared; /* others are watched, or were: see node_numbers */
};

#define NODE_SLOTS 1024 /* a power of two */

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, NODE_SLOTS);
	__type(key, u32);
	__type(value, struct node_slot);
} node_slots SEC(".maps");

/* The numbers of nodes by tgid. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_PROCESSES);
	__type(key, u32);
	__type(value, u32);
} node_numbers SEC(".maps");

/* A probe's cookie: the number of its process's node in the lower half, in the upper one what is to be
 * added to the first argument.
 */
#define adjusted(argument, cookie) ((argument) + (s64)(s32)((cookie) >> 32))

static __always_inline struct node *node_of(u64 cookie)
{
	u32 number = cookie;

	return bpf_map_lookup_elem(&nodes, &number);
}

/* The node of the current process, in user space's pid namespace; null if it is not watched. */
static __always_inline struct node *current_node(void)
{
	u32 *number, tgid = current_ids() >> 32, at = tgid & (NODE_SLOTS - 1);
	struct node_slot *slot = bpf_map_lookup_elem(&node_slots, &at);
	struct node *node;

	if (!slot || !slot->after)
		return 0;
	node = node_of(slot->after - 1);
	if (node && node->tgid == tgid)
		return node;
	if (!slot->is_shared)
		return 0;
	number = bpf_map_lookup_elem(&node_numbers, &tgid);
	return number ? node_of(*number) : 0;
}

#endif
