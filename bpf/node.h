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
	u32 stream;     /* the connection's StreamBase; see struct parser_head */
	u32 url;        /* struct target_of */
	u32 started;    /* from there, less than TAIL_BYTES: when the message began, in ns */
	u32 wrapped;    /* from TLSWrap's StreamBase: the StreamBase that it encrypts for */
	u32 is_open;    /* all probes are attached: requests may begin */
	u32 session;    /* from an Http2Session: its StreamBase */
	u32 idle;       /* from libuv's metrics: how long the loop was idle */
	u32 has_sends;  /* what it writes unencrypted is read when its sockets have taken it */
};

/* Where a Parser has a request's target. */
struct target_of {
	u64 text, on_heap, bytes;
};

#define TAIL_BYTES \
	256 /* of a Parser from there on, a power of two: MaxTail of symbolize/nodehttp */

/* Of llhttp's parser, which follows StreamListener's two links (src/node_http_parser.cc). */
#define LLHTTP_TYPE 72
#define LLHTTP_METHOD 73
#define LLHTTP_MAJOR 74
#define STREAM_HANDLE 0x40 /* from a LibuvStreamWrap's StreamBase: its uv_stream_t */
#define HANDLE_LOOP 8      /* include/uv.h */
#define HANDLE_TYPE 0x10
#define HANDLE_FD 0xb8 /* of a uv_stream_t */
#define UV_NAMED_PIPE 7
#define UV_TCP 12
#define LOOP_METRICS 0x28
#define MAX_WRAP_BYTES 0x400 /* a LibuvStreamWrap contains its uv_stream_t */
#define LISTENER_STREAM 8    /* src/stream_base.h: from a StreamListener */

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_PROCESSES);
	__type(key, u32);
	__type(value, struct node);
} nodes SEC(".maps");

/* Their numbers, by tgid. */
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
	u32 tgid = current_ids() >> 32, *number = bpf_map_lookup_elem(&node_numbers, &tgid);

	return number ? node_of(*number) : 0;
}

#endif
