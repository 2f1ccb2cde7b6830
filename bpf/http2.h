/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * HTTP/2: what node's session is called back with by nghttp2, for each field that it receives and for
 * each frame. A request is known by the session's address and its stream's number.
 */
#ifndef USTACK_HTTP2_H
#define USTACK_HTTP2_H

#include "stream.h"

#define MAX_FIELDS 8 /* of a head that is sent: those that begin with a colon come first */
#define MAX_OPEN 256 /* so many of a session's open requests, the latest, end with it */

/* Requests on HTTP/2 connections. Those that make room for others are counted when their session ends. */
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

/* Links a request that begins with those of its session that are open. */
static __always_inline void h2_link(
    struct stream *stream, struct request_key *key, struct request *r)
{
	struct request_key latest = { key->stream, stream->latest };
	struct request *older = bpf_map_lookup_elem(&multiplexed, &latest);

	r->older = older ? stream->latest : 0;
	if (older)
		older->newer = key->number;
	stream->latest = key->number;
	stream->open++;
}

/* Undoes h2_link. */
static __always_inline void h2_unlink(
    struct stream *stream, struct request_key *key, struct request *r)
{
	struct request_key older = { key->stream, r->older }, newer = { key->stream, r->newer };
	struct request *other = older.number ? bpf_map_lookup_elem(&multiplexed, &older) : 0;

	if (other)
		other->newer = r->newer;
	other = newer.number ? bpf_map_lookup_elem(&multiplexed, &newer) : 0;
	if (other)
		other->older = r->older;
	if (stream->latest == key->number)
		stream->latest = r->older;
	if (stream->open)
		stream->open--;
}

/* Ends the request of that number on the session s->key, if it has not ended. */
__noinline int h2_end(u32 number, u32 id, u32 outcome)
{
	struct scan *s = scan_numbered(number);
	struct request_key key;
	struct stream *stream;
	struct request *r;

	if (!s)
		return 0;
	key.stream = s->key;
	key.number = id;
	r = bpf_map_lookup_elem(&multiplexed, &key);
	if (!r)
		return 0;
	stream = bpf_map_lookup_elem(&streams, &s->key);
	if (stream) {
		s->outcome = outcome;
		s->piece.message.state = 0;
		s->piece.message.bytes = r->bytes;
		s->piece.message.status = r->status;
		report(s, stream, r, &key, s->now);
		h2_unlink(stream, &key, r);
	} /* else it was counted when the connection closed */
	if (r->url_bytes > SHORT_URL_BYTES)
		bpf_map_delete_elem(&long_urls, &key);
	bpf_map_delete_elem(&multiplexed, &key);
	return 0;
}

/* Ends all requests on the session s->key, whose connection closes: node does not close the last of its
 * streams before.
 */
__noinline int h2_end_all(u32 number)
{
	struct scan *s = scan_numbered(number);
	struct stream *stream;
	u32 outcome;

	if (!s)
		return 0;
	stream = bpf_map_lookup_elem(&streams, &s->key);
	if (!stream)
		return 0;
	outcome = is_closed_by_peer(stream, (struct sock *)stream->alias) ? OUTCOME_ABORTED :
	                                                                    OUTCOME_CLOSED;
	for (u32 i = 0; i < MAX_OPEN && stream->latest; i++)
		h2_end(s->number, stream->latest, outcome);
	__sync_fetch_and_add(&unattributed, stream->open);
	return 0;
}

/* The session's connection; makes it known. A session may be where another was whose socket is not closed
 * yet: its StreamBase is another.
 */
static __always_inline struct stream *h2_stream(struct scan *s, struct node *node, u32 role)
{
	struct stream *stream;
	u64 at;

	if (!read_user(&at, 8, s->key.stream + node->session))
		return 0;
	stream = bpf_map_lookup_elem(&streams, &s->key);
	if (stream && stream->base == at)
		return stream;
	if (stream && stream->is_multiplexed)
		h2_end_all(s->number);
	stream = new_stream(s, node, role, at);
	if (stream)
		stream->base = at;
	return stream;
}

/* Begins a request on a stream of the session s->key. */
static __always_inline void h2_begin(
    struct scan *s, struct node *node, struct request_key *key, u32 role)
{
	struct stream *stream = h2_stream(s, node, role);
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
	r->paused = paused_so_far(stream->node, r->ids, s->now);
	h2_link(stream, key, r);
	if (bpf_map_update_elem(&multiplexed, key, r, BPF_ANY)) {
		h2_unlink(stream, key, r);
		count(unfollowed);
	}
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

/* Http2Session::OnBeginHeadersCallback(nghttp2_session *, const nghttp2_frame *, void *) */
SEC("uprobe")
int on_h2_begin(struct pt_regs *ctx)
{
	struct node *node = node_of(bpf_get_attach_cookie(ctx));
	struct request_key key;
	struct h2_frame frame;
	struct scan *s;

	if (!node || !node->opened || !with_servers ||
	    !read_user(&frame, sizeof(frame), argument1(ctx)) || frame.type != H2_HEADERS ||
	    frame.category != H2_REQUEST)
		return 0;
	key = h2_key(node, argument2(ctx), frame.stream);
	s = take_scan();
	if (!s)
		return 0;
	s->key = key.stream;
	h2_begin(s, node, &key, ROLE_SERVER);
	give_back_scan(s);
	return 0;
}

/* Http2Session::OnHeaderCallback(nghttp2_session *, const nghttp2_frame *, nghttp2_rcbuf *name,
 * nghttp2_rcbuf *value, uint8_t, void *)
 */
SEC("uprobe")
int on_h2_field(struct pt_regs *ctx)
{
	struct node *node = node_of(bpf_get_attach_cookie(ctx));
	struct request_key key;
	struct h2_frame frame;
	struct request *r;
	u64 arguments[6], name[2], value[2], start;
	struct scan *s;

	call_arguments(ctx, arguments);
	if (!node || !read_user(name, sizeof(name), arguments[2] + RCBUF_BASE))
		return 0;
	start = h2_name(name[0], name[1]);
	if (!start || start == H2_SCHEME ||
	    !read_user(value, sizeof(value), arguments[3] + RCBUF_BASE) ||
	    !read_user(&frame, 16, arguments[1]) || frame.type != H2_HEADERS)
		return 0;
	key = h2_key(node, arguments[5], frame.stream);
	r = bpf_map_lookup_elem(&multiplexed, &key);
	if (!r)
		return 0;
	if (start == H2_STATUS) {
		h2_status(r, value[0], bpf_ktime_get_ns());
		return 0;
	}
	s = take_scan();
	if (!s)
		return 0;
	h2_request_field(s, r, &key, start, value[0], value[1]);
	give_back_scan(s);
	return 0;
}

/* The head of a frame that is sent. */
static __always_inline void h2_sent_head(
    struct scan *s, struct node *node, struct request_key *key, struct h2_frame *frame)
{
	struct request *r = bpf_map_lookup_elem(&multiplexed, key);
	struct h2_field field;
	u64 start;

	for (u32 i = 0; i < MAX_FIELDS; i++) {
		if (i >= frame->field_count ||
		    !read_user(&field, sizeof(field), frame->fields + i * sizeof(field)))
			return;
		start = h2_name(field.name, field.name_bytes);
		if (!start)
			return;
		if (start == H2_STATUS) {
			if (r)
				h2_status(r, field.value, s->now);
			return;
		}
		if (i == 0 && frame->category == H2_REQUEST && with_clients && node->opened) {
			h2_begin(s, node, key, ROLE_CLIENT);
			r = bpf_map_lookup_elem(&multiplexed, key);
		}
		if (!r)
			return;
		h2_request_field(s, r, key, start, field.value, field.value_bytes);
	}
}

/* A frame passed in the direction of a role's responses or requests. */
static __always_inline void h2_passed(
    struct scan *s, struct request_key *key, struct h2_frame *frame, u32 responder)
{
	struct stream *stream = bpf_map_lookup_elem(&streams, &key->stream);
	struct request *r = bpf_map_lookup_elem(&multiplexed, key);

	if (!stream || !r || stream->role != responder)
		return;
	if (frame->type == H2_DATA || frame->type == H2_HEADERS)
		r->bytes += frame->length;
	if (frame->flags & H2_END_STREAM && r->status)
		h2_end(s->number, key->number, OUTCOME_DONE);
}

/* Takes a frame that was sent or received. Only the beginning of one received is read. */
static __always_inline void h2_take_frame(struct pt_regs *ctx, bool is_sent)
{
	struct node *node = node_of(bpf_get_attach_cookie(ctx));
	struct request_key key;
	struct h2_frame frame;
	struct scan *s;

	if (!node || !read_user(&frame, is_sent ? sizeof(frame) : 16, argument1(ctx)))
		return;
	if (frame.type != H2_DATA && frame.type != H2_HEADERS &&
	    !(is_sent && frame.type == H2_RST_STREAM))
		return;
	key = h2_key(node, argument2(ctx), frame.stream);
	s = take_scan();
	if (!s)
		return;
	s->key = key.stream;
	if (is_sent && frame.type == H2_RST_STREAM)
		h2_end(s->number, key.number, OUTCOME_CLOSED);
	if (is_sent && frame.type == H2_HEADERS)
		h2_sent_head(s, node, &key, &frame);
	h2_passed(s, &key, &frame, is_sent ? ROLE_SERVER : ROLE_CLIENT);
	give_back_scan(s);
}

/* Http2Session::OnFrameSent(nghttp2_session *, const nghttp2_frame *, void *) */
SEC("uprobe")
int on_h2_sent(struct pt_regs *ctx)
{
	h2_take_frame(ctx, true);
	return 0;
}

/* Http2Session::OnFrameReceive(nghttp2_session *, const nghttp2_frame *, void *) */
SEC("uprobe")
int on_h2_received(struct pt_regs *ctx)
{
	h2_take_frame(ctx, false);
	return 0;
}

/* Http2Session::OnStreamClose(nghttp2_session *, int32_t, uint32_t, void *) */
SEC("uprobe")
int on_h2_close(struct pt_regs *ctx)
{
	struct node *node = node_of(bpf_get_attach_cookie(ctx));
	struct request_key key;
	struct scan *s;

	if (!node)
		return 0;
	key = h2_key(node, argument3(ctx), argument1(ctx));
	if (!bpf_map_lookup_elem(&multiplexed, &key))
		return 0;
	s = take_scan();
	if (!s)
		return 0;
	s->key = key.stream;
	h2_end(s->number, key.number, OUTCOME_ABORTED);
	give_back_scan(s);
	return 0;
}

#endif
