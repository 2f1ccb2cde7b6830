/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * Whether a text matches a pattern, or contains another text. Positions are kept in memory, where
 * the verifier does not track them: it would explore every path through a pattern separately.
 */
#ifndef USTACK_MATCH_H
#define USTACK_MATCH_H

#include "kernel.h"

#define PATTERN_BYTES 128 /* a power of two */
#define MATCH_BYTES 256   /* of a text, compared at a time; a power of two */
#define MATCH_STEPS (4 * MATCH_BYTES)

/* A pattern, written by user space: * stands for any text, ? for one byte. */
struct pattern {
	u32 length; /* 0: none */
	u8 text[PATTERN_BYTES];
};

/* How much of a path was read. */
enum text_read { TEXT_WHOLE, TEXT_CUT, TEXT_UNREAD };

/* A text and how far it has been compared. */
struct match {
	u32 length;               /* of text */
	u32 at, in;               /* the text's next byte, the pattern's */
	u32 star;                 /* after the pattern's last *; 0: no * so far */
	u32 mark;                 /* where the text continues after what that * stands for */
	u32 read;                 /* of a path: enum text_read */
	u8 text[MATCH_BYTES + 8]; /* the last 8 bytes are room to read a whole word */
};

/* Whether the whole text matches the pattern. */
static __always_inline bool is_like(struct match *m, const volatile struct pattern *pattern)
{
	m->at = m->in = m->star = m->mark = 0;
	for (u32 i = 0; i < MATCH_STEPS; i++) {
		u64 at = m->at, in = m->in;
		u8 wanted;

		if (at >= m->length)
			break;
		mask_index(at, MATCH_BYTES - 1);
		mask_index(in, PATTERN_BYTES - 1);
		wanted = m->in < pattern->length ? pattern->text[in] : 0;
		if (wanted == '*') {
			m->in++;
			m->star = m->in;
			m->mark = m->at;
		} else if (wanted && (wanted == '?' || wanted == m->text[at])) {
			m->in++;
			m->at++;
		} else if (m->star) {
			m->in = m->star;
			m->at = ++m->mark;
		} else {
			return false;
		}
	}
	for (u32 i = 0; i < PATTERN_BYTES; i++) {
		u64 in = m->in;

		mask_index(in, PATTERN_BYTES - 1);
		if (m->in >= pattern->length || pattern->text[in] != '*')
			break;
		m->in++;
	}
	return m->at >= m->length && m->in >= pattern->length;
}

/* Whether the text contains the pattern, byte for byte. If that takes too many steps, because
 * much of the text resembles the beginning of the pattern, mark is set.
 */
static __always_inline bool has_within(struct match *m, const volatile struct pattern *pattern)
{
	u32 length = m->length, wanted = pattern->length;

	m->at = m->in = m->mark = 0;
	for (u32 i = 0; i < MATCH_STEPS; i++) {
		u64 at = m->at, in = m->in;

		if (m->in >= wanted)
			return true;
		if (m->at + wanted > length + m->in)
			return false;
		mask_index(at, MATCH_BYTES - 1);
		mask_index(in, PATTERN_BYTES - 1);
		if (m->text[at] == pattern->text[in]) {
			m->at++;
			m->in++;
			continue;
		}
		m->at = m->at - m->in + 1;
		m->in = 0;
	}
	m->mark = 1;
	return false;
}

#endif
