/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * Connections that nodesnoop follows: how they become known, are found, and are forgotten.
 */
#ifndef USTACK_STREAM_H
#define USTACK_STREAM_H

#include "transaction.h"

/* The connection that is known by key, or that key is an alias of; key becomes its own. Null if no
 * connection is known by it.
 */
static __always_inline struct stream *find_stream(struct stream_key *key)
{
	struct stream *stream = bpf_map_lookup_elem(&streams, key);
	u64 *other;

	if (stream)
		return stream;
	other = bpf_map_lookup_elem(&aliases, key);
	if (!other)
		return 0;
	key->stream = *other;
	return bpf_map_lookup_elem(&streams, key);
}

/* A connection that was a tunnel, or had something else than HTTP, has a request. */
static __always_inline void return_to_http(struct stream *stream)
{
	if (stream->first < stream->next)
		return; /* what was written was to have been its response */
	next_message(&stream->asked);
	next_message(&stream->answered);
	stream->step = STEP_UNKNOWN;
}

static __always_inline void forget_stream(struct stream_key *key, struct stream *stream)
{
	struct stream_key alias = { key->generation, stream->alias };
	u64 *to = bpf_map_lookup_elem(&aliases, &alias);

	if (to && *to == key->stream)
		bpf_map_delete_elem(&aliases, &alias);
	bpf_map_delete_elem(&streams, key);
}

/* Forgets the connection that is known by key, if any, before another is. */
static __always_inline void forget(struct stream_key key)
{
	struct stream *stream = find_stream(&key);

	if (stream)
		forget_stream(&key, stream);
}

/* The socket of a uv_stream_t; or null. */
static __always_inline struct sock *socket_of_handle(u64 handle)
{
	u32 fd;

	return read_user(&fd, 4, handle + HANDLE_FD) ? socket_of(fd) : 0;
}

/* Whether the other side has closed a connection, as far as its socket says. */
static __always_inline bool has_ended(struct sock *sk)
{
	u8 state = BPF_CORE_READ(sk, __sk_common.skc_state);

	return state == TCP_CLOSE || state == TCP_CLOSE_WAIT;
}

/* Whether the other side was the first to do so. */
static __always_inline bool is_closed_by_peer(struct stream *stream, struct sock *sk)
{
	return !stream->is_left && has_ended(sk);
}

/* Where libuv has how long a loop was idle; or 0. */
static __always_inline u64 metrics_of(struct node *node, u64 loop)
{
	u64 metrics;

	return read_user(&metrics, 8, loop + LOOP_METRICS) && metrics ? metrics + node->idle : 0;
}

/* The loop of a handle, which is the current thread's; or 0. */
static __always_inline u64 loop_of(u64 handle)
{
	u64 loop = 0, ids = current_ids();

	if (read_user(&loop, 8, handle + HANDLE_LOOP) && loop)
		bpf_map_update_elem(&loops, &ids, &loop, BPF_ANY);
	return loop;
}

/* Makes s->stream known as s->key. Null if there is no room. */
static __always_inline struct stream *add_stream(struct scan *s, struct node *node, u32 role)
{
	struct stream_key alias = { s->key.generation, s->stream.alias };

	forget(s->key);
	if (alias.stream)
		forget(alias); /* also the connection on whose socket there is a tunnel now */
	s->stream.role = role;
	s->stream.node = node->number;
	s->stream.first = s->stream.next = 1;
	if (bpf_map_update_elem(&streams, &s->key, &s->stream, BPF_ANY))
		return 0;
	if (alias.stream && bpf_map_update_elem(&aliases, &alias, &s->key.stream, BPF_ANY)) {
		bpf_map_delete_elem(&streams, &s->key);
		return 0;
	}
	return bpf_map_lookup_elem(&streams, &s->key);
}

/* Makes the connection whose StreamBase is at known in that role: by s->key, which becomes its socket
 * unless it is encrypted or HTTP/2. Null if there is no room, or if it has no socket.
 */
static __always_inline struct stream *new_stream(
    struct scan *s, struct node *node, u32 role, u64 at)
{
	u64 handle = 0, wrapped = 0;
	struct sock *sk;

	__builtin_memset(&s->stream, 0, sizeof(s->stream));
	read_user(&handle, 8, at + STREAM_HANDLE);
	if (handle - at > MAX_WRAP_BYTES) {
		s->stream.is_encrypted = 1;
		read_user(&wrapped, 8, at + node->wrapped);
		read_user(&handle, 8, wrapped + STREAM_HANDLE);
	}
	s->stream.is_multiplexed = s->key.stream != at;
	sk = socket_of_handle(handle);
	if (!sk)
		return 0;
	read_ends(&s->stream.ends, sk);
	s->stream.alias = (u64)sk;
	if (!s->stream.is_encrypted && !s->stream.is_multiplexed) {
		s->stream.alias = at;
		s->key.stream = (u64)sk;
	}
	s->stream.metrics = metrics_of(node, loop_of(handle));
	return add_stream(s, node, role);
}

/* Makes the connection of a client known by its socket. Null if there is no room. */
static __always_inline struct stream *new_stream_of_socket(
    struct scan *s, struct node *node, struct sock *sk)
{
	u64 ids = current_ids(), *loop = bpf_map_lookup_elem(&loops, &ids);

	__builtin_memset(&s->stream, 0, sizeof(s->stream));
	read_ends(&s->stream.ends, sk);
	if (loop)
		s->stream.metrics = metrics_of(node, *loop);
	return add_stream(s, node, ROLE_CLIENT);
}

/* The connection whose StreamBase is in key and whose socket was seen first; key becomes its own. Null
 * if its socket is not known.
 */
static __always_inline struct stream *find_by_socket(struct node *node, struct stream_key *key)
{
	struct stream_key alias = *key;
	struct stream *stream;
	u64 handle;

	if (!read_user(&handle, 8, key->stream + STREAM_HANDLE) ||
	    handle - key->stream > MAX_WRAP_BYTES)
		return 0;
	key->stream = (u64)socket_of_handle(handle);
	stream = bpf_map_lookup_elem(&streams, key);
	if (!stream || stream->alias)
		return 0;
	stream->alias = alias.stream;
	bpf_map_update_elem(&aliases, &alias, &key->stream, BPF_ANY);
	if (!stream->metrics)
		stream->metrics = metrics_of(node, loop_of(handle));
	return stream;
}

#endif
