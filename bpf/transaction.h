/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * What nodesnoop keeps about connections, and about requests until they are answered.
 */
#ifndef USTACK_TRANSACTION_H
#define USTACK_TRANSACTION_H

#include "buffers.h"
#include "ends.h"
#include "http.h"
#include "pauses.h"

#define MAX_STREAMS 32768  /* connections with HTTP on them */
#define MAX_REQUESTS 16384 /* not answered yet */
#define MAX_LONG 1024      /* of those, with long targets */
#define MAX_PIPELINED 256  /* on one connection */
#define SHORT_URL_BYTES 256
#define MAX_SCANS 4 /* on one CPU at a time: one may preempt another */
#define MAX_RANGES_OF_STATUS 8
#define MAX_AGE (3600ull * 1000000000) /* ns: no head is read for longer */
#define LLHTTP_REQUEST 1
#define MAX_METHODS 64 /* of llhttp's numbers */

enum role { ROLE_SERVER, ROLE_CLIENT };

/* How a request ended. */
enum outcome {
	OUTCOME_DONE,
	OUTCOME_UPGRADE, /* its connection is no longer HTTP/1 */
	OUTCOME_ABORTED, /* the other side closed the connection */
	OUTCOME_CLOSED,  /* this side did */
};

enum transaction_flag {
	TRANSACTION_ENCRYPTED = 1,
	TRANSACTION_URL_CUT = 2,
	TRANSACTION_URL_LOST = 4, /* there was no room for more of it */
	TRANSACTION_END_LOST =
	    8, /* the body's end was not found: the times are those of its latest byte */
	TRANSACTION_DETAILS = 16, /* a struct details follows */
};

/* What is known of the message that a server's parser reads. */
enum step {
	STEP_UNKNOWN,
	STEP_SAME, /* it follows one that was received and that the parser has confirmed, or empty lines */
	STEP_OTHER, /* its beginning was not received: the next response may be to it */
};

#define REQUEST_PARTIAL 0x100 /* only its first line was received so far: it may be none */

#define UNKNOWN (~0ull) /* a time */

struct range_of_status {
	u16 low, high;
};

const volatile u32 with_servers = 1, with_clients = 1;
const volatile struct range_of_status statuses[MAX_RANGES_OF_STATUS];
const volatile u32 status_count = 0; /* 0: all */

volatile u64 unfollowed = 0;   /* requests for which there was no room */
volatile u64 implausible = 0;  /* requests that are not where they should be */
volatile u64 unattributed = 0; /* requests whose connection is not known */
volatile u64 endless = 0;      /* messages whose end was not found */
volatile u64 unscanned =
    0; /* writes and reads while all scans of their CPU were in use, or too long */
volatile u64 served = 0, requested = 0; /* requests that ended */

struct stream_key {
	u64 generation;
	u64 stream; /* address of its socket (struct sock); if it is encrypted, of its StreamBase; if it
	             * is HTTP/2, of its Http2Session */
};

struct request {
	u64 begun, answered; /* ns: when it began, when the first byte of its response came */
	u64 idle, paused;    /* ns, so far: its loop (or UNKNOWN), its thread's collections */
	u64 ids;             /* tgid, tid */
	u32 url_bytes;       /* all of it */
	u32 flags;           /* enum transaction_flag, REQUEST_PARTIAL */
	u64 bytes;           /* of the response so far, of HTTP/2 */
	u64 head_end;        /* address after its head, when it was received */
	u32 older,
	    newer; /* numbers of its session's open requests before and after it, of HTTP/2; 0: none */
	u16 status; /* of HTTP/2 */
	u8 number;  /* a server's method by llhttp's number; 255: as text */
	u8 method_bytes, host_bytes;
	u8 pad[3];
	u8 method[METHOD_BYTES];
	u8 host[HOST_BYTES];
	u8 url[SHORT_URL_BYTES];
};

struct stream {
	u64 first, next; /* numbers of the requests that are not answered yet, from 1 */
	u64 held;        /* the number of the one in request; 0: none is */
	u64 base;        /* of an HTTP/2 session: the address of its StreamBase */
	u32 open;        /* its requests that have not ended */
	u32 latest;      /* the number of the one that began last; 0: none is open */
	u64 metrics;     /* address of how long the loop was idle; 0: not known */
	u64 alias;       /* see aliases; 0: not known yet */
	u64 aborted;     /* ns: when the other side closed; 0: it did not */
	u8 role;         /* enum role */
	u8 is_encrypted;
	u8 is_multiplexed; /* HTTP/2 */
	u8 step;           /* enum step */
	u8 is_left;        /* this side has shut it down before the other did */
	u32 node;          /* its number */
	u64 parser;        /* of a server's unencrypted connection; 0: it does not read from that */
	u64 other;         /* ns: when the message began that step is STEP_OTHER of; or 0 */
	u64 unsettled;     /* the number of the first request that was only received; 0: none was */
	struct message asked; /* a client's, or what a server has received */
	struct message answered;
	struct ends ends;
	struct request request;
	u8 asked_carry[CARRIED_BYTES], answered_carry[CARRIED_BYTES]; /* see piece_of */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_STREAMS);
	__type(key, struct stream_key);
	__type(value, struct stream);
} streams SEC(".maps");

/* By what a connection is known besides its key in streams, to the address in that: by its StreamBase
 * if its socket is the key, else by its socket.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_STREAMS);
	__type(key, struct stream_key);
	__type(value, u64);
} aliases SEC(".maps");

/* The event loops of threads (uv_loop_t). */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, MAX_THREADS);
	__type(key, u64);   /* tgid, tid */
	__type(value, u64); /* address */
} loops SEC(".maps");

struct request_key {
	struct stream_key stream;
	u64 number;
};

/* Requests that came while their stream held another. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_REQUESTS);
	__type(key, struct request_key);
	__type(value, struct request);
} requests SEC(".maps");

struct long_url {
	u64 bytes; /* all of it */
	u8 text[URL_BYTES];
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_LONG);
	__type(key, struct request_key);
	__type(value, struct long_url);
} long_urls SEC(".maps");

/* Targets that node took from its parser before the head was complete, by the Parser. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, MAX_LONG);
	__type(key, struct stream_key);
	__type(value, struct long_url);
} early_urls SEC(".maps");

/* The stream that each thread reads from now, or read from last. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, MAX_THREADS);
	__type(key, u64);
	__type(value, u64);
} reading SEC(".maps");

/* What only some requests have. */
struct details {
	u8 method[METHOD_BYTES];
	u8 host[HOST_BYTES];
	u8 name[UNIX_BYTES]; /* as in struct ends */
};

/* A request and its response. */
struct transaction {
	u32 event; /* EVENT_TRANSACTION */
	u8 role, outcome, number, flags;
	u64 ids; /* tgid, tid */
	u64 generation;
	u64 begun, answered, ended; /* ns, CLOCK_MONOTONIC; answered: 0 if not */
	u64 paused;                 /* ns, of its thread's collections */
	u64 busy;                   /* ns, of its loop; or UNKNOWN */
	u64 bytes;                  /* of the response, its head's too */
	u32 url_bytes;              /* all of it */
	u16 status;                 /* 0: none */
	u8 method_bytes, host_bytes;
	u16 family, name_length, local_port, peer_port; /* as in struct ends */
	u8 peer[16];
	/* The target, up to URL_BYTES, and, if flags have TRANSACTION_DETAILS, a struct details. The
	 * second half of URL_BYTES is room for the verifier's doubts.
	 */
	u8 text[2 * URL_BYTES + sizeof(struct details)];
};

/* What programs need more room for than their stacks have. */
struct scan {
	struct piece_of piece;
	struct written written; /* what comes after the piece */
	u32 taken;
	u32 number; /* of the scan on its CPU */
	u32 outcome;
	u32 pad;
	u64 now;
	struct stream_key key;
	struct parser_head head;
	u64 tail[TAIL_BYTES / 8 + 1];
	struct stream stream;
	struct request request;
	struct long_url url;
	struct details details;
	struct transaction transaction;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, MAX_SCANS);
	__type(key, u32);
	__type(value, struct scan);
} scans SEC(".maps");

/* Keep types that no map names in the object, for Go's bindings. */
const struct details *details_unused __attribute__((unused));
const enum role *role_unused __attribute__((unused));
const enum outcome *outcome_unused __attribute__((unused));
const enum transaction_flag *transaction_flag_unused __attribute__((unused));
const enum http_limit *http_limit_unused __attribute__((unused));
const enum reads *reads_unused __attribute__((unused));

/* How long the stream's loop was idle so far, or UNKNOWN. */
static __always_inline u64 idle_so_far(u64 metrics)
{
	u64 idle;

	return metrics && read_user(&idle, 8, metrics) ? idle : UNKNOWN;
}

/* The CPU's scan of that number. Functions that are verified apart get the number: what they are given
 * a pointer to could be neither a map's key nor its value (Linux 6.1).
 */
static __always_inline struct scan *scan_numbered(u32 number)
{
	return bpf_map_lookup_elem(&scans, &number);
}

/* A scan that is not in use on this CPU; null if all are. */
static __always_inline struct scan *take_scan(void)
{
	for (u32 i = 0; i < MAX_SCANS; i++) {
		u32 number = i;
		struct scan *s = bpf_map_lookup_elem(&scans, &number);

		if (s && !__sync_lock_test_and_set(&s->taken, 1)) {
			s->number = i;
			s->now = bpf_ktime_get_ns();
			return s;
		}
	}
	count(unscanned);
	return 0;
}

static __always_inline void give_back_scan(struct scan *s)
{
	s->taken = 0;
}

static __always_inline bool is_wanted_status(u16 status)
{
	if (!status_count)
		return true;
	for (u32 i = 0; i < MAX_RANGES_OF_STATUS; i++) {
		if (i < status_count && status >= statuses[i].low && status <= statuses[i].high)
			return true;
	}
	return false;
}

/* Describes the request's end, with what else the stream and its response say. */
static __always_inline void describe(
    struct scan *s, struct stream *stream, struct request *r, u64 end)
{
	struct transaction *t = &s->transaction;
	u64 idle = idle_so_far(stream->metrics);

	t->event = EVENT_TRANSACTION;
	t->role = stream->role;
	t->outcome = s->outcome;
	t->number = r->number;
	t->flags = r->flags;
	if (stream->is_encrypted)
		t->flags |= TRANSACTION_ENCRYPTED;
	if (s->piece.message.state == MESSAGE_LOST)
		t->flags |= TRANSACTION_END_LOST;
	t->ids = r->ids;
	t->generation = s->key.generation;
	t->begun = r->begun;
	t->answered = r->answered;
	t->ended = end;
	t->paused = paused_so_far(stream->node, r->ids, s->now) - r->paused;
	t->busy = s->now - r->begun;
	if (idle == UNKNOWN || r->idle == UNKNOWN)
		t->busy = UNKNOWN;
	else if (idle >= r->idle && idle - r->idle <= t->busy)
		t->busy -= idle - r->idle;
	if (t->busy != UNKNOWN && t->busy > end - r->begun)
		t->busy = end - r->begun; /* it ended some time ago */
	if (t->paused > end - r->begun)
		t->paused = end - r->begun;
	t->bytes = r->answered ? s->piece.message.bytes : 0;
	t->status = r->answered ? s->piece.message.status : 0;
	t->method_bytes = r->method_bytes;
	t->host_bytes = r->host_bytes;
	t->url_bytes = r->url_bytes;
	t->family = stream->ends.family;
	t->name_length = stream->ends.name_length;
	t->local_port = stream->ends.local_port;
	t->peer_port = stream->ends.peer_port;
	__builtin_memcpy(t->peer, stream->ends.peer, sizeof(t->peer));
}

/* Copies the first bytes of a request's target, up to URL_BYTES, to its description. Returns how many
 * there are.
 */
static __always_inline u64 copy_target(
    struct scan *s, struct request *r, struct request_key *key, u64 bytes)
{
	struct long_url *url;

	if (bytes > SHORT_URL_BYTES) {
		bound(bytes, URL_BYTES);
		url = bpf_map_lookup_elem(&long_urls, key);
		if (url) {
			bpf_probe_read_kernel(s->transaction.text, URL_BYTES, url->text);
			return bytes;
		}
		s->transaction.flags |= TRANSACTION_URL_LOST;
	}
	bound(bytes, SHORT_URL_BYTES);
	bpf_probe_read_kernel(s->transaction.text, bytes, r->url);
	return bytes;
}

/* Appends what only some requests have, after so many bytes of text. */
static __always_inline void append_details(
    struct scan *s, struct stream *stream, struct request *r, u64 bytes)
{
	struct details *d = &s->details;

	s->transaction.flags |= TRANSACTION_DETAILS;
	__builtin_memcpy(d->method, r->method, sizeof(d->method));
	__builtin_memcpy(d->host, r->host, sizeof(d->host));
	bpf_probe_read_kernel(d->name, sizeof(d->name), stream->ends.name);
	mask_index(bytes, 2 * URL_BYTES - 1);
	bpf_probe_read_kernel(s->transaction.text + bytes, sizeof(*d), d);
}

static __always_inline void send_transaction(
    struct scan *s, struct stream *stream, struct request *r, struct request_key *key)
{
	u64 bytes = copy_target(s, r, key, r->url_bytes);

	mask_index(bytes, 2 * URL_BYTES - 1);
	if (r->method_bytes || r->host_bytes || stream->ends.name_length) {
		append_details(s, stream, r, bytes);
		bytes += sizeof(struct details);
	}
	send_event(&s->transaction, __builtin_offsetof(struct transaction, text) + bytes);
}

/* Counts a request that has ended as s->outcome says, and sends it if it is wanted. s->piece.message is
 * the state of its response.
 */
static __always_inline void report(
    struct scan *s, struct stream *stream, struct request *r, struct request_key *key, u64 end)
{
	bool is_served = stream->role == ROLE_SERVER;

	count(*(is_served ? &served : &requested));
	describe(s, stream, r, end);
	if ((is_served ? with_servers : with_clients) && end - r->begun >= slower &&
	    is_wanted_status(s->transaction.status))
		send_transaction(s, stream, r, key);
}

/* The stream's request of that number; null if there was no room for it. */
static __always_inline struct request *request_of(struct stream *stream, struct request_key *key)
{
	if (stream->held == key->number)
		return &stream->request;
	return bpf_map_lookup_elem(&requests, key);
}

/* When a request ended that has just ended as s->outcome says. */
static __always_inline u64 end_time(struct scan *s, struct stream *stream)
{
	if (s->outcome == OUTCOME_DONE && s->piece.message.state >= MESSAGE_UNTIL_CLOSE)
		return s->piece.message.last;
	if (s->outcome == OUTCOME_ABORTED && stream->aborted)
		return stream->aborted;
	return s->now;
}

/* The oldest request on the stream s->key has ended. */
__noinline int end_request(u32 number, struct stream *stream)
{
	struct scan *s = scan_numbered(number);
	struct request_key key;
	struct request *r;

	if (!s || !stream)
		return 0;
	key.stream = s->key;
	if (stream->first >= stream->next)
		return 0; /* a response that nobody has asked for */
	key.number = stream->first++;
	r = request_of(stream, &key);
	if (!r)
		return 0;
	if (!(r->flags & REQUEST_PARTIAL))
		report(s, stream, r, &key, end_time(s, stream));
	if (r->url_bytes > SHORT_URL_BYTES)
		bpf_map_delete_elem(&long_urls, &key);
	if (stream->held == key.number)
		stream->held = 0;
	else
		bpf_map_delete_elem(&requests, &key);
	return 0;
}

/* Forgets the requests on the stream s->key from that number on, which were none. */
static __always_inline void withdraw_requests(struct scan *s, struct stream *stream, u64 from)
{
	struct request_key key = { s->key };

	if (stream->next - stream->first > MAX_PIPELINED) /* the others were not kept */
		stream->next = stream->first + MAX_PIPELINED;
	for (u32 i = 0; i < MAX_PIPELINED && stream->next > from; i++) {
		key.number = --stream->next;
		if (stream->held == key.number)
			stream->held = 0;
		else
			bpf_map_delete_elem(&requests, &key);
		bpf_map_delete_elem(&long_urls, &key);
	}
	stream->unsettled = 0;
}

/* Notes a request that begins on the stream: s->request, with its target in text, and if that is long in
 * s->url. s->url.bytes is its length.
 */
static __always_inline void add_request(struct scan *s, struct stream *stream, const u8 *text)
{
	struct request_key key = { s->key, stream->next };
	struct request *r = &s->request;
	u64 n = s->url.bytes;

	stream->next++;
	if (key.number - stream->first >= MAX_PIPELINED) {
		count(unfollowed);
		return;
	}
	r->url_bytes = s->url.bytes;
	r->ids = current_ids();
	r->flags = r->url_bytes > URL_BYTES ? TRANSACTION_URL_CUT : 0;
	r->answered = 0;
	r->idle = idle_so_far(stream->metrics);
	r->paused = paused_so_far(stream->node, r->ids, s->now);
	if (r->url_bytes > SHORT_URL_BYTES)
		bpf_map_update_elem(&long_urls, &key, &s->url, BPF_ANY);
	bound(n, SHORT_URL_BYTES);
	if (!stream->held) {
		__builtin_memcpy(&stream->request, r, __builtin_offsetof(struct request, url));
		bpf_probe_read_kernel(stream->request.url, n, text);
		stream->held = key.number;
		return;
	}
	bpf_probe_read_kernel(r->url, n, text);
	if (bpf_map_update_elem(&requests, &key, r, BPF_ANY))
		count(unfollowed);
}

#endif
