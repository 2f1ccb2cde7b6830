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

/* Names are only sent. */
static __always_inline void note_name(struct walk *w)
{
}

/* A probe's cookie: the number of its process's node in the lower half, in the upper one what is to be
 * added to the first argument.
 */
#define adjusted(argument, cookie) ((argument) + (s64)(s32)((cookie) >> 32))

static __always_inline struct node *node_of(u64 cookie)
{
	u32 number = cookie;

	return bpf_map_lookup_elem(&nodes, &number);
}

/* Servers */

/* The target of the request whose head a Parser has read, into s->url. */
static __always_inline bool read_target(struct scan *s, struct node *node, u64 parser)
{
	struct stream_key key = { node->generation, parser };
	struct {
		u64 text, on_heap, bytes;
	} url;
	struct long_url *early;
	u64 n;

	if (!read_user(&url, sizeof(url), parser + node->url))
		return false;
	early = bpf_map_lookup_elem(&early_urls, &key);
	if (early && !url.bytes) {
		bpf_probe_read_kernel(&s->url, sizeof(s->url), early);
		bpf_map_delete_elem(&early_urls, &key);
		return true;
	}
	s->url.bytes = n = url.bytes;
	bound(n, URL_BYTES);
	return read_user(s->url.text, n, url.text);
}

/* Parser::Flush(): the head has many fields, and node takes those so far with the target. */
SEC("uprobe")
int on_flush(struct pt_regs *ctx)
{
	u64 cookie = bpf_get_attach_cookie(ctx), parser = adjusted(argument0(ctx), cookie);
	struct node *node = node_of(cookie);
	struct stream_key key = {};
	struct scan *s;

	if (!node)
		return 0;
	s = take_scan();
	if (!s)
		return 0;
	key.generation = node->generation;
	key.stream = parser;
	if (read_target(s, node, parser) && s->url.bytes)
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

static __always_inline void begin_served(struct scan *s, struct node *node, u64 parser)
{
	struct parser_head head;
	struct stream *stream;

	if (!read_user(&head, sizeof(head), parser + node->stream) ||
	    head.llhttp[LLHTTP_TYPE] != LLHTTP_REQUEST)
		return; /* a response */
	if (!read_user(&s->request.begun, 8, parser + node->started) ||
	    head.llhttp[LLHTTP_METHOD] >= MAX_METHODS || head.llhttp[LLHTTP_MAJOR] > 2 ||
	    s->now - s->request.begun > MAX_AGE || !read_target(s, node, parser)) {
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

/* Messages */

#define LLHTTP_HEAD 2
#define LLHTTP_CONNECT 5
#define TEXT_HEAD 0x44414548 /* HEAD */
#define TEXT_CONNECT 0x4e4e4f43

static __always_inline bool is_method(struct request *r, u8 number, u32 text)
{
	return r->method_bytes ? *(u32 *)r->method == text : r->number == number;
}

/* The head of a response is complete. Returns PART_MESSAGE if the response is, too. */
__noinline int take_response_head(u32 number)
{
	struct scan *s = scan_numbered(number);
	struct message *m;
	struct request_key key;
	struct stream *stream;
	struct request *r = 0;
	bool is_bodiless, is_tunnel;

	if (!s)
		return PART_SOME;
	m = &s->piece.message;
	key.stream = s->key;
	stream = bpf_map_lookup_elem(&streams, &key.stream);
	if (!stream)
		return PART_SOME;
	if (m->status < 200 && m->status != 101) {
		next_message(m);
		return PART_SOME;
	}
	key.number = stream->first;
	if (stream->first < stream->next)
		r = bpf_map_lookup_elem(&requests, &key);
	if (r)
		r->answered = m->begun;
	is_tunnel = m->status == 101 ||
	    (r && m->status < 300 && is_method(r, LLHTTP_CONNECT, TEXT_CONNECT));
	is_bodiless =
	    m->status == 204 || m->status == 304 || (r && is_method(r, LLHTTP_HEAD, TEXT_HEAD));
	if (is_tunnel) {
		m->state = stream->asked.state = MESSAGE_OPAQUE;
		s->outcome = OUTCOME_UPGRADE;
		end_request(s->number);
		return PART_SOME;
	}
	return begin_body(m, is_bodiless);
}

/* The first line of a client's request is in the window. */
__noinline int begin_requested(u32 number)
{
	struct scan *s = scan_numbered(number);
	struct stream *stream;
	u64 n, from;

	if (!s)
		return 0;
	stream = bpf_map_lookup_elem(&streams, &s->key);
	if (!stream)
		return 0;
	s->request.begun = s->now;
	s->request.number = 255;
	s->request.method_bytes = s->piece.method_bytes;
	s->request.host_bytes = 0;
	__builtin_memset(s->request.method, 0, METHOD_BYTES);
	from = s->piece.target_from - 1 - s->piece.method_bytes;
	mask_index(from, WINDOW_BYTES - 1);
	bpf_probe_read_kernel(s->request.method, METHOD_BYTES, s->piece.window + from);
	from = s->piece.target_from;
	mask_index(from, WINDOW_BYTES - 1);
	s->url.bytes = n = s->piece.target_bytes;
	bound(n, URL_BYTES);
	bpf_probe_read_kernel(s->url.text, n, s->piece.window + from);
	s->piece.host_bytes = 0;
	add_request(s, stream);
	return 0;
}

/* The head of a client's request is complete. */
__noinline int take_request_head(u32 number)
{
	struct scan *s = scan_numbered(number);
	struct message *m;
	struct request_key key;
	struct stream *stream;
	struct request *r;
	u64 n, from;

	if (!s)
		return PART_SOME;
	m = &s->piece.message;
	key.stream = s->key;
	stream = bpf_map_lookup_elem(&streams, &key.stream);
	if (!stream)
		return PART_SOME;
	key.number = stream->next - 1;
	r = bpf_map_lookup_elem(&requests, &key);
	n = s->piece.host_bytes;
	from = s->piece.host_from;
	mask_index(from, WINDOW_BYTES - 1);
	if (n > HOST_BYTES)
		n = HOST_BYTES;
	if (r && n) {
		r->host_bytes = n;
		bpf_probe_read_kernel(r->host, HOST_BYTES, s->piece.window + from);
	}
	return begin_body(m, !m->is_chunked && !m->is_sized);
}

/* Takes one piece of what is written or read. */
__noinline int take_piece(u32 number)
{
	struct scan *s = scan_numbered(number);
	struct message *m;

	if (!s)
		return 0;
	m = &s->piece.message;
	for (u32 i = 0; i < MAX_PARTS; i++) {
		u32 part;

		if (s->piece.at >= s->piece.end)
			return 0;
		if (!m->begun)
			m->begun = s->now;
		m->last = s->now;
		part = next_part(&s->piece);
		if (part == PART_FIRST_LINE)
			begin_requested(s->number);
		if (part == PART_HEAD)
			part = s->piece.direction == REQUESTS ? take_request_head(s->number) :
			                                        take_response_head(s->number);
		if (part != PART_MESSAGE)
			continue;
		s->outcome = OUTCOME_DONE;
		if (s->piece.direction == RESPONSES)
			end_request(s->number);
		next_message(m);
	}
	if (s->piece.at < s->piece.end && m->state < MESSAGE_UNTIL_CLOSE) {
		m->state = MESSAGE_LOST;
		count(endless);
	}
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
	if (!stream->next) /* it was no request */
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
	s->piece.message = stream->answered;
	for (u32 i = 0; i < MAX_PIPELINED; i++) {
		u32 state = s->piece.message.state;

		if (stream->first >= stream->next)
			break;
		s->outcome = state == MESSAGE_UNTIL_CLOSE || state == MESSAGE_LOST ? OUTCOME_DONE :
		    stream->aborted ? OUTCOME_ABORTED :
		                      OUTCOME_CLOSED;
		end_request(s->number);
		next_message(&s->piece.message);
	}
	forget_stream(&s->key, stream);
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

/* HTTP/2 */

/* Http2Session::OnBeginHeadersCallback(nghttp2_session *, const nghttp2_frame *, void *) */
SEC("uprobe")
int on_h2_begin(struct pt_regs *ctx)
{
	struct node *node = node_of(bpf_get_attach_cookie(ctx));
	struct h2_frame frame;
	struct scan *s;

	if (!node || !node->is_open || !with_servers ||
	    !read_user(&frame, sizeof(frame), argument1(ctx)) || frame.type != H2_HEADERS ||
	    frame.category != H2_REQUEST)
		return 0;
	s = take_scan();
	if (!s)
		return 0;
	h2_begin(s, node, argument2(ctx), frame.stream, ROLE_SERVER);
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
		if (!r && i == 0 && with_clients && node->is_open) {
			h2_begin(s, node, key->stream.stream, key->number, ROLE_CLIENT);
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
		h2_end(s, key, OUTCOME_DONE);
}

/* Http2Session::OnFrameSent(nghttp2_session *, const nghttp2_frame *, void *) */
SEC("uprobe")
int on_h2_sent(struct pt_regs *ctx)
{
	struct node *node = node_of(bpf_get_attach_cookie(ctx));
	struct request_key key;
	struct h2_frame frame;
	struct scan *s;

	if (!node || !read_user(&frame, sizeof(frame), argument1(ctx)))
		return 0;
	if (frame.type != H2_DATA && frame.type != H2_HEADERS && frame.type != H2_RST_STREAM)
		return 0;
	key = h2_key(node, argument2(ctx), frame.stream);
	s = take_scan();
	if (!s)
		return 0;
	if (frame.type == H2_RST_STREAM)
		h2_end(s, &key, OUTCOME_CLOSED);
	if (frame.type == H2_HEADERS)
		h2_sent_head(s, node, &key, &frame);
	h2_passed(s, &key, &frame, ROLE_SERVER);
	give_back_scan(s);
	return 0;
}

/* Http2Session::OnFrameReceive(nghttp2_session *, const nghttp2_frame *, void *) */
SEC("uprobe")
int on_h2_received(struct pt_regs *ctx)
{
	struct node *node = node_of(bpf_get_attach_cookie(ctx));
	struct request_key key;
	struct h2_frame frame;
	struct scan *s;

	if (!node || !read_user(&frame, 16, argument1(ctx)))
		return 0;
	if (frame.type != H2_DATA && frame.type != H2_HEADERS)
		return 0;
	key = h2_key(node, argument2(ctx), frame.stream);
	s = take_scan();
	if (!s)
		return 0;
	h2_passed(s, &key, &frame, ROLE_CLIENT);
	give_back_scan(s);
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
	h2_end(s, &key, OUTCOME_ABORTED);
	give_back_scan(s);
	return 0;
}

/* Garbage collections */

static __always_inline void begin_pause(u32 kind)
{
	u64 depth, ids = current_ids();
	struct thread_pauses none = {}, *t = bpf_map_lookup_elem(&pauses, &ids);

	if (!t) {
		bpf_map_update_elem(&pauses, &ids, &none, BPF_NOEXIST);
		t = bpf_map_lookup_elem(&pauses, &ids);
	}
	if (!t)
		return;
	depth = t->depth;
	if (depth >= MAX_NESTED)
		depth = 0; /* ends were missed */
	mask_index(depth, MAX_NESTED - 1);
	t->begun[depth] = bpf_ktime_get_ns();
	t->kinds[depth] = kind;
	t->depth = depth + 1;
}

static __always_inline void end_pause(u64 cookie)
{
	struct node *node = node_of(cookie);
	u64 depth, ids = current_ids();
	struct pause pause = { .event = EVENT_PAUSE, .ids = ids };
	struct thread_pauses *t = bpf_map_lookup_elem(&pauses, &ids);

	if (!node || !t || !t->depth)
		return;
	depth = t->depth - 1;
	mask_index(depth, MAX_NESTED - 1);
	t->depth = depth;
	pause.generation = node->generation;
	pause.kind = t->kinds[depth];
	pause.begun = t->begun[depth];
	pause.length = bpf_ktime_get_ns() - pause.begun;
	if (!depth)
		t->paused += pause.length;
	count(collections);
	if (with_pauses && pause.length >= slower &&
	    bpf_ringbuf_output(&events, &pause, sizeof(pause), BPF_RB_NO_WAKEUP))
		count(unsent);
}

/* Heap::CallGCPrologueCallbacks(GCType, ...), CallGCEpilogueCallbacks(GCType, ...) */
SEC("uprobe")
int on_gc_prologue(struct pt_regs *ctx)
{
	begin_pause(argument1(ctx));
	return 0;
}

SEC("uprobe")
int on_gc_epilogue(struct pt_regs *ctx)
{
	end_pause(bpf_get_attach_cookie(ctx));
	return 0;
}

/* Where those are inlined: Heap::CollectGarbage(), to which PerformGarbageCollection(collector) says
 * what it collects.
 */
SEC("uprobe")
int on_collect(struct pt_regs *ctx)
{
	begin_pause(0);
	return 0;
}

#define GC_SCAVENGE 1
#define GC_MARK_COMPACT 4

SEC("uprobe")
int on_collector(struct pt_regs *ctx)
{
	u64 depth, ids = current_ids();
	struct thread_pauses *t = bpf_map_lookup_elem(&pauses, &ids);

	if (!t || !t->depth)
		return 0;
	depth = t->depth - 1;
	mask_index(depth, MAX_NESTED - 1);
	t->kinds[depth] = (u32)argument1(ctx) ? GC_MARK_COMPACT : GC_SCAVENGE;
	return 0;
}

SEC("uretprobe")
int on_collected(struct pt_regs *ctx)
{
	end_pause(bpf_get_attach_cookie(ctx));
	return 0;
}

/* Iterations of event loops */

#define MAX_WAITS 4

/* The system calls in which libuv waits, by number; 0: none. */
const volatile u32 waits[MAX_WAITS];

/* When each thread of the processes woke last, ns. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_THREADS);
	__type(key, u64); /* tgid, tid */
	__type(value, u64);
} woken SEC(".maps");

static __always_inline bool is_wait(u64 call)
{
	for (u32 i = 0; i < MAX_WAITS; i++) {
		if (waits[i] && call == waits[i])
			return true;
	}
	return false;
}

/* args: struct pt_regs *, number of the call */
SEC("raw_tp/sys_enter")
int on_wait(u64 *args)
{
	struct iteration iteration = { .event = EVENT_ITERATION };
	struct process *process;
	u64 ids, *since;
	u32 tgid;

	if (!is_wait(args[1]))
		return 0;
	ids = current_ids();
	tgid = ids >> 32;
	since = bpf_map_lookup_elem(&woken, &ids);
	process = bpf_map_lookup_elem(&processes, &tgid);
	if (!since || !process)
		return 0;
	count(iterations);
	iteration.generation = process->generation;
	iteration.ids = ids;
	iteration.begun = *since;
	iteration.length = bpf_ktime_get_ns() - iteration.begun;
	if (iteration.length >= slower &&
	    bpf_ringbuf_output(&events, &iteration, sizeof(iteration), BPF_RB_NO_WAKEUP))
		count(unsent);
	return 0;
}

/* args: struct pt_regs *, result */
SEC("raw_tp/sys_exit")
int on_woken(u64 *args)
{
	struct pt_regs *regs = user_regs((struct task_struct *)bpf_get_current_task_btf());
	u64 ids, now;
	u32 tgid;

	if (!is_wait(syscall_number(regs)))
		return 0;
	ids = current_ids();
	tgid = ids >> 32;
	if (!bpf_map_lookup_elem(&processes, &tgid))
		return 0;
	now = bpf_ktime_get_ns();
	bpf_map_update_elem(&woken, &ids, &now, BPF_ANY);
	return 0;
}

char _license[] SEC("license") = "Dual MIT/GPL";
