/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * The lines of HTTP/1 heads.
 */
#ifndef USTACK_HEAD_H
#define USTACK_HEAD_H

#include "piece.h"

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

#define VERSION_BYTES 9             /* at most, at a request line's end, with the space before it */
#define TEXT_HTTP 0x2f5054544820ull /*  HTTP/ */
#define TEXT_RTSP 0x2f5053545220ull /*  RTSP/ */
#define TEXT_ICE 0x2f45434920ull    /*  ICE/ */

/* The bytes of the version at a request line's end, with the space before it. llhttp takes a line without
 * for one of HTTP/0.9, and also those of protocols that are like HTTP; elsewhere they may be others'.
 */
static __always_inline u32 version_bytes(struct piece_of *p, u32 from, u32 length)
{
	u64 last;

	if (length <= VERSION_BYTES)
		return 0;
	last = eight(p, from + length - VERSION_BYTES);
	if ((last & 0xffffffffffffull) == TEXT_HTTP)
		return VERSION_BYTES;
	if (!p->is_received)
		return 0;
	if ((last & 0xffffffffffffull) == TEXT_RTSP)
		return VERSION_BYTES;
	return (last >> 8 & 0xffffffffffull) == TEXT_ICE ? VERSION_BYTES - 1 : 0;
}

__noinline u32 skip_all(struct piece_of *p, u32 from, u32 end, u32 c)
{
	if (!p)
		return 0;
	for (u32 i = 0; i < MAX_BLANKS && from < end && byte_at(p, from) == c; i++)
		from++;
	return from;
}

/* Where what is at from begins after some c. */
static __always_inline u32 skip(struct piece_of *p, u32 from, u32 end, u32 c)
{
	return byte_at(p, from) == c ? skip_all(p, from, end, c) : from;
}

__noinline u32 trim_all(struct piece_of *p, u32 from, u32 end)
{
	if (!p)
		return 0;
	for (u32 i = 0; i < MAX_BLANKS && from < end && byte_at(p, end - 1) == ' '; i++)
		end--;
	return end;
}

/* Where what is at from ends before the spaces at its end. */
static __always_inline u32 trim(struct piece_of *p, u32 from, u32 end)
{
	return byte_at(p, end - 1) == ' ' ? trim_all(p, from, end) : end;
}

/* Notes the target from..end, which there may be spaces around. */
static __always_inline void take_target(struct piece_of *p, u32 from, u32 end)
{
	from = skip(p, from, end, ' ');
	end = trim(p, from, end);
	p->target_from = from;
	p->target_bytes = from < end ? end - from : 0;
}

/* GET /target: whether the line at from, without its version, begins like this. */
__noinline int take_method(struct piece_of *p, u32 from, u32 length)
{
	u32 i;
	u64 at = from;

	if (!p)
		return 0;
	for (i = 0; i < METHOD_BYTES; i++) {
		u8 c = byte_at(p, at);

		if (c == ' ')
			break;
		if (!is_capital(c) && c != '-')
			return 0;
		at++;
	}
	if (!i || i == METHOD_BYTES)
		return 0;
	p->method_from = from;
	p->method_bytes = i;
	take_target(p, at + 1, from + length);
	return p->target_bytes > 0;
}

static __always_inline int take_request_line(struct piece_of *p, u32 from, u32 length)
{
	u32 version = version_bytes(p, from, length);

	return (version || p->is_received) && take_method(p, from, length - version) &&
	    (version || byte_at(p, p->target_from) == '/');
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

#define TEXT_CONTENT 0x2d746e65746e6f63ull  /* content- */
#define TEXT_LENGTH 0x6874676e656cull       /* length */
#define TEXT_TRANSFER 0x726566736e617274ull /* transfer */
#define TEXT_ENCODING 0x6e69646f636e652dull /* -encodin, then g */
#define TEXT_CHUNKED 0x64656b6e756863ull    /* chunked */
#define TEXT_HOST 0x3a74736f68ull           /* host: */
#define LENGTH_BYTES 14                     /* of a field's name */
#define ENCODING_BYTES 17

/* Whether the transfer coding at the end of the line from..to is chunked. */
static __always_inline bool is_chunked(struct piece_of *p, u32 to)
{
	for (u32 i = 0; i < MAX_BLANKS && is_blank(byte_at(p, to - 1)); i++)
		to--;
	return ((eight(p, to - 7) | LOWER) & 0xffffffffffffffull) == TEXT_CHUNKED;
}

/* Takes a field of a head, without the end of its line. If how long the body is cannot be known from it,
 * since it has a blank before its colon or continues on the next line, the message is lost.
 */
__noinline int take_field(struct piece_of *p, u32 from, u32 length)
{
	u64 a, b;
	u32 name = 0;

	if (!p)
		return 0;
	if (p->message.has_length && is_blank(byte_at(p, from))) {
		p->message.state = MESSAGE_LOST;
		return 0;
	}
	a = eight(p, from) | LOWER;
	b = eight(p, from + 8) | LOWER;
	if (length > LENGTH_BYTES && a == TEXT_CONTENT && (b & 0xffffffffffffull) == TEXT_LENGTH)
		name = LENGTH_BYTES;
	else if (length > ENCODING_BYTES && a == TEXT_TRANSFER && b == TEXT_ENCODING &&
	    (byte_at(p, from + ENCODING_BYTES - 1) | 0x20) == 'g')
		name = ENCODING_BYTES;
	p->message.has_length = name != 0;
	if (name && is_blank(byte_at(p, from + name)))
		p->message.state = MESSAGE_LOST;
	else if (name == LENGTH_BYTES && byte_at(p, from + name) == ':')
		take_length(p, from + LENGTH_BYTES + 1, from + length);
	else if (name == ENCODING_BYTES && byte_at(p, from + name) == ':')
		p->message.is_chunked = is_chunked(p, from + length);
	else if (length > 6 && (a & 0xffffffffffull) == TEXT_HOST && !p->host_bytes &&
	    p->direction == REQUESTS && !p->is_received) {
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
		if (length)
			take_field(p, from, length);
		return length && p->message.state == MESSAGE_HEAD ? PART_SOME : PART_HEAD;
	}
	if (p->direction == REQUESTS) {
		end = from + length;
		/* llhttp takes any returns, not only empty lines. */
		from = skip(p, from, end, '\r');
		length = end - from;
	}
	if (!length)
		return PART_SOME; /* RFC 9112, 2.2 */
	if (p->direction == RESPONSES && take_status_line(p, from, length)) {
		p->message.is_begun = 1;
		return PART_SOME;
	}
	if (p->direction == REQUESTS && take_request_line(p, from, length)) {
		p->message.is_begun = p->has_request = 1;
		return PART_SOME;
	}
	p->message.state = MESSAGE_OPAQUE;
	return PART_SOME;
}

/* Reads what comes next of a head into the window. If it cannot be read the message is lost. */
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
	if (read_user(p->window + carried, n, p->at))
		return true;
	p->message.state = MESSAGE_LOST;
	return false;
}

/* Takes the line at from, which is not complete. If it is a request line of which there is more than what
 * is kept, its target is taken as far as it cannot be the version.
 */
static __always_inline u32 leave_line(struct piece_of *p, u32 from)
{
	bool begins_request = p->direction == REQUESTS && !p->message.is_begun;
	u32 version = p->have - VERSION_BYTES - 1;

	if (begins_request)
		from = skip(p, from, p->have, '\r');
	if (!begins_request || p->have - from <= CARRIED_BYTES) {
		carry(p, from);
		return PART_SOME;
	}
	if (!take_method(p, from, version - from)) {
		p->message.state = MESSAGE_OPAQUE;
		return PART_SOME;
	}
	carry(p, version);
	p->message.state = MESSAGE_LINE;
	p->has_request = 1;
	return PART_SOME;
}

static __always_inline void pass(struct piece_of *p, u32 bytes)
{
	p->at += bytes;
	p->message.bytes += bytes;
}

/* Takes what there is of the rest of a request line. */
__noinline int take_line(struct piece_of *p)
{
	u32 carried, end, length, version;

	if (!p)
		return PART_SOME;
	carried = p->message.carried;
	if (!fill_window(p))
		return PART_SOME;
	end = line_end(p, 0);
	p->target_from = 0;
	if (end >= p->have || end >= WINDOW_BYTES) {
		pass(p, p->have - carried);
		length = p->have - VERSION_BYTES - 1;
		carry(p, length);
		p->target_bytes = length;
		return PART_TARGET;
	}
	pass(p, end + 1 - carried);
	length = end;
	if (byte_at(p, end - 1) == '\r')
		length--;
	version = version_bytes(p, 0, length);
	p->target_bytes = trim(p, 0, length - version);
	p->message.carried = 0;
	p->message.is_begun = 1;
	p->message.state = version || p->is_received ? MESSAGE_HEAD : MESSAGE_OPAQUE;
	return PART_TARGET;
}

/* Takes what there is of a head: lines up to its end. */
__noinline int take_head(struct piece_of *p)
{
	u32 from = 0, carried, part = PART_SOME;

	if (!p)
		return PART_SOME;
	carried = p->message.carried;
	if (!fill_window(p))
		return PART_SOME;
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
	if (from > carried)
		pass(p, from - carried);
	return part;
}

#endif
