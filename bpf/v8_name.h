/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * What a JavaScript function is called and where it is defined: JSFunction -> SharedFunctionInfo ->
 * ScopeInfo, own properties and Script, by V8's own rules, sent to user space once per content.
 */
#ifndef USTACK_V8_NAME_H
#define USTACK_V8_NAME_H

#include "v8_heap.h"

#define MAX_NAMES 65536 /* contents sent; one that is forgotten is sent again */
#define MAX_SCRIPTS 16384
#define EVENT_BYTES (8 << 20)
#define DEBUG_INFO_BYTES 40
#define MAX_ENTRIES 128  /* of a dictionary of properties, with those that are free */
#define BLOCK_ENTRIES 32 /* of these at a time; a power of two */

#define UNREAD 2         /* a property that could not be read: no Smi, and no object */
#define IN_DICTIONARY -2 /* instead of a number of descriptors */

/* Function ids that have been sent to user space; it deletes one to have the function sent again. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, MAX_NAMES);
	__type(key, u64);
	__type(value, u8);
} names SEC(".maps");

/* Scripts that have been sent to user space; it deletes one to have it sent again. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, MAX_SCRIPTS);
	__type(key, struct script_key);
	__type(value, u8);
} scripts SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, EVENT_BYTES);
} events SEC(".maps");

volatile u64 lost_events = 0; /* records there was no room for; sent again later */

/* Sends an event. User space looks for events many times a second. To wake it costs more than the
 * walk of a stack does: only for what cannot wait.
 */
static __always_inline bool send(void *event, u64 bytes, bool urgent)
{
	if (bpf_ringbuf_output(
	        &events, event, bytes, urgent ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP)) {
		count(lost_events);
		return false;
	}
	return true;
}

/* Hash of the text, the thread, the script and the position: the function's identity. */
static __always_inline u64 identity(struct walk *w)
{
	u64 last, at = w->name.length,
	          hash = mix(w->owner, (u64)(u32)w->name.script << 32 | (u32)w->name.start);

	last = at >> 3;
	mask_index(last, TEXT_BYTES / 8 - 1);
	((u64 *)w->name.text)[last] &= (1ull << 8 * (at & 7)) - 1; /* nothing after the text */
	for (u32 i = 0; i < NAME_BYTES / 8; i++) {
		if (8 * i >= at)
			break;
		hash = mix(hash, ((u64 *)w->name.text)[i]);
	}
	return finish(hash ^ at) & ((1ull << 56) - 1);
}

static __always_inline bool send_name(struct walk *w, u32 event)
{
	u64 bytes = __builtin_offsetof(struct name, text) + w->name.length;

	w->name.event = event;
	w->name.owner = w->owner;
	if (bytes > __builtin_offsetof(struct name, text) + TEXT_BYTES)
		return false; /* cannot happen; tells the verifier so */
	return send(&w->name, bytes, event == EVENT_SCRIPT);
}

/* Functions */

/* A ScopeInfo's facts about its function; name and inferred are tagged, or 0. */
struct scope {
	u64 name, inferred;
	s32 start; /* -1: not known */
};

/* src/objects/scope-info.tq: the words after the map. These flags are the same in 9.4 to 14.6. */
enum {
	SCOPE_TYPE_MASK = 15,
	SCOPE_RECEIVER_SHIFT = 7, /* two bits; a word follows the locals for 1 and 2 (9.4) */
	SCOPE_SAVED_CLASS_VARIABLE = 1 << 10,
	SCOPE_FUNCTION_NAME_MASK = 3 << 12,
	SCOPE_INFERRED_NAME = 1 << 14,
	SCOPE_LOCALS_WORD = 2,
	SCOPE_START_WORD = 3,
	MAX_LOCALS = 1 << 20,
};

#define SCOPE_BYTES 48
#define MAX_TAIL 4 /* words after the locals: two of the name, inferred, position */
#define TAIL 8     /* where they are in w->part, if they are not read with the head */

static __always_inline u64 part(struct walk *w, u64 at)
{
	mask_index(at, 15);
	return w->part[at];
}

/* Reads what a SharedFunctionInfo has for a name: a ScopeInfo, a string, or nothing. False if it
 * is none of these, or cannot be read.
 */
static __always_inline bool read_scope(struct walk *w, u64 object, struct scope *scope)
{
	const struct layout *l = &w->process.layout;
	u64 *words = w->part + 1, flags, type, locals, at, named, inferred, positions, more;
	u32 bytes = HEAD_BYTES;
	int kind;

	if (is_smi(object))
		return true;
	kind = read_object(w, &object, w->part, HEAD_BYTES);
	if (kind != l->scope_info) { /* a string, or it is the last of what is mapped */
		bytes = SCOPE_BYTES;
		kind = read_head(w, object);
		if (is_string(w, kind)) {
			scope->name = object;
			return true;
		}
		if (read_object(w, &object, w->part, SCOPE_BYTES) != l->scope_info)
			return false;
	}
	flags = l->scope_flags_smi ? (u32)smi_value(words[0]) : (u32)words[0];
	type = flags & SCOPE_TYPE_MASK;
	locals = (u32)smi_value(words[SCOPE_LOCALS_WORD]);
	if (locals > MAX_LOCALS)
		return false;
	at = l->scope_first + locals + (locals < l->scope_max_inlined ? locals : 1);
	at += l->scope_module && type + 1 == l->scope_module;
	at += flags & SCOPE_SAVED_CLASS_VARIABLE ? 1 : 0;
	at += l->scope_receiver && (((flags >> SCOPE_RECEIVER_SHIFT) + 1) & 2) ? 1 : 0;
	named = flags & SCOPE_FUNCTION_NAME_MASK ? 2 : 0;
	inferred = flags & SCOPE_INFERRED_NAME ? 1 : 0;
	positions = !l->scope_positions && (l->scope_positions_of >> type & 1);
	more = named + inferred + positions;
	at++; /* the map */
	if (8 * (at + more) > bytes) {
		mask_index(more, 7);
		if (more > MAX_TAIL)
			return false; /* cannot happen; tells the verifier so */
		if (more && !read_user(w->part + TAIL, 8 * more, object - 1 + 8 * at))
			return false;
		at = TAIL;
	}
	scope->name = named ? part(w, at) : 0;
	at += named;
	scope->inferred = inferred ? part(w, at) : 0;
	at += inferred;
	scope->start = 0; /* a whole script's own code may say nothing of itself */
	if (l->scope_positions)
		scope->start = smi_value(words[SCOPE_START_WORD]);
	else if (positions)
		scope->start = smi_value(part(w, at));
	return true;
}

/* Reads the map and the first descriptors of the object whose first words are in w->object. Their
 * number; IN_DICTIONARY where properties are in one, -1 if they cannot be read.
 */
static __always_inline int read_descriptors(struct walk *w)
{
	const struct layout *l = &w->process.layout;
	u64 count, flags;

	if (!read_user(w->map, MAP_BYTES, w->object[0] - 1))
		return -1;
	flags = *(u32 *)((u8 *)w->map + (l->map_bit_field3 & 60));
	if (flags >> l->dictionary_bit & 1)
		return IN_DICTIONARY;
	count = flags >> l->descriptor_shift & 1023;
	if (count > MAX_DESCRIPTORS)
		count = MAX_DESCRIPTORS;
	if (!read_user(w->descriptors, count * sizeof(w->descriptors[0]),
	        field(w->map, l->map_descriptors & 56) - 1 + l->descriptors_header))
		return -1;
	return count;
}

/* The value of a property of the object at w->function, by its descriptor; 0 if it cannot be read. */
static __always_inline u64 property_value(struct walk *w, u64 details, u64 value)
{
	const struct layout *l = &w->process.layout;
	u32 first = ((u8 *)w->map)[l->map_inobject & 63];
	u32 index, inside = ((u8 *)w->map)[l->map_instance_size & 63] - first;
	u64 at;

	if (details >> l->details_location & 1)
		return value;
	index = details >> l->details_index & 1023;
	if (index < inside)
		at = w->function - 1 + 8 * (first + index);
	else
		at = field(w->object, l->function_properties) - 1 + 16 + 8 * (index - inside);
	return read_user(&value, 8, at) ? value : 0;
}

/* A property of the object at w->function, whose first words are in w->object, where properties are
 * in a dictionary: a hash table (V8 9.4 to 14.6) that ends with keys, values and details. Tagged,
 * UNREAD, or 0.
 */
__noinline u64 dictionary_property(struct walk *w, u32 length, u64 characters)
{
	u64 key[3], *words, at, mask = length < 8 ? (1ull << 8 * (length & 7)) - 1 : ~0ull;
	u32 capacity;

	if (!w)
		return 0;
	words = (u64 *)w->raw; /* the table's length, entries in use, entries removed, capacity */
	at = field(w->object, w->process.layout.function_properties) - 1 + 8;
	if (!read_user(words, 4 * 8, at))
		return UNREAD;
	capacity = smi_value(words[3]);
	if (capacity > MAX_ENTRIES)
		return UNREAD;
	at += 8 * (u64)(smi_value(words[0]) + 1 - 3 * capacity);
	for (u32 i = 0; i < MAX_ENTRIES && i < capacity; i++) {
		u64 *entry = words + 3 * (i % BLOCK_ENTRIES);

		if (i % BLOCK_ENTRIES == 0 &&
		    !read_user_part(words, BLOCK_ENTRIES * 24, at + 24 * i))
			return UNREAD;
		if (is_heap_object(entry[0]) && read_user(key, sizeof(key), entry[0] - 1) &&
		    key[1] >> 32 == length && (key[2] & mask) == characters)
			return entry[1];
	}
	return 0;
}

#define NAME_CHARACTERS 0x656d616e /* "name" */

/* The function's own property "name", where it is a value and not the accessor that functions are
 * created with: a computed key, or a name that the program set, which V8 then keeps in a dictionary.
 * Tagged, or 0. Looked for among the first properties only.
 */
__noinline u64 own_name(struct walk *w)
{
	u64 name, details, *place, plain = TYPE_PLAIN;
	u32 key[5]; /* a string: map, hash, length, four characters */
	int count;

	if (!w)
		return 0;
	place = type_place(w, w->object[0]);
	if (*place >> 16 == w->object[0] && *place & TYPE_PLAIN)
		return 0;
	count = read_descriptors(w);
	if (count == IN_DICTIONARY) {
		name = dictionary_property(w, 4, NAME_CHARACTERS);
		return is_string(w, read_head(w, name)) ? name : 0;
	}
	if (count < 0)
		return 0;
	for (int i = 0; i < MAX_DESCRIPTORS; i++) {
		if (i >= count)
			break;
		details = (u32)smi_value(w->descriptors[i].details);
		if (details & 1) /* an accessor */
			continue;
		if (!read_user(key, sizeof(key), w->descriptors[i].key - 1)) {
			plain = 0;
			continue;
		}
		if (key[3] != 4 || key[4] != NAME_CHARACTERS)
			continue;
		name = property_value(w, details, w->descriptors[i].value);
		return is_string(w, read_head(w, name)) ? name : 0;
	}
	if (*place >> 16 == w->object[0])
		*place |= plain;
	return 0;
}

#define SCRIPT_WASM (3ull << 32) /* Smi: Script::Type::kWasm, 9.4 to 14.6 */

/* Reads the script's name and sends it to user space. */
static __always_inline void send_script(struct walk *w, u64 script)
{
	const struct layout *l = &w->process.layout;
	struct script_key key = { .owner = w->owner, .script = w->name.script };
	u64 name = field(w->script, l->script_name);
	u8 sent = 1;

	if (bpf_map_lookup_elem(&scripts, &key))
		return;
	if (!is_string(w, read_head(w, name)))
		name = field(w->script, l->script_source_url);
	w->name.flags = 0;
	read_text(w, name, 0, TEXT_BYTES);
	if (w->name.flags & NAME_PARTIAL)
		w->name.length = 0; /* no name, or none that can be read */
	if (field(w->script, l->script_type) == SCRIPT_WASM)
		w->name.flags |= NAME_WASM;
	w->name.id = script;
	w->name.address = w->isolate;
	w->name.start = 0;
	if (!send_name(w, EVENT_SCRIPT))
		return;
	bpf_map_update_elem(&scripts, &key, &sent, BPF_ANY);
}

/* What the tool does with a function's name once it has been read: each tool defines it. */
static __always_inline void note_name(struct walk *w);

/* True if it was sent now. */
static __always_inline bool send_function(struct walk *w)
{
	u64 id = w->id;
	u8 sent = 1;

	if (bpf_map_lookup_elem(&names, &id))
		return false;
	w->name.id = id;
	note_name(w);
	if (!send_name(w, EVENT_FUNCTION)) {
		w->complete = 0; /* not to be remembered: it is sent again next time */
		return false;
	}
	w->fresh = 1;
	bpf_map_update_elem(&names, &id, &sent, BPF_ANY);
	return true;
}

/* Sends how the source of the function at start begins, by which user space knows the script's text
 * when the process has ended before it could be read. A source that V8 does not own may lie in
 * node's binary, where it was never read: its address is sent, too. Nothing is sent of a script
 * that begins within a file.
 */
static __always_inline void send_text(struct walk *w, s32 start)
{
	const struct layout *l = &w->process.layout;
	u64 source = field(w->script, l->script_source);
	int type;

	if (!w->last_script_id || start < 0 || field(w->script, l->script_line_offset) ||
	    field(w->script, l->script_column_offset))
		return;
	type = read_head(w, source);
	if (!is_string(w, type))
		return;
	w->name.id = w->id;
	w->name.start = start;
	w->name.units = string_length(w);
	w->name.flags = type & STRING_ONE_BYTE ? NAME_ONE_BYTE : 0;
	w->name.address = 0;
	if ((type & STRING_SHAPE_MASK) == STRING_EXTERNAL)
		w->name.address = external_data(w, type);
	read_text(w, source, start, SOURCE_BYTES);
	if (w->name.flags & NAME_PARTIAL)
		w->name.length = 0;
	send_name(w, EVENT_TEXT);
}

/* Class fields and static blocks run in functions that V8 makes and, from 12 on, names by their
 * kind alone (src/objects/function-kind.h: five bits of the flags).
 */
static __always_inline u32 initializer_flag(const struct layout *l, u32 flags)
{
	u32 kind = flags & 31;

	return !l->kind_members     ? 0 :
	    kind == l->kind_members ? NAME_MEMBERS :
	    kind == l->kind_static  ? NAME_STATIC :
	                              0;
}

/* The type of what should be a string, or no object; counts one that cannot be read. */
static __always_inline int name_type(struct walk *w, u64 string)
{
	int type;

	if (!is_heap_object(string))
		return -1;
	type = read_head(w, string);
	if (type < 0)
		count_failure(FAILURE_NAME);
	return type;
}

/* The name that V8 itself would print (JSFunction::GetDebugName): the function's own property, the
 * shared name, or the one inferred from the source. Tagged, or 0.
 */
static __always_inline u64 choose_name(struct walk *w, u64 shared, u64 inferred)
{
	u64 name = own_name(w);

	if (name)
		return name;
	if (is_string(w, name_type(w, shared)) && string_length(w))
		return shared;
	if (!is_string(w, name_type(w, inferred)))
		return 0;
	w->name.flags |= NAME_INFERRED;
	return inferred;
}

/* The Script of a SharedFunctionInfo, read into w->script; 0 if it has none. */
static __always_inline u64 read_script(struct walk *w, u64 script)
{
	const struct layout *l = &w->process.layout;
	int type = read_object(w, &script, w->script, SCRIPT_BYTES);

	if (type == l->script)
		return script;
	if (!l->debug_info)
		goto none;
	type = read_object(w, &script, w->script, DEBUG_INFO_BYTES);
	if (type != l->debug_info)
		goto none;
	script = field(w->script, l->debug_info_script);
	type = read_object(w, &script, w->script, SCRIPT_BYTES);
	if (type == l->script)
		return script;
none:
	if (type < 0)
		count_failure(FAILURE_SCRIPT);
	return 0;
}

/* Reads the function at w->function, tells user space of it if it is new, and sets id, is_builtin
 * and complete; id is 0 if it is no function.
 */
__noinline int read_function(struct walk *w)
{
	struct scope scope = { .start = -1 };
	u64 script, last, name;
	const struct layout *l;
	u32 initializer;
	int type;
	bool is_new;

	if (!w)
		return 0;
	l = &w->process.layout;
	w->id = 0;
	w->complete = 0;
	type = read_object(w, &w->function, w->object, FUNCTION_BYTES);
	w->failure = type < 0 ? FAILURE_FUNCTION : FAILURE_UNKNOWN_LAYOUT;
	if (type < l->first_js_function || type > l->last_js_function)
		return 0;
	w->name.address = field(w->object, l->function_shared);
	w->code_word = *(u64 *)((u8 *)w->object + (l->function_code & 60));
	type = read_object(w, &w->name.address, w->part, (l->shared_flags & 60) + 4);
	w->failure = type < 0 ? FAILURE_FUNCTION_DATA : FAILURE_UNKNOWN_LAYOUT;
	if (type != l->shared_function_info)
		return 0;
	w->failure = FAILURE_FUNCTION_DATA;
	initializer = initializer_flag(l, half(w->part, l->shared_flags));
	script = field(w->part, l->shared_script);
	w->head_of = 0;
	if (!read_scope(w, field(w->part, l->shared_name), &scope))
		return 0;
	last = w->last_script;
	if (script != last) {
		w->last_script = script;
		script = read_script(w, script);
		w->last_script_id = script ? smi_value(field(w->script, l->script_id)) : 0;
		if (script && (s32)w->last_script_id <= 0)
			count_failure(FAILURE_SCRIPT_ID);
	}
	w->is_builtin = !w->last_script_id;
	w->name.flags = initializer;
	w->name.length = 0;
	w->name.script = w->last_script_id;
	w->name.start = w->last_script_id ? scope.start : -1;
	name = initializer ? 0 : choose_name(w, scope.name, scope.inferred);
	if (name)
		read_text(w, name, 0, NAME_BYTES);
	w->complete = !(w->name.flags & NAME_PARTIAL);
	if (!w->complete)
		count_failure(FAILURE_NAME);
	w->id = identity(w);
	is_new = send_function(w);
	if (script && w->last_script != last)
		send_script(w, script);
	if (is_new)
		send_text(w, scope.start);
	return 0;
}

#endif
