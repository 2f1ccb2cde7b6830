/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * Requests in what a server's sockets have received. Where most of a node's requests come unencrypted
 * and one by one, this costs less than a probe in its parser. What was received is taken for a request
 * only if the parser confirms it, at the latest when there is a response (parser.h). User space decides
 * for each node, and turns back at the first request that cannot be found so.
 */
#ifndef USTACK_RECEIVED_H
#define USTACK_RECEIVED_H

#include "messages.h"

/* RFC 8446, 5.1 and 4: the type and version of a record, and the type of the message in it. */
#define HELLO_BYTES 6
/* Whether so many bytes begin one. */
#define is_client_hello(b, n) \
	((b)[0] == 0x16 && ((n) < 2 || (b)[1] == 3) && ((n) < HELLO_BYTES || (b)[5] == 1))

/* What a read has received. */
struct received {
	u64 at, bytes;
	u32 fd;
	u32 pad;
};

/* Whether what is at that address seems to be a request. What is in the loop does not branch: the
 * compiler may let what is common to the branches fall through to the loop's beginning, which the
 * verifier of Linux 6.1 refuses.
 */
static __always_inline bool seems_request(u64 at)
{
	u8 text[16], next;
	u32 is_other;
	u64 i;

	if (!read_user(text, sizeof(text), at))
		return false;
	for (i = 0; i < sizeof(text) - 1; i++) {
		if (text[i] == ' ')
			break;
		is_other = !is_capital(text[i]);
		asm volatile("" : "+r"(is_other));
		is_other &= text[i] != '-';
		if (is_other)
			return false;
	}
	if (i < 3 || i >= sizeof(text) - 1)
		return false;
	next = text[i + 1];
	return next == '/' || next == '*' || next == 'h';
}

/* Counts what is at that address if it seems to be a request, which is not found if the node's requests
 * are to be found in what is received. Returns whether it seems so.
 */
static __always_inline bool note_request_unseen(struct node *node, u64 at)
{
	if (!seems_request(at))
		return false;
	if (node->reads == READS_TAKEN)
		count(unattributed);
	return true;
}

/* The stream handle that a loop watches a descriptor for; or 0. */
static __always_inline u64 watched_handle(u64 loop, u32 fd)
{
	u64 watchers, watcher, handle;
	u32 count, type, of;

	if (!read_user(&watchers, 8, loop + LOOP_WATCHERS) ||
	    !read_user(&count, 4, loop + LOOP_WATCHERS + 8) || fd >= count ||
	    !read_user(&watcher, 8, watchers + 8 * fd) || watcher < HANDLE_WATCHER)
		return 0;
	handle = watcher - HANDLE_WATCHER;
	if (!read_user(&type, 4, handle + HANDLE_TYPE) ||
	    (type != UV_TCP && type != UV_NAMED_PIPE) || !read_user(&of, 4, handle + HANDLE_FD) ||
	    of != fd)
		return 0;
	return handle;
}

/* The StreamBase of a handle of node's; or 0. */
static __always_inline u64 stream_of_handle(struct node *node, u64 handle)
{
	u64 wrap, of;

	if (!handle || !read_user(&wrap, 8, handle + HANDLE_WRAP) ||
	    !read_user(&of, 8, wrap + node->wrap + STREAM_HANDLE) || of != handle)
		return 0;
	return wrap + node->wrap;
}

/* The Parser that reads a StreamBase; or 0. */
static __always_inline u64 parser_of_stream(struct node *node, struct serving *v, u64 at)
{
	struct {
		u64 vtable, stream;
	} of;
	u64 listener;

	if (!read_user(&listener, 8, at + STREAM_LISTENER) ||
	    !read_user(&of, sizeof(of), listener) || of.vtable != v->listener || of.stream != at)
		return 0;
	return listener + LISTENER_STREAM - node->stream;
}

/* Whether the Parser of a connection that the probe has found would have been found from its socket, too. */
static __always_inline bool is_reached(
    struct node *node, struct serving *v, struct stream *stream, u64 at)
{
	u64 handle, loop, listener = stream->parser + node->stream - LISTENER_STREAM;
	u32 fd;

	return (v->listener || read_user(&v->listener, 8, listener)) &&
	    read_user(&handle, 8, at + STREAM_HANDLE) &&
	    read_user(&loop, 8, handle + HANDLE_LOOP) && read_user(&fd, 4, handle + HANDLE_FD) &&
	    watched_handle(loop, fd) == handle && stream_of_handle(node, handle) == at &&
	    parser_of_stream(node, v, at) == stream->parser;
}

static __always_inline void add_port(struct serving *v, u16 port)
{
	for (u32 i = 0; i < MAX_PORTS; i++) {
		if (v->ports[i] == port)
			return;
		if (!v->ports[i]) {
			v->ports[i] = port;
			return;
		}
	}
}

/* Notes whether the next request on the stream s->key, which the probe has found, could have been
 * found in what its socket has received.
 */
static __always_inline void judge(
    struct scan *s, struct node *node, struct stream *stream, bool is_new)
{
	u32 number = node->number;
	struct serving *v = bpf_map_lookup_elem(&servings, &number);

	if (!v || v->unfit)
		return;
	if (!stream->parser || stream->is_encrypted || stream->first < stream->next ||
	    (is_new && !is_reached(node, v, stream, stream->alias))) {
		demand_probe(node);
		return;
	}
	v->plain++;
	if (is_new)
		add_port(v, stream->ends.local_port);
}

/* The connection whose first bytes these are, s->key being its socket: a server's that its Parser reads;
 * or null. s->key becomes its own.
 */
static __always_inline struct stream *new_received(
    struct scan *s, struct node *node, struct received *r)
{
	u64 at, parser, ids = current_ids(), *loop = bpf_map_lookup_elem(&loops, &ids);
	u32 number = node->number;
	struct serving *v = bpf_map_lookup_elem(&servings, &number);
	struct stream *stream;
	u8 text[HELLO_BYTES];

	if (!v)
		return 0;
	at = loop ? stream_of_handle(node, watched_handle(*loop, r->fd)) : 0;
	parser = at ? parser_of_stream(node, v, at) : 0;
	if (!loop) { /* a thread that has not been seen */
		note_request_unseen(node, r->at);
		demand_probe(node);
		return 0;
	}
	if (!parser) {
		if (read_user(text, HELLO_BYTES, r->at) && is_client_hello(text, r->bytes))
			demand_probe(node);
		return 0;
	}
	s->key.stream = at;
	stream = new_stream(s, node, ROLE_SERVER, at);
	if (!stream)
		count(unfollowed);
	else
		stream->parser = parser;
	return stream;
}

/* Takes the requests that a server's connection, s->key, has received. */
static __always_inline void take_received(
    struct scan *s, struct node *node, struct stream *stream, struct received *r)
{
	u64 before, begun;
	bool was_unbegun;

	settle_all(s, stream);
	if (node->reads != READS_TAKEN || !node->opened)
		return;
	if (!read_parser(&s->head, node, stream->parser) || s->head.stream != stream->alias) {
		stream->parser = 0; /* JavaScript reads from here on */
		note_request_unseen(node, r->at);
		demand_probe(node);
		return;
	}
	if (refuses(&s->head, ~0ull)) {
		stream->step = STEP_UNKNOWN; /* it takes nothing any more */
		return;
	}
	was_unbegun = is_unbegun(&stream->asked);
	if (stream->step != STEP_SAME && was_unbegun) {
		if (!is_between_messages(&begun, node, stream->alias, stream->parser)) {
			stream->step = STEP_OTHER;
			stream->other = begun;
			return;
		}
		stream->step = STEP_UNKNOWN;
	}
	before = stream->next;
	s->piece.direction = REQUESTS;
	s->piece.is_received = 1;
	load_message(s, &stream->asked, stream->asked_carry);
	s->piece.at = r->at;
	s->piece.end = r->at + r->bytes;
	take_pieces(s, stream, 0);
	if (stream->next - before > 1 || s->piece.at < s->piece.end ||
	    (stream->next > before && has_beginning(&s->piece.message)))
		demand_probe(
		    node); /* only the parser knows when the others begin, or what is left */
	if (s->piece.message.state >= MESSAGE_UNTIL_CLOSE) {
		stream->step = STEP_UNKNOWN;
		if (s->piece.message.state == MESSAGE_LOST) {
			stream->step = STEP_OTHER;
			stream->other = s->now;
			demand_probe(node);
		}
		next_message(&s->piece.message); /* it was no request, nor is what may follow */
	} else if (was_unbegun && stream->next == before && is_unbegun(&s->piece.message)) {
		stream->step = STEP_SAME; /* after empty lines */
	}
	store_message(s, &stream->asked, stream->asked_carry);
}

/* Something has come from a socket, whose key this is. */
static __always_inline void on_receipt(
    struct node *node, struct stream_key *key, struct received *r)
{
	struct stream *stream = find_stream(key);
	struct scan *s;

	if (stream ? stream->role != ROLE_SERVER || !stream->parser ||
	            stream->asked.state == MESSAGE_OPAQUE :
	             node->reads != READS_TAKEN || !node->opened)
		return;
	s = take_scan();
	if (!s)
		return;
	s->key = *key;
	if (!stream)
		stream = new_received(s, node, r);
	if (stream)
		take_received(s, node, stream, r);
	give_back_scan(s);
}

#endif
