//go:build ignore

// SPDX-License-Identifier: GPL-2.0 OR MIT
//
// nodesnoop: the HTTP/1 requests that a Node.js process serves and makes.
//
// A server's request begins where node's parser has read its head. Its response, and both of a client,
// are followed in the bytes that node writes and reads, before encryption and after decryption. A
// connection is known by the address of its node::StreamBase. A request and its response are joined
// here, and sent when the response ends.
// Needs Linux 5.15.

#include "busy.h"
#include "exec.h"
#include "http2.h"
#include "iterations.h"
#include "messages.h"
#include "operation.h"

/* Names are only sent. */
static __always_inline void note_name(struct walk *w)
{
}

/* Servers */

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

/* Parser::Flush(): the head has many fields, and node takes those so far with the target. */
SEC("uprobe")
int on_flush(struct pt_regs *ctx)
{
	u64 cookie = bpf_get_attach_cookie(ctx), parser = adjusted(argument0(ctx), cookie);
	struct node *node = node_of(cookie);
	struct stream_key key = {};
	struct target_of target;
	struct scan *s;

	if (!node || !read_user(&target, sizeof(target), parser + node->url))
		return 0;
	s = take_scan();
	if (!s)
		return 0;
	key.generation = node->generation;
	key.stream = parser;
	if (read_target(s, &target) && s->url.bytes)
		bpf_map_update_elem(&early_urls, &key, &s->url, BPF_ANY);
	give_back_scan(s);
	return 0;
}

/* What of a Parser says which message it is, from its StreamListener's stream on. */
struct parser_head {
	u64 stream, previous;
	u8 llhttp[80];
};

/* The stream of a Parser, or 0. One without reads what JavaScript passes it from the stream that the
 * thread reads.
 */
static __always_inline u64 stream_of(struct parser_head *head)
{
	u64 ids = current_ids(), *now;

	if (head->stream)
		return head->stream;
	now = bpf_map_lookup_elem(&reading, &ids);
	return now ? *now : 0;
}

/* Reads when the message that a Parser reads began, and its target. */
static __always_inline bool read_tail(struct scan *s, struct node *node, u64 parser)
{
	u64 started = node->started;

	mask_index(started, TAIL_BYTES - 1);
	if (!read_user(s->tail, started + 8, parser + node->url))
		return false;
	s->request.begun = s->tail[started / 8];
	if (!read_target(s, (struct target_of *)s->tail))
		return false;
	if (!s->url.bytes)
		take_early(s, node, parser);
	return true;
}

static __always_inline void begin_served(struct scan *s, struct node *node, u64 parser)
{
	struct parser_head head;
	struct stream *stream;

	if (!read_user(&head, sizeof(head), parser + node->stream) ||
	    head.llhttp[LLHTTP_TYPE] != LLHTTP_REQUEST)
		return; /* a response */
	if (!read_tail(s, node, parser) || head.llhttp[LLHTTP_METHOD] >= MAX_METHODS ||
	    head.llhttp[LLHTTP_MAJOR] > 2 || s->now - s->request.begun > MAX_AGE) {
		count(implausible);
		return;
	}
	s->key.generation = node->generation;
	s->key.stream = stream_of(&head);
	if (!s->key.stream) {
		count(unattributed);
		return;
	}
	stream = bpf_map_lookup_elem(&streams, &s->key);
	if (!stream || stream->role != ROLE_SERVER)
		stream = new_stream(s, node, ROLE_SERVER, s->key.stream);
	if (!stream) {
		count(unfollowed);
		return;
	}
	s->request.number = head.llhttp[LLHTTP_METHOD];
	s->request.method_bytes = s->request.host_bytes = 0;
	add_request(s, stream);
}

/* Parser::on_headers_complete() */
SEC("uprobe")
int on_headers(struct pt_regs *ctx)
{
	u64 cookie = bpf_get_attach_cookie(ctx), parser = adjusted(argument0(ctx), cookie);
	struct node *node = node_of(cookie);
	struct scan *s;

	if (!node || !node->is_open)
		return 0;
	s = take_scan();
	if (!s)
		return 0;
	begin_served(s, node, parser);
	give_back_scan(s);
	return 0;
}

/* include/uv/unix.h */
struct uv_buf {
	u64 base, bytes;
};

/* Takes all buffers of a write. */
static __always_inline void take_buffers(struct scan *s, u64 buffers, u64 buffer_count)
{
	struct uv_buf buffer;

	for (u32 i = 0; i < MAX_BUFFERS; i++) {
		if (i >= buffer_count)
			return;
		if (!read_user(&buffer, sizeof(buffer), buffers + i * sizeof(buffer)))
			break;
		s->piece.at = buffer.base;
		s->piece.end = buffer.base + buffer.bytes;
		take_piece(s->number);
	}
	s->piece.message.state = MESSAGE_LOST;
	count(endless);
}

#define is_capital(c) ((c) >= 'A' && (c) <= 'Z')

/* Whether a connection that is not known is a client's that writes a request. */
static __always_inline bool begins_request(u64 buffers)
{
	u8 text[4] = {};
	u64 base;

	return read_user(&base, 8, buffers) && read_user(text, sizeof(text), base) &&
	    is_capital(text[0]) && is_capital(text[1]) && is_capital(text[2]) &&
	    (text[3] == ' ' || is_capital(text[3]) || text[3] == '-');
}

/* Makes a client's connection known, if it may be one: a pipe between processes is none. */
static __always_inline struct stream *new_client(struct scan *s, struct node *node)
{
	struct stream *stream = new_stream(s, node, ROLE_CLIENT, s->key.stream);

	if (stream &&
	    (!stream->ends.family ||
	        (stream->ends.family == AF_UNIX && !stream->ends.name_length))) {
		forget_stream(&s->key, stream);
		return 0;
	}
	return stream;
}

/* Buffers are written to a stream. */
static __always_inline void written(
    struct scan *s, struct node *node, u64 at, u64 buffers, u64 buffer_count)
{
	struct stream *stream;

	s->key.generation = node->generation;
	s->key.stream = at;
	stream = bpf_map_lookup_elem(&streams, &s->key);
	if (!stream && with_clients && node->is_open && begins_request(buffers))
		stream = new_client(s, node);
	if (!stream)
		return;
	if (stream->role == ROLE_SERVER) {
		s->piece.direction = RESPONSES;
		s->piece.message = stream->answered;
		take_buffers(s, buffers, buffer_count);
		stream->answered = s->piece.message;
		return;
	}
	s->piece.direction = REQUESTS;
	s->piece.message = stream->asked;
	take_buffers(s, buffers, buffer_count);
	stream->asked = s->piece.message;
	if (stream->next == 1) /* it was no request */
		forget_stream(&s->key, stream);
}

/* LibuvStreamWrap::DoTryWrite(uv_buf_t **, size_t *): all that is written without encryption. */
SEC("uprobe")
int on_try_write(struct pt_regs *ctx)
{
	u64 cookie = bpf_get_attach_cookie(ctx), at = adjusted(argument0(ctx), cookie);
	struct node *node = node_of(cookie);
	u64 buffers, buffer_count;
	struct scan *s;

	if (!node || !read_user(&buffers, 8, argument1(ctx)) ||
	    !read_user(&buffer_count, 8, argument2(ctx)))
		return 0;
	s = take_scan();
	if (!s)
		return 0;
	written(s, node, at, buffers, buffer_count);
	give_back_scan(s);
	return 0;
}

/* TLSWrap::DoWrite(WriteWrap *, uv_buf_t *, size_t, uv_stream_t *) */
SEC("uprobe")
int on_tls_write(struct pt_regs *ctx)
{
	u64 cookie = bpf_get_attach_cookie(ctx), at = adjusted(argument0(ctx), cookie);
	struct node *node = node_of(cookie);
	struct scan *s;

	if (!node)
		return 0;
	s = take_scan();
	if (!s)
		return 0;
	written(s, node, at, argument2(ctx), argument3(ctx));
	give_back_scan(s);
	return 0;
}

/* EmitToJSStreamListener::OnStreamRead(ssize_t, const uv_buf_t &): what JavaScript reads, after
 * decryption; and the end of any stream.
 */
SEC("uprobe")
int on_read(struct pt_regs *ctx)
{
	u64 cookie = bpf_get_attach_cookie(ctx), ids = current_ids();
	s64 bytes = argument1(ctx);
	struct node *node = node_of(cookie);
	struct stream_key key = {};
	struct stream *stream;
	struct scan *s;

	if (!node || !read_user(&key.stream, 8, argument0(ctx) + LISTENER_STREAM))
		return 0;
	key.generation = node->generation;
	bpf_map_update_elem(&reading, &ids, &key.stream, BPF_ANY);
	stream = bpf_map_lookup_elem(&streams, &key);
	if (!stream)
		return 0;
	if (bytes < 0 && !stream->aborted)
		stream->aborted = bpf_ktime_get_ns();
	if (bytes <= 0 || stream->role != ROLE_CLIENT)
		return 0;
	s = take_scan();
	if (!s)
		return 0;
	s->key = key;
	s->piece.direction = RESPONSES;
	s->piece.message = stream->answered;
	if (read_user(&s->piece.at, 8, argument2(ctx))) {
		s->piece.end = s->piece.at + bytes;
		take_piece(s->number);
		stream->answered = s->piece.message;
	}
	give_back_scan(s);
	return 0;
}

/* uv_close(uv_handle_t *, ...): also of handles that are no streams. */
SEC("uprobe")
int on_close(struct pt_regs *ctx)
{
	u64 cookie = bpf_get_attach_cookie(ctx), *at;
	struct node *node = node_of(cookie);
	struct stream_key key = {};
	struct scan *s;

	if (!node)
		return 0;
	key.generation = node->generation;
	key.stream = argument0(ctx);
	at = bpf_map_lookup_elem(&by_handle, &key);
	if (!at)
		return 0;
	s = take_scan();
	if (!s)
		return 0;
	s->key.generation = node->generation;
	s->key.stream = *at;
	end_stream(s->number);
	give_back_scan(s);
	return 0;
}

char _license[] SEC("license") = "Dual MIT/GPL";
