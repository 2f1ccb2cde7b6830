/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * What node's HTTP parser (src/node_http_parser.cc) says about the requests that a server gets.
 */
#ifndef USTACK_PARSER_H
#define USTACK_PARSER_H

#include "stream.h"

/* Of llhttp's parser (deps/llhttp/include/llhttp.h). */
#define LLHTTP_ERROR 24
#define LLHTTP_ERROR_AT 40
#define LLHTTP_TYPE 72
#define LLHTTP_METHOD 73
#define LLHTTP_MAJOR 74

/* Errors of it that are none in a head, and those that are found at its end. HPE_INVALID_TRANSFER_ENCODING
 * may be found there, too, after JavaScript has got the request.
 */
#define HPE_CB_HEADERS_COMPLETE 17
#define HPE_PAUSED 21
#define HPE_PAUSED_H2_UPGRADE 23
#define HPE_UNEXPECTED_CONTENT_LENGTH 4
#define HPE_INVALID_CONTENT_LENGTH 11

#define STATUS_TIMEOUT 408 /* of a request that has not come */

static __always_inline bool read_parser(struct parser_head *head, struct node *node, u64 parser)
{
	return parser && read_user(head, sizeof(*head), parser + node->stream);
}

static __always_inline bool is_request(struct parser_head *head)
{
	return head->llhttp[LLHTTP_TYPE] == LLHTTP_REQUEST &&
	    head->llhttp[LLHTTP_METHOD] < MAX_METHODS && head->llhttp[LLHTTP_MAJOR] <= 2;
}

/* Reads when a Parser's message began. Since Node.js 18 it is 0 between two messages; until the parser has
 * got any byte it is when the connection was made.
 */
static __always_inline bool read_begun(u64 *begun, struct node *node, u64 parser)
{
	return read_user(begun, 8, parser + node->url + node->started);
}

/* Reads a Parser from its target on into s->tail, and when its message began. */
static __always_inline bool read_tail(struct scan *s, struct node *node, u64 parser, u64 *begun)
{
	u64 started = node->started;

	mask_index(started, TAIL_BYTES - 1);
	if (!read_user(s->tail, started + 8, parser + node->url))
		return false;
	*begun = s->tail[started / 8];
	return true;
}

/* Whether the parser has refused a head that ends there, or what came before. */
static __always_inline bool refuses(struct parser_head *head, u64 end)
{
	s32 error = *(s32 *)(head->llhttp + LLHTTP_ERROR);
	u64 at = *(u64 *)(head->llhttp + LLHTTP_ERROR_AT);

	if (!error || error == HPE_CB_HEADERS_COMPLETE ||
	    (error >= HPE_PAUSED && error <= HPE_PAUSED_H2_UPGRADE))
		return false;
	return at < end ||
	    (at == end &&
	        (error == HPE_UNEXPECTED_CONTENT_LENGTH || error == HPE_INVALID_CONTENT_LENGTH));
}

/* Has user space find the node's requests by the probe from now on. */
static __always_inline void demand_probe(struct node *node)
{
	u32 number = node->number;
	struct serving *v = bpf_map_lookup_elem(&servings, &number);
	struct {
		u32 event, number;
	} event = { EVENT_UNFIT, number };

	if (!v || v->unfit)
		return;
	v->unfit = 1;
	if (node->reads == READS_TAKEN)
		bpf_ringbuf_output(&events, &event, sizeof(event), BPF_RB_FORCE_WAKEUP);
}

/* Reads a request's target into s->url. */
static __always_inline bool read_target(struct scan *s, const struct target_of *target)
{
	u64 n = target->bytes;

	s->url.bytes = n;
	bound(n, URL_BYTES);
	return read_user(s->url.text, n, target->text);
}

/* Takes the target that node took from a Parser before the head was complete, if it did. */
static __always_inline void take_early(struct scan *s, struct node *node, u64 parser)
{
	struct stream_key key = { node->generation, parser };
	struct long_url *early = bpf_map_lookup_elem(&early_urls, &key);

	if (!early)
		return;
	bpf_probe_read_kernel(&s->url, sizeof(s->url), early);
	bpf_map_delete_elem(&early_urls, &key);
}

/* Whether the parser of a connection begins a message with the bytes that it gets next; if not, begun is
 * when the current one began.
 */
static __always_inline bool is_between_messages(
    u64 *begun, struct node *node, u64 stream, u64 parser)
{
	u64 bytes;

	return (read_begun(begun, node, parser) && !*begun) ||
	    (read_user(&bytes, 8, stream + STREAM_BYTES) && !bytes);
}

/* Whether a request that was received, and none after it, is the message that the parser has read last:
 * that began since, or is complete.
 */
static __always_inline bool is_confirmed(
    struct scan *s, struct node *node, struct stream *stream, struct request *r)
{
	u64 begun;

	return read_begun(&begun, node, stream->parser) && begun <= s->now &&
	    (!begun || begun >= r->begun);
}

/* Compares the oldest request on the stream s->key that was only received with what node's parser has
 * made of it since, and withdraws it and those after it if it was not a request. This is done before
 * anything else is received, before a response is joined to it, and before the parser is gone.
 */
__noinline int settle(u32 number, struct stream *stream)
{
	struct scan *s = scan_numbered(number);
	struct node *node = stream ? node_of(stream->node) : 0;
	struct request_key key;
	struct request *r;

	if (!s || !stream || !node)
		return 0;
	key.stream = s->key;
	key.number = stream->unsettled;
	r = request_of(stream, &key);
	if (r && r->flags & REQUEST_PARTIAL)
		return 0;
	stream->unsettled = key.number + 1 < stream->next ? key.number + 1 : 0;
	if (!read_parser(&s->head, node, stream->parser) || s->head.stream != stream->alias) {
		withdraw_requests(
		    s, stream, key.number + 1); /* after an upgrade there are no others */
		return 0;
	}
	if (r && refuses(&s->head, r->head_end)) {
		withdraw_requests(s, stream, key.number);
		return 0;
	}
	if (!r || stream->unsettled ||
	    has_beginning(&stream->asked)) /* the parser may have come to another */
		return 0;
	if (!is_request(&s->head) || !is_confirmed(s, node, stream, r)) {
		count(implausible);
		withdraw_requests(s, stream, key.number);
		demand_probe(node);
		return 0;
	}
	if (stream->step != STEP_OTHER)
		stream->step = STEP_SAME;
	r->number = s->head.llhttp[LLHTTP_METHOD];
	r->method_bytes = 0;
	return 0;
}

/* Settles all of them. */
static __always_inline void settle_all(struct scan *s, struct stream *stream)
{
	for (u32 i = 0; i < MAX_PIPELINED; i++) {
		u64 before = stream->unsettled;

		if (!before)
			return;
		settle(s->number, stream);
		if (stream->unsettled == before)
			return; /* its head is not complete */
	}
}

/* Whether a response may be there to no request that was found: what came was none, or came before the
 * node was watched.
 */
static __always_inline bool may_be_unasked(struct scan *s, struct node *node, struct stream *stream)
{
	u64 begun;

	if (node->reads != READS_TAKEN || !node->opened || stream->aborted ||
	    s->piece.message.status == STATUS_TIMEOUT ||
	    !read_parser(&s->head, node, stream->parser) || s->head.stream != stream->alias ||
	    refuses(&s->head, ~0ull) || !read_begun(&begun, node, stream->parser))
		return true;
	if (!begun && stream->step == STEP_OTHER)
		begun = stream->other;
	return begun && begun < node->opened;
}

/* There is a response on the stream s->key to a request that was not found. */
static __always_inline void note_unasked(struct scan *s, struct stream *stream)
{
	struct node *node = node_of(stream->node);

	if (!node || may_be_unasked(s, node, stream)) {
		stream->step = STEP_UNKNOWN;
		return;
	}
	count(unattributed);
	if (stream->step != STEP_OTHER)
		demand_probe(node);
}

#endif
