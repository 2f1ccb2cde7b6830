/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * Follows the HTTP/1 messages (RFC 9112) in the bytes of one direction of a connection, as they are
 * written or read, in pieces of any size: where each message begins and ends, and what its first line
 * and the fields that say how long its body is say. Of a body nothing is read but the lines between its
 * chunks.
 */
#ifndef USTACK_HTTP_H
#define USTACK_HTTP_H

#include "head.h"

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
	case MESSAGE_LINE:
		return take_line(p);
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
	if (m->state == MESSAGE_LOST)
		return PART_SOME;
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

#endif
