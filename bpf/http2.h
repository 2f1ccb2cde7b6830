/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * HTTP/2: what node's session is called back with by nghttp2, for each field that it receives and for
 * each frame. A request is known by the session's address and its stream's number.
 */
#ifndef USTACK_HTTP2_H
#define USTACK_HTTP2_H

#include "transaction.h"

#define MAX_FIELDS 8 /* of a head that is sent: those that begin with a colon come first */

/* Requests on HTTP/2 connections. That of a connection that ends without closing its streams stays
 * until others need its place.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, MAX_REQUESTS);
	__type(key, struct request_key);
	__type(value, struct request);
} multiplexed SEC(".maps");

/* deps/nghttp2/lib/includes/nghttp2/nghttp2.h: the beginning of any frame, and of one with a head */
struct h2_frame {
	u64 length;
	s32 stream;
	u8 type, flags, reserved, pad;
	u8 more[24];
	u64 fields, field_count; /* of a head that is sent */
	u32 category;
};

struct h2_field {
	u64 name, value, name_bytes, value_bytes;
	u64 flags;
};

#define H2_DATA 0
#define H2_HEADERS 1
#define H2_RST_STREAM 3
#define H2_END_STREAM 1
#define H2_REQUEST 0 /* a head's category */
#define RCBUF_BASE 16

/* The first eight bytes of fields' names. */
#define H2_METHOD 0x00646f6874656d3aull    /* :method */
#define H2_PATH 0x000000687461703aull      /* :path */
#define H2_AUTHORITY 0x69726f687475613aull /* :authori */
#define H2_STATUS 0x007375746174733aull    /* :status */
#define H2_SCHEME 0x00656d656863733aull    /* :scheme */

/* The request of the frame's stream. */
static __always_inline struct request_key h2_key(struct node *node, u64 session, s32 id)
{
	struct request_key key = { { node->generation, session }, (u32)id };

	return key;
}

/* The session's connection; makes it known. */
static __always_inline struct stream *h2_stream(
    struct scan *s, struct node *node, u64 session, u32 role)
{
	struct stream *stream;
	u64 at;

	s->key.generation = node->generation;
	s->key.stream = session;
	stream = bpf_map_lookup_elem(&streams, &s->key);
	if (stream)
		return stream;
	if (!read_user(&at, 8, session + node->session))
		return 0;
	return new_stream(s, node, role, at);
}

/* Begins a request on a stream of the session. */
static __always_inline void h2_begin(
    struct scan *s, struct node *node, u64 session, s32 id, u32 role)
{
	struct request_key key = h2_key(node, session, id);
	struct stream *stream = h2_stream(s, node, session, role);
	struct request *r = &s->request;

	if (!stream) {
		count(unfollowed);
		return;
	}
	__builtin_memset(r, 0, sizeof(*r));
	r->begun = s->now;
	r->ids = current_ids();
	r->number = 255;
	r->idle = idle_so_far(stream->metrics);
	r->paused = paused_so_far(r->ids, s->now);
	bpf_map_update_elem(&multiplexed, &key, r, BPF_ANY);
}

/* Ends a request, if it has not ended. */
static __always_inline void h2_end(struct scan *s, struct request_key *key, u32 outcome)
{
	struct request *r = bpf_map_lookup_elem(&multiplexed, key);
	struct stream *stream = bpf_map_lookup_elem(&streams, &key->stream);

	if (!r || !stream)
		return;
	s->key = key->stream;
	s->outcome = outcome;
	s->piece.message.state = 0;
	s->piece.message.bytes = r->bytes;
	s->piece.message.status = r->status;
	report(s, stream, r, key, s->now);
	if (r->url_bytes > SHORT_URL_BYTES)
		bpf_map_delete_elem(&long_urls, key);
	bpf_map_delete_elem(&multiplexed, key);
}

/* Takes a field of a request's head, by the first bytes of its name. */
static __always_inline void h2_request_field(
    struct scan *s, struct request *r, struct request_key *key, u64 name, u64 value, u64 bytes)
{
	u64 n = bytes;

	if (name == H2_METHOD) {
		bound(n, METHOD_BYTES);
		r->method_bytes = n;
		mask_index(n, METHOD_BYTES - 1);
		read_user(r->method, n, value);
	} else if (name == H2_AUTHORITY) {
		bound(n, HOST_BYTES);
		r->host_bytes = n;
		read_user_part(r->host, HOST_BYTES, value);
	} else if (name == H2_PATH) {
		r->url_bytes = bytes;
		if (bytes > URL_BYTES)
			r->flags |= TRANSACTION_URL_CUT;
		bound(n, URL_BYTES);
		s->url.bytes = bytes;
		read_user(s->url.text, n, value);
		bpf_probe_read_kernel(r->url, sizeof(r->url), s->url.text);
		if (bytes > SHORT_URL_BYTES)
			bpf_map_update_elem(&long_urls, key, &s->url, BPF_ANY);
	}
}

/* Takes the status of a response's head. */
static __always_inline void h2_status(struct request *r, u64 value, u64 now)
{
	u8 digits[4] = {};
	u32 status;

	read_user(digits, 3, value);
	status = (digits[0] - '0') * 100 + (digits[1] - '0') * 10 + (digits[2] - '0');
	if (status < 200 || status > 999 || r->status)
		return;
	r->status = status;
	r->answered = now;
}

/* The first eight bytes of a field's name; 0 if it does not begin with a colon. */
static __always_inline u64 h2_name(u64 at, u64 bytes)
{
	u64 name = 0;

	if (bytes < 5 || !read_user(&name, 8, at) || (name & 0xff) != ':')
		return 0;
	return bytes < 8 ? name & ((1ull << 8 * (bytes & 7)) - 1) : name;
}

#endif
