/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * What JavaScript throws: the class and the message of an exception, read before the stack is
 * unwound, and the stack that the exception was thrown with.
 */
#ifndef USTACK_THROW_H
#define USTACK_THROW_H

#include "act.h"

#define MAX_BACK_POINTERS 32 /* from a map to the first of its line: one for each property added */
#define MAX_THROWN 1024      /* exceptions whose stack is kept until they are caught or not */
#define ODDBALL_TEXT 16      /* Oddball::to_string, the same in V8 9.4 to 14.6 */
#define ODDBALL_LENGTH 9     /* of "undefined"; "termination_exception" is not a program's */

/* What is thrown. */
enum thrown_kind { THROWN_OBJECT, THROWN_STRING, THROWN_SMI, THROWN_NUMBER, THROWN_ODDBALL };

/* Keeps types that no map names in the object, for Go's bindings. */
const enum thrown_kind *thrown_kind_unused __attribute__((unused));

/* The length and the first eight characters of properties' names. */
#define MESSAGE 7, 0x006567617373656dull      /* "message" */
#define CONSTRUCTOR 11, 0x63757274736e6f63ull /* "construc" */

const volatile struct pattern thrown_class; /* of --throw; empty: not requested */
const volatile u32 with_uncaught = 0;
volatile u64 unclassed = 0; /* exceptions whose class was to be compared and could not be read */

/* Stacks that exceptions were thrown with, by the content of the exception and its thread: an
 * object may have moved when it turns out that nothing catches it.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, MAX_THROWN);
	__type(key, u64);
	__type(value, struct stack);
} thrown SEC(".maps");

/* The function that made the objects of this map; 0 if it has none, as those of primitive values. */
__noinline u64 constructor_of(struct walk *w, u64 map)
{
	u64 at;

	if (!w)
		return 0;
	for (u32 i = 0; i < MAX_BACK_POINTERS; i++) {
		u64 object;
		int type;

		at = map - 1 + w->process.layout.map_constructor;
		if (!read_user(&object, 8, at) || !is_heap_object(object) ||
		    !read_user(&at, 8, object - 1))
			return 0;
		type = type_by(w, at);
		if (type >= w->process.layout.first_js_function &&
		    type <= w->process.layout.last_js_function)
			return object;
		map = object; /* the map that this one was derived from */
	}
	return 0;
}

/* An own property of the object at w->function, whose first words are in w->object, by its name's
 * length and first eight characters. Tagged, UNREAD, or 0.
 */
__noinline u64 own_property(struct walk *w, u32 length, u64 characters)
{
	u64 key[3]; /* a string: map, hash and length, characters */
	u64 none = 0;
	int count;

	if (!w)
		return 0;
	count = read_descriptors(w);
	if (count == IN_DICTIONARY)
		return dictionary_property(w, length, characters);
	if (count < 0)
		return UNREAD;
	for (int i = 0; i < MAX_DESCRIPTORS; i++) {
		u64 details, mask = length < 8 ? (1ull << 8 * (length & 7)) - 1 : ~0ull;

		if (i >= count)
			break;
		details = (u32)smi_value(w->descriptors[i].details);
		if (details & 1)
			continue;
		if (!read_user(key, sizeof(key), w->descriptors[i].key - 1)) {
			none = UNREAD;
			continue;
		}
		if (key[1] >> 32 == length && (key[2] & mask) == characters)
			return property_value(w, details, w->descriptors[i].value);
	}
	return none;
}

/* The first words of an object at w->function. */
static __always_inline bool read_words(struct walk *w, u64 object)
{
	w->function = object;
	return read_object(w, &w->function, w->object, STRING_BYTES + 8) >= 0;
}

/* The class of the object of this map: the property "constructor" of its prototype, for maps of
 * subclasses have the first class's constructor; or else that. UNREAD if it cannot be read, 0 if it
 * is no object.
 */
static __always_inline u64 class_of(struct walk *w, u64 map)
{
	const struct layout *l = &w->process.layout;
	u64 prototype, class, words[1], constructor = constructor_of(w, map);
	int type;

	if (!constructor)
		return 0;
	if (!read_user(&prototype, 8, map - 1 + l->map_prototype))
		return UNREAD;
	w->function = prototype;
	type = read_object(w, &w->function, w->object, STRING_BYTES + 8);
	if (type < 0)
		return UNREAD;
	if (type == l->oddball) /* null */
		return constructor;
	class = own_property(w, CONSTRUCTOR);
	if (!class || class == UNREAD)
		return class ? class : constructor;
	type = read_object(w, &class, words, sizeof(words));
	return type >= l->first_js_function && type <= l->last_js_function ? class : constructor;
}

/* Moves the text that was read to the match, which may be the class's or the message's. */
static __always_inline void take_text(struct walk *w, struct hit *hit)
{
	hit->match.length = w->name.length < MATCH_BYTES ? w->name.length : MATCH_BYTES;
	for (u32 i = 0; i < MATCH_BYTES / 8; i++)
		((u64 *)hit->match.text)[i] = ((u64 *)w->name.text)[i];
}

/* Reads a string into w->name, and returns what identifies it; 0 if it is not a string. */
__noinline u64 read_message(struct walk *w, u64 string)
{
	if (!w)
		return 0;
	w->name.length = 0;
	w->name.script = 0;
	w->name.start = 0;
	if (string && is_string(w, read_head(w, string)))
		read_text(w, string, 0, MATCH_BYTES);
	return identity(w);
}

/* Reads an exception: its class into hit->class, its message into hit->match. Returns what
 * identifies it, or 0 if no program could throw it, such as the end of a worker.
 */
static __always_inline u64 read_exception(struct walk *w, struct hit *hit, u64 exception)
{
	const struct layout *l = &w->process.layout;
	u64 constructor, key = 0, text = 0;
	u32 kind = THROWN_OBJECT;
	int type;

	w->owner = (u64)w->process.generation << 32 | (u32)hit->ids;
	w->settled = 0;
	w->last_script = 0;
	w->head_of = 0;
	forget_types(w);
	hit->arguments[2] = exception;
	w->name.length = 0;
	if (is_smi(exception)) {
		kind = THROWN_SMI;
	} else {
		type = read_object(w, &exception, w->object, STRING_BYTES + 8);
		if (type < 0) /* a number may be the last of its page */
			type = read_object(w, &exception, w->object, STRING_BYTES);
		if (type < 0)
			return 0;
		constructor = is_string(w, type) ? 0 : class_of(w, w->object[0]);
		if (constructor) {
			w->function = constructor;
			read_function(w);
			read_function(w); /* the first may have left the script's name */
			key = w->id;
			if (thrown_class.length && !(key && w->complete))
				count(unclassed);
			take_text(w, hit);
			hit->class_length =
			    hit->match.length < CLASS_BYTES ? hit->match.length : CLASS_BYTES;
			__builtin_memcpy(hit->class, hit->match.text, CLASS_BYTES);
			w->head_of = 0;
			if (!read_words(w, exception))
				return 0;
			text = own_property(w, MESSAGE);
		} else if (is_string(w, type)) {
			kind = THROWN_STRING;
			text = exception;
		} else if (type == l->oddball) {
			kind = THROWN_ODDBALL;
			text = *(u64 *)((u8 *)w->object + ODDBALL_TEXT);
		} else if (type == l->heap_number) {
			kind = THROWN_NUMBER;
			hit->arguments[2] = w->object[1];
		} else {
			return 0;
		}
	}
	hit->what = kind;
	key = mix(key, read_message(w, text)) ^ hit->ids;
	if (kind == THROWN_ODDBALL && w->name.length > ODDBALL_LENGTH)
		return 0;
	take_text(w, hit);
	return key ? key : 1;
}

/* V8 throws: Isolate::Throw(exception, location) */
SEC("uprobe")
int on_throw(struct pt_regs *ctx)
{
	u64 ids = current_ids(), key;
	struct walk *w = take_walk(ids >> 32);
	struct hit *hit = begin_hit(w, ids, TRIGGER_THROW);
	u32 with = AT_ENTRY | (with_kernel ? WITH_KERNEL : 0);
	struct match *class;

	if (!hit)
		return 0;
	key = read_exception(w, hit, argument1(ctx));
	if (!key) {
		give_back(w);
		return 0;
	}
	if (with_uncaught) {
		capture(w, ctx, ids, with);
		bpf_get_current_comm(w->stack.comm, sizeof(w->stack.comm));
		bpf_map_update_elem(&thrown, &key, &w->stack, BPF_ANY);
		with |= CAPTURED;
	}
	class = (struct match *)w->raw;
	class->length = hit->class_length;
	__builtin_memcpy(class->text, hit->class, CLASS_BYTES);
	if (thrown_class.length && is_like(class, &thrown_class))
		finish_hit(ctx, w, hit, with);
	else
		give_back(w);
	return 0;
}

/* Nothing has caught an exception: node::errors::TriggerUncaughtException(isolate, handle of the
 * exception, message, whether a promise was rejected with it).
 */
SEC("uprobe")
int on_uncaught(struct pt_regs *ctx)
{
	u64 ids = current_ids(), exception, key;
	struct walk *w = take_walk(ids >> 32);
	struct hit *hit = begin_hit(w, ids, TRIGGER_UNCAUGHT);
	struct stack *stack;
	u32 with = AT_ENTRY;

	if (!hit)
		return 0;
	if (!read_user(&exception, 8, argument1(ctx)))
		exception = 0;
	key = read_exception(w, hit, exception);
	hit->arguments[0] = argument3(ctx) & 1;
	stack = bpf_map_lookup_elem(&thrown, &key);
	if (stack) {
		bpf_probe_read_kernel(&w->stack, sizeof(w->stack), stack);
		hit->arguments[1] = 1;
		with = CAPTURED;
	}
	finish_hit(ctx, w, hit, with);
	return 0;
}

#endif
