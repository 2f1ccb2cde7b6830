/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * Whether a system call meets all conditions, also on the text that it wrote.
 */
#ifndef USTACK_WRITTEN_H
#define USTACK_WRITTEN_H

#include "predicate.h"

#define MAX_VECTORS 8                            /* of one write */
#define MAX_CHUNKS 64                            /* of what is written at once: 8 KiB */
#define CHUNK_STEP (MATCH_BYTES - PATTERN_BYTES) /* so that one chunk has the whole pattern */

__noinline int has_data(struct match *m)
{
	return m && has_within(m, &data);
}

__noinline int read_text_of(struct hit *hit, u64 bytes, u64 address)
{
	if (!hit || bytes > MATCH_BYTES)
		return 0;
	hit->match.length = bytes;
	return read_user(hit->match.text, bytes, address);
}

__noinline int is_in_text(struct hit *hit, u64 address, u64 length)
{
	if (!hit)
		return 0;
	for (u32 i = 0; i < MAX_CHUNKS; i++) {
		u64 from = i * CHUNK_STEP, bytes = MATCH_BYTES;

		if (from >= length)
			return 0;
		if (bytes > length - from)
			bytes = length - from;
		if (!read_text_of(hit, bytes, address + from))
			break;
		if (has_data(&hit->match))
			return 1;
		if (hit->match.mark)
			break;
	}
	count(unsearched);
	return 0;
}

struct vector { /* include/uapi/linux/uio.h: struct iovec */
	u64 address, length;
};

static __always_inline bool is_in_vectors(struct hit *hit, u64 vectors, u64 vector_count)
{
	u64 left = hit->result;

	for (u32 i = 0; i < MAX_VECTORS; i++) {
		struct vector v;

		if (i >= vector_count || !left)
			return false;
		if (!read_user(&v, sizeof(v), vectors + i * sizeof(v)))
			break;
		if (v.length > left)
			v.length = left;
		left -= v.length;
		if (is_in_text(hit, v.address, v.length))
			return true;
	}
	count(unsearched);
	return false;
}

/* Whether this call wrote the requested data. */
static __always_inline bool writes_data(struct hit *hit, u32 kind)
{
	u64 message[4], at = hit->arguments[1];

	if (hit->result <= 0)
		return false;
	if (kind == DATA_BUFFER)
		return is_in_text(hit, at, hit->result);
	if (kind == DATA_VECTORS)
		return is_in_vectors(hit, at, hit->arguments[2]);
	if (!read_user(message, sizeof(message), at)) /* name, its length, vectors, their count */
		return false;
	return is_in_vectors(hit, message[2], message[3]);
}

/* Reads a path of up to MATCH_BYTES - 1 bytes, and whether that is all of it. */
static __always_inline void read_path(struct match *m, u64 address)
{
	long bytes = bpf_probe_read_user_str(m->text, MATCH_BYTES + 1, (void *)address);

	m->read = bytes <= 0 ? TEXT_UNREAD : bytes > MATCH_BYTES ? TEXT_CUT : TEXT_WHOLE;
	m->length = m->read == TEXT_UNREAD ? 0 : m->read == TEXT_CUT ? MATCH_BYTES - 1 : bytes - 1;
}

/* Whether a system call that ended meets the conditions. */
static __always_inline bool is_wanted_call(struct hit *hit, const volatile struct syscall *call)
{
	s8 at = call->path;

	if (!all_hold(hit, call->descriptor))
		return false;
	if (data.length && !(call->data >= 0 && writes_data(hit, call->data_kind)))
		return false;
	if (at >= 0 && (path.length || with_path))
		read_path(&hit->match, argument_of(hit, at));
	return !path.length || (at >= 0 && is_like(&hit->match, &path));
}

#endif
