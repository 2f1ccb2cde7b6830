/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * Joins HTTP/1 messages, as they are written and read, with the requests that they belong to.
 */
#ifndef USTACK_MESSAGES_H
#define USTACK_MESSAGES_H

#include "parser.h"

#define LLHTTP_HEAD 2
#define LLHTTP_CONNECT 5
#define TEXT_HEAD 0x44414548 /* HEAD */
#define TEXT_CONNECT 0x4e4e4f43

/* Copies what is known of a stream's message to where its next piece is read, and back. */
static __always_inline void load_message(struct scan *s, struct message *m, u8 *carry)
{
	s->piece.message = *m;
	if (m->carried)
		__builtin_memcpy(s->piece.carry, carry, CARRIED_BYTES);
}

static __always_inline void store_message(struct scan *s, struct message *m, u8 *carry)
{
	*m = s->piece.message;
	if (m->carried)
		__builtin_memcpy(carry, s->piece.carry, CARRIED_BYTES);
}

static __always_inline bool is_method(struct request *r, u8 number, u32 text)
{
	return r->method_bytes ? *(u32 *)r->method == text : r->number == number;
}

/* The head of a response is complete. Returns PART_MESSAGE if the response is, too. */
__noinline int take_response_head(u32 number, struct stream *stream)
{
	struct scan *s = scan_numbered(number);
	struct message *m;
	struct request_key key;
	struct request *r = 0;
	bool is_bodiless, is_tunnel;

	if (!s || !stream)
		return PART_SOME;
	m = &s->piece.message;
	if (stream->unsettled == stream->first)
		settle(s->number, stream);
	key.stream = s->key;
	if (m->status < 200 && m->status != 101) {
		next_message(m);
		return PART_SOME;
	}
	key.number = stream->first;
	if (stream->first < stream->next)
		r = request_of(stream, &key);
	if (r)
		r->answered = m->begun;
	else if (stream->parser && stream->first >= stream->next)
		note_unasked(s, stream);
	is_tunnel = m->status == 101 ||
	    (r && m->status < 300 && is_method(r, LLHTTP_CONNECT, TEXT_CONNECT));
	is_bodiless =
	    m->status == 204 || m->status == 304 || (r && is_method(r, LLHTTP_HEAD, TEXT_HEAD));
	if (is_tunnel) {
		m->state = stream->asked.state = MESSAGE_OPAQUE;
		s->outcome = OUTCOME_UPGRADE;
		end_request(s->number, stream);
		withdraw_requests(s, stream, stream->first);
		return PART_SOME;
	}
	return begin_body(m, is_bodiless);
}

/* The method and target of a request are in the window. */
__noinline int begin_requested(u32 number, struct stream *stream)
{
	struct scan *s = scan_numbered(number);
	struct request_key key;
	struct request *r;
	u64 n, from;

	if (!s || !stream)
		return 0;
	s->request.begun = s->piece.message.begun;
	s->request.number = 255;
	s->request.method_bytes = s->piece.method_bytes;
	s->request.host_bytes = 0;
	from = s->piece.method_from;
	((u64 *)s->request.method)[0] = eight(&s->piece, from);
	((u64 *)s->request.method)[1] = eight(&s->piece, from + 8);
	from = s->piece.target_from;
	mask_index(from, WINDOW_BYTES - 1);
	s->url.bytes = n = s->piece.target_bytes;
	if (n > SHORT_URL_BYTES) {
		bound(n, URL_BYTES);
		bpf_probe_read_kernel(s->url.text, n, s->piece.window + from);
	}
	s->piece.has_request = 0;
	key.stream = s->key;
	key.number = stream->next;
	add_request(s, stream, s->piece.window + from);
	if (stream->role != ROLE_SERVER)
		return 0;
	if (!stream->unsettled)
		stream->unsettled = key.number;
	r = request_of(stream, &key);
	if (r)
		r->flags |= REQUEST_PARTIAL;
	return 0;
}

/* The latest request on the stream s->key, if it is not answered yet and there was room for it; or null. */
static __always_inline struct request *latest_request(
    struct scan *s, struct stream *stream, struct request_key *key)
{
	if (stream->first >= stream->next)
		return 0;
	key->stream = s->key;
	key->number = stream->next - 1;
	return request_of(stream, key);
}

/* Appends to a request's target what else there is of it. */
static __always_inline void extend_target(
    struct scan *s, struct request *r, struct request_key *key, const u8 *text, u64 bytes)
{
	u64 had = r->url_bytes;
	u8 *all = s->transaction.text; /* there is room for twice the bytes */

	r->url_bytes += bytes;
	if (r->url_bytes > URL_BYTES)
		r->flags |= TRANSACTION_URL_CUT;
	if (had >= URL_BYTES)
		return;
	if (copy_target(s, r, key, had) != had)
		return;
	bound(bytes, URL_BYTES);
	mask_index(had, URL_BYTES - 1);
	bpf_probe_read_kernel(all + had, bytes, text);
	bpf_probe_read_kernel(r->url, SHORT_URL_BYTES, all);
	if (r->url_bytes <= SHORT_URL_BYTES)
		return;
	s->url.bytes = r->url_bytes;
	bpf_probe_read_kernel(s->url.text, URL_BYTES, all);
	bpf_map_update_elem(&long_urls, key, &s->url, BPF_ANY);
}

/* More of the target of the latest request on the stream is in the window, or its line was none of HTTP. */
__noinline int extend_requested(u32 number, struct stream *stream)
{
	struct scan *s = scan_numbered(number);
	struct request_key key;
	struct request *r;

	if (!s || !stream)
		return 0;
	r = latest_request(s, stream, &key);
	if (!r)
		return 0;
	if (s->piece.message.state == MESSAGE_OPAQUE)
		withdraw_requests(s, stream, key.number);
	else
		extend_target(s, r, &key, s->piece.window, s->piece.target_bytes);
	return 0;
}

/* The host of the latest request on the stream, a client's, is in the window. */
__noinline int take_host(u32 number, struct stream *stream)
{
	struct scan *s = scan_numbered(number);
	struct request_key key;
	struct request *r;
	u64 n, from;

	if (!s || !stream)
		return 0;
	n = s->piece.host_bytes;
	s->piece.host_bytes = 0;
	from = s->piece.host_from;
	bound(n, HOST_BYTES);
	mask_index(from, WINDOW_BYTES - 1);
	r = latest_request(s, stream, &key);
	if (!r || r->host_bytes)
		return 0;
	r->host_bytes = n;
	bpf_probe_read_kernel(r->host, HOST_BYTES, s->piece.window + from);
	return 0;
}

/* The head of a request is complete. */
__noinline int take_request_head(u32 number, struct stream *stream)
{
	struct scan *s = scan_numbered(number);
	struct message *m;
	struct request_key key;
	struct request *r;

	if (!s || !stream)
		return PART_SOME;
	m = &s->piece.message;
	r = latest_request(s, stream, &key);
	if (r) {
		r->flags &= ~REQUEST_PARTIAL;
		r->head_end = s->piece.at;
	}
	return begin_body(m, !m->is_chunked && !m->is_sized);
}

/* Has the next buffer of s->written be the piece. False if there is none. */
static __always_inline bool next_piece(struct scan *s)
{
	struct written *w = &s->written;
	struct uv_buf buffer;

	if (w->next >= w->count || !w->left)
		return false;
	if (!read_buffer(&buffer, w)) {
		s->piece.message.state = MESSAGE_LOST;
		count(endless);
		return false;
	}
	w->next++;
	w->left -= buffer.bytes;
	s->piece.at = buffer.base;
	s->piece.end = buffer.base + buffer.bytes;
	return true;
}

/* Takes the next parts of what is written or read on the stream s->key. False if there are no others. */
__noinline int take_parts(u32 number, struct stream *stream)
{
	struct scan *s = scan_numbered(number);
	struct message *m;

	if (!s || !stream)
		return false;
	m = &s->piece.message;
	for (u32 i = 0; i < SOME_PARTS; i++) {
		u32 part;

		if (s->piece.at >= s->piece.end) {
			if (!next_piece(s))
				return false;
			continue;
		}
		if (!m->begun || is_unbegun(m)) /* an empty line may have come before */
			m->begun = s->now;
		m->last = s->now;
		part = next_part(&s->piece);
		if (s->piece.has_request)
			begin_requested(s->number, stream);
		if (s->piece.host_bytes)
			take_host(s->number, stream);
		if (part == PART_TARGET)
			extend_requested(s->number, stream);
		if (part == PART_HEAD)
			part = s->piece.direction == REQUESTS ?
			    take_request_head(s->number, stream) :
			    take_response_head(s->number, stream);
		if (part != PART_MESSAGE)
			continue;
		s->outcome = OUTCOME_DONE;
		if (s->piece.direction == RESPONSES)
			end_request(s->number, stream);
		next_message(m);
	}
	return true;
}

/* Takes a piece, or if w is not null what it has, on the stream s->key. */
static __always_inline void take_pieces(struct scan *s, struct stream *stream, struct written *w)
{
	if (w) {
		s->written = *w;
		s->piece.at = s->piece.end = 0;
	} else {
		s->written.count = 0;
	}
	for (u32 i = 0; i < MAX_PARTS / SOME_PARTS; i++) {
		if (!take_parts(s->number, stream))
			return;
	}
	if (s->piece.message.state < MESSAGE_UNTIL_CLOSE) {
		s->piece.message.state = MESSAGE_LOST;
		count(endless);
	}
}

/* Ends all requests on the stream s->key, which closes. */
__noinline int end_stream(u32 number)
{
	struct scan *s = scan_numbered(number);
	struct stream *stream;

	if (!s)
		return 0;
	stream = bpf_map_lookup_elem(&streams, &s->key);
	if (!stream)
		return 0;
	settle_all(s, stream);
	s->piece.message = stream->answered;
	for (u32 i = 0; i < MAX_PIPELINED; i++) {
		u32 state = s->piece.message.state;

		if (stream->first >= stream->next)
			break;
		s->outcome = state == MESSAGE_UNTIL_CLOSE || state == MESSAGE_LOST ? OUTCOME_DONE :
		    stream->aborted ? OUTCOME_ABORTED :
		                      OUTCOME_CLOSED;
		end_request(s->number, stream);
		next_message(&s->piece.message);
	}
	forget_stream(&s->key, stream);
	return 0;
}

#endif
