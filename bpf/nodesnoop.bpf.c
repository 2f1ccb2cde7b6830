//go:build ignore

// SPDX-License-Identifier: GPL-2.0 OR MIT
//
// nodesnoop: the HTTP/1 requests that a Node.js process serves and makes.
//
// A server's request begins where node's parser has read its head, or where its socket has received it.
// Its response, and both of a client, are followed in the bytes that node writes and reads, before
// encryption and after decryption. A connection is known by the addresses of its socket and of its
// node::StreamBase. A request and its response are joined here, and sent when the response ends.
// Needs Linux 5.15.

#include "busy.h"
#include "early.h"
#include "exec.h"
#include "http2.h"
#include "iterations.h"
#include "operation.h"
#include "received.h"

/* Names are only sent. */
static __always_inline void note_name(struct walk *w)
{
}

/* Servers */

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
static __always_inline bool read_message(struct scan *s, struct node *node, u64 parser)
{
	if (!read_tail(s, node, parser, &s->request.begun) ||
	    !read_target(s, (struct target_of *)s->tail))
		return false;
	if (!s->url.bytes)
		take_early(s, node, parser);
	return true;
}

/* Whether the stream s->key has the request whose head the probe has found, since it was received. One
 * whose head was not complete is withdrawn: of that, the parser knows more.
 */
static __always_inline bool was_received(struct scan *s, struct stream *stream)
{
	struct request_key key = { s->key, stream->unsettled };
	struct request *r;

	if (!key.number)
		return false;
	r = request_of(stream, &key);
	if (!r || !(r->flags & REQUEST_PARTIAL))
		return true;
	withdraw_requests(s, stream, key.number);
	return false;
}

static __always_inline void begin_served(struct scan *s, struct node *node, u64 parser)
{
	struct parser_head *head = &s->head;
	struct stream *stream;
	bool is_new;
	u64 at;

	if (!read_parser(head, node, parser) || head->llhttp[LLHTTP_TYPE] != LLHTTP_REQUEST)
		return; /* a response */
	if (!is_request(head) || !read_message(s, node, parser) ||
	    s->now - s->request.begun > MAX_AGE) {
		count(implausible);
		return;
	}
	s->key.generation = node->generation;
	s->key.stream = at = stream_of(head);
	if (!at) {
		count(unattributed);
		return;
	}
	stream = find_stream(&s->key);
	is_new = !stream || stream->role != ROLE_SERVER;
	if (is_new) {
		s->key.stream = at;
		stream = new_stream(s, node, ROLE_SERVER, at);
	}
	if (!stream) {
		count(*(s->stream.alias ? &unfollowed : &unattributed));
		return;
	}
	stream->parser = head->stream && !stream->is_encrypted ? parser : 0;
	if (stream->answered.state == MESSAGE_OPAQUE)
		return_to_http(stream);
	if (was_received(s, stream))
		return;
	judge(s, node, stream, is_new);
	s->request.number = head->llhttp[LLHTTP_METHOD];
	s->request.method_bytes = s->request.host_bytes = 0;
	add_request(s, stream, s->url.text);
}

/* Parser::on_headers_complete() */
SEC("uprobe")
int on_headers(struct pt_regs *ctx)
{
	u64 cookie = bpf_get_attach_cookie(ctx), parser = adjusted(argument0(ctx), cookie);
	struct node *node = node_of(cookie);
	struct scan *s;

	if (!node || !node->opened)
		return 0;
	s = take_scan();
	if (!s)
		return 0;
	begin_served(s, node, parser);
	give_back_scan(s);
	return 0;
}

#define TEXT_PREFACE 0x20495250 /* PRI: HTTP/2 begins (RFC 9113, 3.4) */

/* Whether what is at that address may be a request. */
static __always_inline bool resembles_request(u64 at)
{
	u8 text[4] __attribute__((aligned(4))) = {};

	return read_user(text, sizeof(text), at) && is_capital(text[0]) &&
	    (is_capital(text[1]) || text[1] == '-') && is_capital(text[2]) &&
	    *(u32 *)text != TEXT_PREFACE &&
	    (text[3] == ' ' || is_capital(text[3]) || text[3] == '-');
}

/* Whether a connection that is not known is a client's that writes a request. */
static __always_inline bool begins_request(struct node *node, struct written *w)
{
	struct uv_buf first;

	return with_clients && node->opened && read_buffer(&first, w) &&
	    resembles_request(first.base);
}

/* Whether what is written is a response. */
static __always_inline bool begins_response(struct written *w)
{
	struct uv_buf first;
	u64 text;

	return read_buffer(&first, w) && read_user(&text, 8, first.base) &&
	    (text & 0xffffffffffffffull) == TEXT_HTTP1;
}

/* Makes a connection known as a client's, unless it is a pipe between processes. Its
 * StreamBase is s->key, or its socket is sk.
 */
static __always_inline struct stream *new_client(struct scan *s, struct node *node, struct sock *sk)
{
	struct stream *stream = sk ? new_stream_of_socket(s, node, sk) :
	                             new_stream(s, node, ROLE_CLIENT, s->key.stream);

	if (stream &&
	    (!stream->ends.family ||
	        (stream->ends.family == AF_UNIX && !stream->ends.name_length))) {
		forget_stream(&s->key, stream);
		return 0;
	}
	return stream;
}

/* Something is written to a tunnel. It is no longer one if the probe has found a request on it. */
static __always_inline void note_tunnel(struct stream *stream, struct written *w)
{
	struct node *node = node_of(stream->node);

	if (!node || stream->step != STEP_OTHER || !begins_response(w))
		return;
	if (stream->other)
		count(unattributed);
	demand_probe(node);
}

/* The next response begins after one whose end was not found. */
static __always_inline void end_lost(struct scan *s, struct stream *stream)
{
	s->outcome = OUTCOME_DONE;
	end_request(s->number, stream);
	next_message(&s->piece.message);
}

/* Takes what is written to a connection, which has the key s->key. */
static __always_inline void take_written(struct scan *s, struct stream *stream, struct written *w)
{
	if (stream->role == ROLE_SERVER) {
		s->piece.direction = RESPONSES;
		load_message(s, &stream->answered, stream->answered_carry);
		if (s->piece.message.state == MESSAGE_OPAQUE)
			note_tunnel(stream, w);
		if (s->piece.message.state == MESSAGE_LOST && stream->next - stream->first > 1 &&
		    begins_response(w))
			end_lost(s, stream);
		take_pieces(s, stream, w);
		store_message(s, &stream->answered, stream->answered_carry);
		return;
	}
	s->piece.direction = REQUESTS;
	s->piece.is_received = 0;
	load_message(s, &stream->asked, stream->asked_carry);
	take_pieces(s, stream, w);
	store_message(s, &stream->asked, stream->asked_carry);
	if (stream->next == 1 && !has_beginning(&stream->asked)) /* it was no request */
		forget_stream(&s->key, stream);
}

/* Something is written to a connection, which key may be a name of. If it is not known, and has no
 * StreamBase yet, sk is its socket.
 */
static __always_inline void on_written(
    struct node *node, struct stream_key *key, struct sock *sk, struct written *w)
{
	struct stream *stream = find_stream(key);
	struct scan *s;

	if (!stream && !sk && node->reads != READS_BY_PROBE && node->opened && begins_response(w)) {
		count(unattributed); /* its request came before the probe was attached again */
		demand_probe(node);
	}
	if (stream ? sk && (stream->is_encrypted || stream->is_multiplexed) :
	             !begins_request(node, w))
		return;
	s = take_scan();
	if (!s)
		return;
	s->key = *key;
	if (!stream)
		stream = new_client(s, node, sk);
	if (stream)
		take_written(s, stream, w);
	give_back_scan(s);
}

/* Something is written to a StreamBase. */
static __always_inline void on_stream_written(
    struct node *node, u64 at, u64 buffers, u64 buffer_count)
{
	struct written w = { buffers, buffer_count, {}, ~0ull };
	struct stream_key key = { node->generation, at };

	on_written(node, &key, 0, &w);
}

/* LibuvStreamWrap::DoTryWrite(uv_buf_t **, size_t *): all that is written without encryption. */
SEC("uprobe")
int on_try_write(struct pt_regs *ctx)
{
	u64 cookie = bpf_get_attach_cookie(ctx), at = adjusted(argument0(ctx), cookie);
	struct node *node = node_of(cookie);
	u64 buffers, buffer_count;

	if (node && read_user(&buffers, 8, argument1(ctx)) &&
	    read_user(&buffer_count, 8, argument2(ctx)))
		on_stream_written(node, at, buffers, buffer_count);
	return 0;
}

/* TLSWrap::DoWrite(WriteWrap *, uv_buf_t *, size_t, uv_stream_t *) */
SEC("uprobe")
int on_tls_write(struct pt_regs *ctx)
{
	u64 cookie = bpf_get_attach_cookie(ctx), at = adjusted(argument0(ctx), cookie);
	struct node *node = node_of(cookie);

	if (node)
		on_stream_written(node, at, argument2(ctx), argument3(ctx));
	return 0;
}

/* sock_send_length(struct sock *, int bytes, int flags): a socket has taken what was written. In place
 * of on_try_write, since Linux 6.3: it costs less. libuv writes by write() and writev() only.
 */
SEC("raw_tp/sock_send_length")
int on_sent(u64 *ctx)
{
	s32 bytes = ctx[1];
	struct node *node = current_node();
	struct written w = { .count = 1 };
	u64 call, arguments[6];
	struct stream_key key = {};
	struct pt_regs *regs;

	if (!node || !node->opened)
		note_unwatched((struct sock *)ctx[0]);
	if (!node || bytes <= 0)
		return 0;
	regs = user_regs((struct task_struct *)bpf_get_current_task_btf());
	call = syscall_number(regs);
	call_arguments(regs, arguments);
	if (call == CALL_WRITEV) {
		w.buffers = arguments[1];
		w.count = arguments[2];
	} else if (call != CALL_WRITE) {
		return 0;
	}
	w.one.base = arguments[1];
	w.one.bytes = w.left = bytes;
	key.generation = node->generation;
	key.stream = ctx[0];
	on_written(node, &key, (struct sock *)ctx[0], &w);
	return 0;
}

/* JavaScript reads what may be a request, and may pass it to a parser: only the probe there finds it. On a
 * tunnel this is so if there is a response.
 */
static __always_inline void note_javascript(struct node *node, struct stream *stream, u64 buffer)
{
	u64 at;

	if (!with_servers || !read_user(&at, 8, buffer))
		return;
	if (stream && stream->asked.state == MESSAGE_OPAQUE) {
		if (!seems_request(at))
			return;
		stream->step = STEP_OTHER;
		stream->other = node->reads == READS_TAKEN ? bpf_ktime_get_ns() : 0;
	} else if (note_request_unseen(node, at)) {
		demand_probe(node);
	}
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
	stream = find_stream(&key);
	if (!stream && with_clients && node->has_sends)
		stream = find_by_socket(node, &key);
	if (bytes > 0 && (!stream || stream->role != ROLE_CLIENT))
		note_javascript(node, stream, argument2(ctx));
	if (!stream)
		return 0;
	if (bytes < 0 && !stream->aborted)
		stream->aborted = bpf_ktime_get_ns();
	if (bytes <= 0 ? !stream->unsettled : stream->role != ROLE_CLIENT)
		return 0;
	s = take_scan();
	if (!s)
		return 0;
	s->key = key;
	if (bytes <= 0) {
		settle_all(s, stream);
		give_back_scan(s);
		return 0;
	}
	s->piece.direction = RESPONSES;
	load_message(s, &stream->answered, stream->answered_carry);
	if (read_user(&s->piece.at, 8, argument2(ctx))) {
		s->piece.end = s->piece.at + bytes;
		take_pieces(s, stream, 0);
		store_message(s, &stream->answered, stream->answered_carry);
	}
	give_back_scan(s);
	return 0;
}

/* uv_shutdown(uv_shutdown_t *, uv_stream_t *, ...) */
SEC("uprobe")
int on_shutdown(struct pt_regs *ctx)
{
	struct node *node = node_of(bpf_get_attach_cookie(ctx));
	struct sock *sk = socket_of_handle(argument1(ctx));
	struct stream_key key = {};
	struct stream *stream;

	if (!node)
		return 0;
	key.generation = node->generation;
	key.stream = (u64)sk;
	stream = find_stream(&key);
	if (stream && !has_ended(sk))
		stream->is_left = 1;
	return 0;
}

/* uv_close(uv_handle_t *, ...): also of handles that are no streams. */
SEC("uprobe")
int on_close(struct pt_regs *ctx)
{
	u64 handle = argument0(ctx);
	struct node *node = node_of(bpf_get_attach_cookie(ctx));
	struct stream_key key = {};
	struct stream *stream;
	struct sock *sk;
	struct scan *s;
	u32 type;

	if (!node || !read_user(&type, 4, handle + HANDLE_TYPE) ||
	    (type != UV_TCP && type != UV_NAMED_PIPE))
		return 0;
	sk = socket_of_handle(handle);
	key.generation = node->generation;
	key.stream = (u64)sk;
	stream = find_stream(&key);
	if (!stream)
		return 0;
	s = take_scan();
	if (!s)
		return 0;
	s->key = key;
	if (stream->is_multiplexed)
		h2_end_all(s->number);
	else if (!stream->aborted && is_closed_by_peer(stream, sk))
		stream->aborted = s->now; /* a write has failed before its end was read */
	end_stream(s->number);
	give_back_scan(s);
	return 0;
}

/* uv_tcp_connect(uv_connect_t *, uv_tcp_t *, ...), uv_pipe_connect() and uv_pipe_connect2(): a client
 * will write to the handle before anything is read from it.
 */
SEC("uprobe")
int on_connecting(struct pt_regs *ctx)
{
	struct node *node = node_of(bpf_get_attach_cookie(ctx));

	if (node)
		loop_of(argument1(ctx));
	return 0;
}

/* sock_recv_length(struct sock *, int bytes, int flags): something was received from a socket. Where
 * requests are read so, in place of on_headers. libuv reads by read() only, unless handles may be passed.
 */
SEC("raw_tp/sock_recv_length")
int on_received(u64 *ctx)
{
	s32 bytes = ctx[1];
	struct node *node = current_node();
	struct stream_key key = {};
	struct received r = {};
	struct pt_regs *regs;
	u64 arguments[6];

	if (!node || node->reads == READS_BY_PROBE || bytes <= 0)
		return 0;
	regs = user_regs((struct task_struct *)bpf_get_current_task_btf());
	if (syscall_number(regs) != CALL_READ)
		return 0;
	call_arguments(regs, arguments);
	r.fd = arguments[0];
	r.at = arguments[1];
	r.bytes = bytes;
	key.generation = node->generation;
	key.stream = ctx[0];
	on_receipt(node, &key, &r);
	return 0;
}

char _license[] SEC("license") = "Dual MIT/GPL";
