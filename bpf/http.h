/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * Follows the HTTP/1 messages (RFC 9112) in the bytes of one direction of a connection, as they are
 * written or read, in pieces of any size: where each message begins and ends, and what its first line
 * and the fields that say how long its body is say. Of a body nothing is read but the lines between its
 * chunks.
 */
#ifndef USTACK_HTTP_H
#define USTACK_HTTP_H

#include "walk.h"

enum http_limit {
	URL_BYTES = 2048, /* of a request's target; a power of two */
	HOST_BYTES = 64,  /* of a Host field */
	METHOD_BYTES = 16,
	CARRIED_BYTES = 64, /* of a line's beginning, from one piece to the next */
};

#define WINDOW_BYTES 4096 /* of a head at a time; a power of two */
#define WINDOW_SLACK (2 * CARRIED_BYTES + 8)
#define LINE_BYTES 32  /* of a line between chunks at a time */
#define MAX_LINES 64   /* of a head at a time */
#define SOME_PARTS 64  /* of pieces at a time */
#define MAX_PARTS 4096 /* of what is written or read at once: two for each request without a body */
#define MUCH (1ull << 60) /* of a body, if its length is not understood */
#define MAX_BLANKS 16     /* after a field, and carriage returns before a request */
#define MAX_DIGITS 15     /* of a chunk's size: V8's largest buffer has 9 */
#define FIRST_BYTES 12    /* of a status line: HTTP/1.1 200 */

enum message_state {
	MESSAGE_HEAD,
	MESSAGE_BODY,
	MESSAGE_CHUNK, /* and the end of its line */
	MESSAGE_CHUNK_SIZE,
	MESSAGE_CHUNK_EXTENSION,
	MESSAGE_TRAILER,
	MESSAGE_UNTIL_CLOSE, /* the body ends with the connection */
	MESSAGE_OPAQUE,      /* no HTTP/1 any more: upgraded, a tunnel, or it never was */
	MESSAGE_LOST,        /* its end was not found: it is where the next begins */
};

/* What is known about the current message of one direction. */
struct message {
	u64 begun, last; /* ns: when its first and its latest bytes came */
	u64 bytes;       /* so far, its head's too */
	u64 left;        /* of the body, or of the chunk with the end of its line */
	u16 status;      /* of a response */
	u8 state;        /* enum message_state */
	u8 is_begun;     /* its first line was read */
	u8 is_chunked, is_sized;
	u8 digits;    /* of the chunk's size so far */
	u8 is_filled; /* the trailer's current line is not empty */
	u32 carried; /* bytes of the line's beginning that came with the last piece: see piece_of */
	u32 pad;
};

enum direction { REQUESTS, RESPONSES };

/* What a part of a piece was. */
enum part {
	PART_SOME,
	PART_FIRST_LINE, /* of a request: method and target are in the window */
	PART_HEAD,       /* the head is complete: begin_body() is to be called */
	PART_MESSAGE,    /* the message is complete */
};

/* A piece while it is read. */
struct piece_of {
	u64 at, end; /* what is left of it, in the process */
	struct message message;
	u8 carry[CARRIED_BYTES]; /* the beginning of a line that message.carried counts */
	u32 direction;
	u32 have; /* bytes in the window */
	u32 method_bytes, target_from, target_bytes, host_from, host_bytes;
	u32 pad;
	u8 window[WINDOW_BYTES + WINDOW_SLACK];
};

#define LOWER 0x2020202020202020ull
#define BYTES_OF_ONE 0x0101010101010101ull

/* Bounds a length by a power of two, for the verifier too. */
#define bound(n, most)                       \
	do {                                 \
		if ((n) > (most))            \
			(n) = (most);        \
		mask_index(n, 2 * (most)-1); \
	} while (0)

static __always_inline u64 eight(struct piece_of *p, u64 at)
{
	mask_index(at, WINDOW_BYTES - 1);
	return *(u64 *)(p->window + at);
}

static __always_inline u8 byte_at(struct piece_of *p, u64 at)
{
	mask_index(at, WINDOW_BYTES - 1);
	return p->window[at];
}

/* Where the line that is at from ends: at its line feed, or at the end of what is there. */
__noinline u32 line_end(struct piece_of *p, u32 from)
{
	u64 at = from;

	if (!p)
		return 0;
	for (u32 i = 0; i < (WINDOW_BYTES + WINDOW_SLACK) / 8; i++) {
		u64 w, found;

		if (at >= p->have || at >= WINDOW_BYTES)
			return p->have;
		w = eight(p, at) ^ 0x0a0a0a0a0a0a0a0aull;
		found = (w - BYTES_OF_ONE) & ~w & 0x8080808080808080ull;
		if (!found) {
			at += 8;
			continue;
		}
		w = ((found & -found) - 1) & BYTES_OF_ONE; /* a one in each byte up to the first */
		at += (w * BYTES_OF_ONE >> 56) - 1;
		return at < p->have ? at : p->have;
	}
	return p->have;
}

#define is_capital(c) ((c) >= 'A' && (c) <= 'Z')

static __always_inline bool is_blank(u8 c)
{
	return c == ' ' || c == '\t';
}

static __always_inline bool is_digit(u8 c)
{
	return c >= '0' && c <= '9';
}

#define TEXT_HTTP1 0x2e312f50545448ull /* HTTP/1. */

/* HTTP/1.1 200: whether the line at from begins like this. */
static __always_inline bool take_status_line(struct piece_of *p, u32 from, u32 length)
{
	u64 text = eight(p, from);
	u8 a, b, c;

	if (length < FIRST_BYTES || (text & 0xffffffffffffffull) != TEXT_HTTP1 ||
	    byte_at(p, from + 8) != ' ')
		return false;
	a = byte_at(p, from + 9);
	b = byte_at(p, from + 10);
	c = byte_at(p, from + 11);
	if (!is_digit(a) || !is_digit(b) || !is_digit(c))
		return false;
	p->message.status = (a - '0') * 100 + (b - '0') * 10 + (c - '0');
	return true;
}

#define VERSION_BYTES 9 /* at a request line's end, with the space before it */

/* GET /target HTTP/1.1: whether the line at from, without its version, begins like this. */
__noinline int take_method(struct piece_of *p, u32 from, u32 length)
{
	u64 at = from;

	if (!p)
		return 0;
	for (u32 i = 0; i < METHOD_BYTES; i++) {
		u8 c = byte_at(p, at);

		if (c == ' ' && i > 0) {
			p->method_bytes = i;
			p->target_from = at + 1;
			p->target_bytes = length - i - 1;
			return length > i + 1;
		}
		if ((c < 'A' || c > 'Z') && c != '-')
			return 0;
		at++;
	}
	return 0;
}

/* Where what is at from begins: llhttp takes not only empty lines before a request, but any returns. */
static __always_inline u32 skip_returns(struct piece_of *p, u32 from, u32 end)
{
	for (u32 i = 0; i < MAX_BLANKS && from < end && byte_at(p, from) == '\r'; i++)
		from++;
	return from;
}

static __always_inline int take_request_line(struct piece_of *p, u32 from, u32 length)
{
	return length > VERSION_BYTES &&
	    (eight(p, from + length - VERSION_BYTES) & 0xffffffffffffull) ==
	    0x2f5054544820ull /*  HTTP/ */
	    && take_method(p, from, length - VERSION_BYTES);
}

/* The number in a Content-Length field. A wrong one is not sent by Node.js, nor accepted. */
__noinline int take_length(struct piece_of *p, u32 from, u32 to)
{
	u64 n = 0, at = from;

	if (!p)
		return 0;
	for (u32 i = 0; i < LINE_BYTES; i++) {
		u8 c = byte_at(p, at);

		if (at >= to)
			break;
		at++;
		if (is_blank(c))
			continue;
		if (!is_digit(c))
			return 0;
		n = n * 10 + (c - '0');
	}
	p->message.left = at < to ? MUCH : n; /* there are blanks before it without end */
	p->message.is_sized = 1;
	return 1;
}

/* Takes a field of a head, without the end of its line. */
__noinline int take_field(struct piece_of *p, u32 from, u32 length)
{
	u64 a, b;

	if (!p)
		return 0;
	a = eight(p, from) | LOWER;
	b = eight(p, from + 8) | LOWER;
	if (length > 15 && a == 0x2d746e65746e6f63ull /* content- */ &&
	    (b & 0xffffffffffffffull) == 0x3a6874676e656cull /* length: */)
		return take_length(p, from + 15, from + length);
	if (length > 24 && a == 0x726566736e617274ull /* transfer */ &&
	    b == 0x6e69646f636e652dull /* -encodin */ && (byte_at(p, from + 16) | 0x20) == 'g') {
		for (u32 i = 0; i < MAX_BLANKS && is_blank(byte_at(p, from + length - 1)); i++)
			length--;
		a = eight(p, from + length - 7) | LOWER;
		p->message.is_chunked =
		    (a & 0xffffffffffffffull) == 0x64656b6e756863ull; /* chunked */
		return 1;
	}
	if (length > 6 && (a & 0xffffffffffull) == 0x3a74736f68ull /* host: */ && !p->host_bytes) {
		p->host_from = byte_at(p, from + 5) == ' ' ? from + 6 : from + 5;
		p->host_bytes = from + length - p->host_from;
	}
	return 1;
}

/* Keeps the beginning of the line at from, which is not complete, for the next piece. */
static __always_inline void carry(struct piece_of *p, u64 from)
{
	u64 n = p->have - from;

	if (n > CARRIED_BYTES)
		n = CARRIED_BYTES;
	p->message.carried = n;
	mask_index(from, WINDOW_BYTES - 1);
	bpf_probe_read_kernel(p->carry, CARRIED_BYTES, p->window + from);
}

/* Takes the line from..end, end being its line feed. Returns its part. */
__noinline int take_head_line(struct piece_of *p, u32 from, u32 end)
{
	u32 length = end - from;

	if (!p)
		return PART_SOME;
	if (length && byte_at(p, end - 1) == '\r')
		length--;
	if (p->message.is_begun) {
		if (!length)
			return PART_HEAD;
		take_field(p, from, length);
		return PART_SOME;
	}
	if (p->direction == REQUESTS) {
		end = from + length;
		from = skip_returns(p, from, end);
		length = end - from;
	}
	if (!length)
		return PART_SOME; /* RFC 9112, 2.2 */
	if (p->direction == RESPONSES && take_status_line(p, from, length)) {
		p->message.is_begun = 1;
		return PART_SOME;
	}
	if (p->direction == REQUESTS && take_request_line(p, from, length)) {
		p->message.is_begun = 1;
		return PART_FIRST_LINE;
	}
	p->message.state = MESSAGE_OPAQUE;
	return PART_SOME;
}

/* Reads what comes next of a head into the window. False if it cannot be read. */
static __always_inline bool fill_window(struct piece_of *p)
{
	u64 carried = p->message.carried, n = p->end - p->at;

	if (carried > CARRIED_BYTES)
		carried = CARRIED_BYTES;
	if (n > WINDOW_BYTES - CARRIED_BYTES)
		n = WINDOW_BYTES - CARRIED_BYTES;
	mask_index(n, WINDOW_BYTES - 1);
	if (carried)
		bpf_probe_read_kernel(p->window, CARRIED_BYTES, p->carry);
	mask_index(carried, 2 * CARRIED_BYTES - 1);
	p->have = carried + n;
	return read_user(p->window + carried, n, p->at);
}

/* Takes the line at from, which is not complete. Of a request line what follows is not read: what is
 * kept would be too little of it.
 */
static __always_inline u32 leave_line(struct piece_of *p, u32 from)
{
	bool begins_request = p->direction == REQUESTS && !p->message.is_begun;

	if (begins_request)
		from = skip_returns(p, from, p->have);
	carry(p, from);
	if (!begins_request || p->have - from <= CARRIED_BYTES)
		return PART_SOME;
	if (!take_method(p, from, p->have - from)) {
		p->message.state = MESSAGE_OPAQUE;
		return PART_SOME;
	}
	p->message.is_begun = 1;
	p->carry[0] = '-'; /* so that the rest is no field */
	p->message.carried = 1;
	return PART_FIRST_LINE;
}

/* Takes what there is of a head: lines up to its end, or to that of the request line. */
__noinline int take_head(struct piece_of *p)
{
	u32 from = 0, carried, part = PART_SOME;

	if (!p)
		return PART_SOME;
	carried = p->message.carried;
	if (carried > CARRIED_BYTES || !fill_window(p)) {
		p->message.state = MESSAGE_LOST;
		return PART_SOME;
	}
	p->message.carried = 0;
	for (u32 i = 0; i < MAX_LINES; i++) {
		u32 end = line_end(p, from);

		if (end >= p->have || end >= WINDOW_BYTES) {
			part = leave_line(p, from);
			from = p->have;
			break;
		}
		part = take_head_line(p, from, end);
		from = end + 1;
		if (part != PART_SOME || p->message.state != MESSAGE_HEAD)
			break;
	}
	if (from > carried) {
		p->at += from - carried;
		p->message.bytes += from - carried;
	}
	return part;
}

/* Takes a line between chunks, or a part of it. */
__noinline int take_chunk_line(struct piece_of *p)
{
	struct message *m;
	u64 n;
	u32 i;

	if (!p)
		return PART_SOME;
	m = &p->message;
	n = p->end - p->at;
	bound(n, LINE_BYTES);
	if (!read_user(p->window, n, p->at)) {
		m->state = MESSAGE_LOST;
		return PART_SOME;
	}
	for (i = 0; i < LINE_BYTES && i < n; i++) {
		u8 c = p->window[i], d = c | 0x20;

		if (m->state == MESSAGE_TRAILER) {
			if (c == '\n' && !m->is_filled) {
				p->at += i + 1;
				m->bytes += i + 1;
				return PART_MESSAGE;
			}
			if (c != '\r')
				m->is_filled = c != '\n';
		} else if (c == '\n') {
			p->at += i + 1;
			m->bytes += i + 1;
			if (!m->digits)
				m->state = MESSAGE_LOST;
			if (!m->digits)
				return PART_SOME;
			m->digits = 0;
			m->is_filled = 0;
			m->state = m->left ? MESSAGE_CHUNK : MESSAGE_TRAILER;
			m->left += 2;
			return PART_SOME;
		} else if (m->state == MESSAGE_CHUNK_SIZE && is_digit(c)) {
			m->left = m->left << 4 | (c - '0');
			m->digits++;
		} else if (m->state == MESSAGE_CHUNK_SIZE && d >= 'a' && d <= 'f') {
			m->left = m->left << 4 | (d - 'a' + 10);
			m->digits++;
		} else if (c == ';' || c == ' ' || c == '\t') {
			m->state = MESSAGE_CHUNK_EXTENSION;
		} else if (m->state == MESSAGE_CHUNK_SIZE && c != '\r') {
			m->digits = MAX_DIGITS + 1; /* no size */
		}
		if (m->digits > MAX_DIGITS) {
			m->state = MESSAGE_LOST;
			return PART_SOME;
		}
	}
	p->at += n;
	m->bytes += n;
	return PART_SOME;
}

/* Takes what there is of a body or chunk. */
static __always_inline int take_data(struct piece_of *p)
{
	struct message *m = &p->message;
	u64 n = p->end - p->at;

	if (n > m->left)
		n = m->left;
	p->at += n;
	m->bytes += n;
	m->left -= n;
	if (m->left)
		return PART_SOME;
	if (m->state == MESSAGE_BODY)
		return PART_MESSAGE;
	m->state = MESSAGE_CHUNK_SIZE;
	return PART_SOME;
}

/* Takes the next part of the piece. */
__noinline int next_part(struct piece_of *p)
{
	if (!p)
		return PART_SOME;
	switch (p->message.state) {
	case MESSAGE_HEAD:
		return take_head(p);
	case MESSAGE_BODY:
	case MESSAGE_CHUNK:
		return take_data(p);
	case MESSAGE_CHUNK_SIZE:
	case MESSAGE_CHUNK_EXTENSION:
	case MESSAGE_TRAILER:
		return take_chunk_line(p);
	}
	p->message.bytes += p->end - p->at;
	p->at = p->end;
	return PART_SOME;
}

/* Begins the body after a head. Returns PART_MESSAGE if there is none. */
static __always_inline int begin_body(struct message *m, bool is_bodiless)
{
	if (is_bodiless)
		return PART_MESSAGE;
	if (m->is_chunked) {
		m->state = MESSAGE_CHUNK_SIZE;
		m->left = 0;
		return PART_SOME;
	}
	if (m->is_sized) {
		m->state = MESSAGE_BODY;
		return m->left ? PART_SOME : PART_MESSAGE;
	}
	m->state = MESSAGE_UNTIL_CLOSE;
	return PART_SOME;
}

/* Whether nothing of a message has come that is kept. */
static __always_inline bool is_unbegun(struct message *m)
{
	return m->state == MESSAGE_HEAD && !m->is_begun && !m->carried;
}

/* Whether a part of the next message's first line has come. */
static __always_inline bool has_beginning(struct message *m)
{
	return m->state == MESSAGE_HEAD && !m->is_begun && m->carried;
}

/* Makes m ready for the next message. */
static __always_inline void next_message(struct message *m)
{
	__builtin_memset(m, 0, sizeof(*m));
}

#endif
