/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * Which regular expression machine code executes: the last arguments that V8 calls such code with are
 * the isolate and the JSRegExp, or its data, which are on the stack. Its source and flags are sent once
 * per content, as a function's name is.
 */
#ifndef USTACK_REGEXP_H
#define USTACK_REGEXP_H

#include "v8_name.h"

#define REGEXP_BYTES 48        /* up to its flags */
#define REGEXP_FRAME_BYTES 112 /* above fp: up to its last argument */
#define REGEXP_SOURCE_BYTES 80 /* of its text */

/* Reads what is executed by the code whose frame is at fp, and sets id; false if that is no regular
 * expression. The collector does not update arguments: the object may be gone, or another's.
 */
__noinline int read_regexp(struct walk *w)
{
	const struct layout *l;
	u64 fp, object, id;
	u8 sent = 1;

	if (!w)
		return false;
	l = &w->process.layout;
	fp = w->fp;
	if (!l->regexp_argument || !w->isolate || !see(w, fp - 48, fp + REGEXP_FRAME_BYTES) ||
	    word(w, fp + (l->regexp_isolate ?: l->regexp_argument - 8)) != w->isolate)
		return false;
	object = word(w, fp + l->regexp_argument);
	if (read_object(w, &object, w->object, REGEXP_BYTES) != l->regexp)
		return false;
	w->name.flags = NAME_REGEXP;
	w->name.script = 0;
	w->name.address = 0;
	w->name.start = smi_value(field(w->object, l->regexp_source + 8)); /* its flags */
	w->head_of = 0;
	read_text(w, field(w->object, l->regexp_source), 0, REGEXP_SOURCE_BYTES);
	if (w->name.flags & NAME_PARTIAL)
		return false;
	id = identity(w);
	w->id = id;
	if (bpf_map_lookup_elem(&names, &id))
		return true;
	w->name.id = id;
	if (send_name(w, EVENT_FUNCTION))
		bpf_map_update_elem(&names, &id, &sent, BPF_ANY);
	return true;
}

/* Pushes the regular expression that the code with the frame at fp executes; false if there is none. */
static __always_inline bool push_regexp(struct walk *w)
{
	if (!read_regexp(w))
		return false;
	push(w, frame_of(FRAME_TEXT, w->id));
	return true;
}

/* Whether frames of regular expressions have no type: then theirs may look like another's. */
#define hides_regexps(w) (HAS_LINK && !(w)->process.layout.frame_regexp)

#endif
