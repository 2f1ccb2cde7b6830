/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * Whether an event matches: conditions on arguments and results, errors, and a JavaScript function
 * on the stack.
 */
#ifndef USTACK_PREDICATE_H
#define USTACK_PREDICATE_H

#include "hit.h"

#define MAX_JS_FUNCTIONS 4096 /* with the requested name */

static __always_inline bool holds(u32 comparison, s64 v, s64 value)
{
	switch (comparison) {
	case EQUAL:
		return v == value;
	case NOT_EQUAL:
		return v != value;
	case LESS:
		return v < value;
	case LESS_OR_EQUAL:
		return v <= value;
	case GREATER:
		return v > value;
	}
	return v >= value;
}

/* A register that holds an int is not extended to 64 bits. */
static __always_inline s64 extended(u64 v)
{
	return v >> 32 ? (s64)v : (s32)v;
}

static __always_inline bool all_hold(struct hit *hit, s8 descriptor)
{
	for (u32 i = 0; i < MAX_CONDITIONS; i++) {
		u64 operand = conditions[i].operand;
		s64 v;

		if (i >= condition_count)
			break;
		if (operand == RESULT) {
			v = hit->trigger == TRIGGER_SYSCALL ? hit->result : extended(hit->result);
		} else if (operand == DESCRIPTOR) {
			if (descriptor < 0)
				return false;
			v = (s32)argument_of(hit, descriptor);
		} else {
			v = extended(argument_of(hit, operand));
		}
		if (!holds(conditions[i].comparison, v, conditions[i].value))
			return false;
	}
	return true;
}

static __always_inline bool is_wanted_error(s64 result)
{
	if (!errno_count)
		return true;
	for (u32 i = 0; i < MAX_ERRNOS; i++) {
		if (i < errno_count && result == -(s64)errnos[i])
			return true;
	}
	return false;
}

/* JavaScript functions with the requested name, by their id in frames. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_JS_FUNCTIONS);
	__type(key, u64);
	__type(value, u8);
} sought SEC(".maps");

/* Records a function whose name has been read if it is the requested one. */
__noinline int seek_name(struct walk *w)
{
	struct match *m;
	u64 id;
	u8 found = 1;

	if (!w)
		return 0;
	m = (struct match *)w->raw; /* free once the text is there */
	id = w->id;
	m->length = w->name.length < MATCH_BYTES ? w->name.length : MATCH_BYTES;
	for (u32 i = 0; i < MATCH_BYTES / 8; i++)
		((u64 *)m->text)[i] = ((u64 *)w->name.text)[i];
	if (is_like(m, &javascript))
		bpf_map_update_elem(&sought, &id, &found, BPF_ANY);
	return 0;
}

static __always_inline void note_name(struct walk *w)
{
	if (javascript.length)
		seek_name(w);
}

static __always_inline bool is_looked_for(u64 frame)
{
	u64 id = frame & ID_MASK;

	return frame >> 60 == FRAME_JS && bpf_map_lookup_elem(&sought, &id);
}

/* Whether a function with the requested name is on the stack. */
static __always_inline bool runs_javascript(struct walk *w)
{
	for (u32 i = 0; i < MAX_FRAMES; i++) {
		u64 at = i;

		if (i >= w->stack.count)
			return false;
		mask_index(at, MAX_FRAMES - 1);
		if (is_looked_for(w->stack.frames[at].word))
			return true;
	}
	return false;
}

#endif
