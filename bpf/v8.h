/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * The ustack helper: a frame of V8's -> JSFunction -> SharedFunctionInfo -> name, script, position.
 *
 * All offsets come from struct layout; no version of V8 is known here. A name is read by V8's own
 * rules at the moment of the event and sent to user space once per content. What was read of a
 * function is kept by its address for as long as no collection has moved anything (the epoch):
 * then a frame costs one look-up. Any map word may be a forwarding address during a collection.
 */
#ifndef USTACK_V8_H
#define USTACK_V8_H

#include "unwind.h"

#define MAX_FUNCTIONS 65536 /* remembered by address; the least used go first */
#define MAX_NAMES 65536     /* contents sent; one that is forgotten is sent again */
#define MAX_SCRIPTS 16384
#define MAX_THREADS 8192
#define EVENT_BYTES (8 << 20)
#define MAX_STRING_STEPS 48 /* pieces of a name */
#define MAX_UNITS 512       /* of a piece */
#define MAX_PROLOGUE 64     /* bytes of code that build a frame */
#define ROOT_BIAS 0x80      /* kRootRegisterBias: the root register less the isolate */

struct function_key {
	u64 ids;
	u64 function;
};

struct function_value {
	u64 epoch;
	u64 id;
	u64 code_start;
	u32 code_size;
	u16 tier;
	u16 is_builtin;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, MAX_FUNCTIONS);
	__type(key, struct function_key);
	__type(value, struct function_value);
} functions SEC(".maps");

/* Function ids that user space has been told of. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, MAX_NAMES);
	__type(key, u64);
	__type(value, u8);
} names SEC(".maps");

struct script_key {
	u64 ids;
	s64 script;
};

/* Scripts that user space has been told of; it deletes one to be told again. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, MAX_SCRIPTS);
	__type(key, struct script_key);
	__type(value, u8);
} scripts SEC(".maps");

/* Each thread's isolate, as last seen in V8's root register. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, MAX_THREADS);
	__type(key, u64);
	__type(value, u64);
} isolates SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, EVENT_BYTES);
} events SEC(".maps");

volatile u64 lost_events = 0; /* records there was no room for; sent again later */

/* Object reads */

#define is_heap_object(word) (((word) & 3) == 1)
#define is_smi(word) (((word) & 0xffffffff) == 0)
#define smi_value(word) ((s32)((word) >> 32))
#define field(object, offset) (*(u64 *)((u8 *)(object) + ((offset) & 127 & ~7)))

/* How much of each object is read: up to the last field in use, never past the smallest object's
 * end, which may be the end of what is mapped.
 */
#define MAP_BYTES 48
#define FUNCTION_BYTES 56
#define SHARED_BYTES 48
#define SCRIPT_BYTES 120
#define CODE_BYTES 64

/* The first bytes of *object, and its instance type; -1 if it is none. An object that the
 * collector has moved says where to in its map word: *object is then its new place.
 */
static __always_inline int read_object(struct walk *w, u64 *object, void *to, u32 bytes)
{
	u16 type;
	u64 map;

	if (!is_heap_object(*object) || !read_user(to, bytes, *object - 1))
		return -1;
	map = *(u64 *)to;
	if (!(map & 1)) {
		*object = map | 1;
		if (!read_user(to, bytes, map))
			return -1;
		map = *(u64 *)to;
	}
	if (!is_heap_object(map) ||
	    !read_user(&type, sizeof(type), map - 1 + w->process.layout.map_instance_type))
		return -1;
	return type;
}

#define is_string(w, type) ((type) >= 0 && (type) < (w)->process.layout.first_nonstring)

/* The instance type of the object alone. */
static __always_inline int type_of(struct walk *w, u64 *object)
{
	u64 map;

	return read_object(w, object, &map, sizeof(map));
}

/* Strings */

/* A string's length in UTF-16 units; 0 if it cannot be read. */
static __always_inline u32 string_length(u64 string)
{
	u32 length;

	return read_user(&length, sizeof(length), string - 1 + 12) ? length : 0;
}

/* Adds one UTF-16 unit to the text as UTF-8; true when the text is full. */
__noinline int append_unit(struct walk *w, u32 unit)
{
	u32 code = unit;
	u64 at;

	if (!w)
		return 1;
	at = w->name.length;
	if (at + 7 > w->limit) {
		w->name.flags |= NAME_TRUNCATED;
		return 1;
	}
	mask_index(at, TEXT_BYTES - 1);
	if (w->high) {
		if (unit >= 0xdc00 && unit < 0xe000) {
			code = 0x10000 + ((w->high - 0xd800) << 10) + (unit - 0xdc00);
		} else { /* a lone surrogate is no character: U+FFFD */
			w->name.text[at++] = 0xef;
			w->name.text[at++] = 0xbf;
			w->name.text[at++] = 0xbd;
		}
		w->high = 0;
	} else if (unit >= 0xdc00 && unit < 0xe000) {
		code = 0xfffd;
	}
	if (code >= 0xd800 && code < 0xdc00) {
		w->high = code;
	} else if (code < 0x80) {
		w->name.text[at++] = code;
	} else if (code < 0x800) {
		w->name.text[at++] = 0xc0 | code >> 6;
		w->name.text[at++] = 0x80 | (code & 0x3f);
	} else if (code < 0x10000) {
		w->name.text[at++] = 0xe0 | code >> 12;
		w->name.text[at++] = 0x80 | (code >> 6 & 0x3f);
		w->name.text[at++] = 0x80 | (code & 0x3f);
	} else {
		w->name.text[at++] = 0xf0 | (code >> 18 & 7);
		w->name.text[at++] = 0x80 | (code >> 12 & 0x3f);
		w->name.text[at++] = 0x80 | (code >> 6 & 0x3f);
		w->name.text[at++] = 0x80 | (code & 0x3f);
	}
	w->name.length = at;
	return 0;
}

/* Adds the units of a flat string at address to the text. */
static __always_inline void append_flat(struct walk *w, u64 address, u64 units, bool one_byte)
{
	u64 bytes;

	if (units > MAX_UNITS) {
		units = MAX_UNITS;
		w->name.flags |= NAME_TRUNCATED;
	}
	bytes = one_byte ? units : 2 * units;
	mask_index(bytes, sizeof(w->raw) - 1);
	if (!read_user(w->raw, bytes, address)) {
		w->name.flags |= NAME_PARTIAL;
		return;
	}
	for (u32 i = 0; i < MAX_UNITS; i++) {
		if (i >= units)
			break;
		if (append_unit(w, one_byte ? ((u8 *)w->raw)[i] : w->raw[i]))
			break;
	}
}

static __always_inline void push_piece(struct walk *w, u64 string, u64 offset, u64 length)
{
	u64 at = w->piece_count;

	if (at >= MAX_PIECES) {
		w->name.flags |= NAME_PARTIAL;
		return;
	}
	mask_index(at, MAX_PIECES - 1);
	w->pieces[at].string = string;
	w->pieces[at].offset = offset;
	w->pieces[at].length = length;
	w->piece_count = at + 1;
}

/* src/objects/instance-type.h: representation and encoding bits of a string's type */
enum {
	STRING_SEQUENTIAL = 0, STRING_CONS = 1, STRING_EXTERNAL = 2, STRING_SLICED = 3, STRING_THIN = 5,
	STRING_SHAPE_MASK = 7, STRING_ONE_BYTE = 8, STRING_UNCACHED = 16,
};

struct string {
	u64 map;
	u32 hash;
	u32 length; /* units */
};

/* Takes the last piece and adds its text, or puts its parts in its place; true when none is left. */
__noinline int append_piece(struct walk *w)
{
	u64 at, parts[2], offset, length;
	struct string s;
	int type;

	if (!w)
		return 1;
	at = w->piece_count - 1;
	if (at >= MAX_PIECES)
		return 1;
	mask_index(at, MAX_PIECES - 1);
	w->piece_count = at;
	parts[0] = w->pieces[at].string;
	offset = w->pieces[at].offset;
	length = w->pieces[at].length;
	type = read_object(w, &parts[0], &s, sizeof(s));
	if (!is_string(w, type)) {
		w->name.flags |= NAME_PARTIAL;
		return 0;
	}
	at = parts[0] - 1 + sizeof(s);
	if (offset > s.length)
		offset = s.length;
	if (length > s.length - offset)
		length = s.length - offset;
	if (!length)
		return 0;
	if ((type & STRING_SHAPE_MASK) == STRING_SEQUENTIAL) {
		append_flat(w, at + (type & STRING_ONE_BYTE ? offset : 2 * offset), length,
			    type & STRING_ONE_BYTE);
		return 0;
	}
	if (!read_user(parts, type & (STRING_THIN & ~1) ? 8 : 16, at)) {
		w->name.flags |= NAME_PARTIAL;
		return 0;
	}
	switch (type & STRING_SHAPE_MASK) {
	case STRING_CONS: /* both parts in full: slices are of flat strings only */
		push_piece(w, parts[1], 0, length);
		push_piece(w, parts[0], 0, length);
		break;
	case STRING_SLICED:
		push_piece(w, parts[0], (u32)smi_value(parts[1]) + offset, length);
		break;
	case STRING_THIN:
		push_piece(w, parts[0], offset, length);
		break;
	case STRING_EXTERNAL:
		if (type & STRING_UNCACHED)
			w->name.flags |= NAME_PARTIAL;
		else
			append_flat(w, parts[1] + (type & STRING_ONE_BYTE ? offset : 2 * offset),
				    length, type & STRING_ONE_BYTE);
		break;
	default:
		w->name.flags |= NAME_PARTIAL;
	}
	return 0;
}

/* Reads the string into the text, up to limit bytes. */
__noinline int read_text(struct walk *w, u64 string, u32 limit)
{
	if (!w)
		return 0;
	w->name.length = 0;
	w->name.flags &= ~(NAME_TRUNCATED | NAME_PARTIAL);
	w->limit = limit;
	w->high = 0;
	w->piece_count = 0;
	push_piece(w, string, 0, ~0u);
	for (u32 i = 0; i < MAX_STRING_STEPS; i++) {
		if (append_piece(w))
			break;
	}
	if (w->piece_count)
		w->name.flags |= NAME_PARTIAL;
	if (w->high)
		append_unit(w, 0xfffd);
	return 0;
}

/* Hash of the text, the thread, the script and the position: the function's identity. */
static __always_inline u64 identity(struct walk *w)
{
	u64 at = w->name.length, hash = mix(w->ids, (u64)(u32)w->name.script << 32 | (u32)w->name.start);

	for (u32 i = 0; i < 8; i++) { /* the last word's rest */
		u64 zero = at + i;

		mask_index(zero, 2 * TEXT_BYTES - 1);
		w->name.text[zero] = 0;
	}
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
	w->name.ids = w->ids;
	if (bytes > __builtin_offsetof(struct name, text) + TEXT_BYTES)
		return false; /* cannot happen; tells the verifier so */
	if (bpf_ringbuf_output(&events, &w->name, bytes, 0)) {
		count(lost_events);
		return false;
	}
	return true;
}

/* Functions */

/* What a ScopeInfo says of its function; name and inferred are tagged, or 0. */
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

static __always_inline bool read_scope(struct walk *w, u64 object, struct scope *scope)
{
	const struct layout *l = &w->process.layout;
	u64 words[5], tail[4] = {}, flags, type, locals, at, base = object - 1 + 8;
	u32 named, inferred, positions;

	if (!read_user(words, sizeof(words), base))
		return false;
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
	if (named + inferred + positions && !read_user(tail, 8 * (named + inferred + positions), base + 8 * at))
		return false;
	scope->name = named ? tail[0] : 0;
	scope->inferred = inferred ? (named ? tail[2] : tail[0]) : 0;
	scope->start = -1;
	if (l->scope_positions)
		scope->start = smi_value(words[SCOPE_START_WORD]);
	else if (positions)
		scope->start = smi_value(named + inferred == 0 ? tail[0] : named + inferred == 1 ? tail[1] :
					 named + inferred == 2 ? tail[2] : tail[3]);
	return true;
}

/* The function's own property "name", where it is a value and not the accessor that functions are
 * born with: a computed key, or a name that the program set. Tagged, or 0. Looked for among the
 * first properties only; not in a dictionary.
 */
#define NAME_CHARACTERS 0x656d616e /* "name" */

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

__noinline u64 own_name(struct walk *w)
{
	const struct layout *l;
	u64 count, flags, key[3], name, details;

	if (!w)
		return 0;
	l = &w->process.layout;
	if (!read_user(w->map, MAP_BYTES, w->object[0] - 1))
		return 0;
	flags = *(u32 *)((u8 *)w->map + (l->map_bit_field3 & 60));
	count = flags >> l->descriptor_shift & 1023;
	if (flags >> l->dictionary_bit & 1)
		return 0;
	if (count > MAX_DESCRIPTORS)
		count = MAX_DESCRIPTORS;
	if (!read_user(w->descriptors, count * sizeof(w->descriptors[0]),
		       field(w->map, l->map_descriptors & 56) - 1 + l->descriptors_header))
		return 0;
	for (u32 i = 0; i < MAX_DESCRIPTORS; i++) {
		if (i >= count)
			break;
		details = (u32)smi_value(w->descriptors[i].details);
		if (details & 1) /* an accessor */
			continue;
		if (!read_user(key, 20, w->descriptors[i].key - 1) || key[1] >> 32 != 4 ||
		    (u32)key[2] != NAME_CHARACTERS)
			continue;
		name = property_value(w, details, w->descriptors[i].value);
		return is_string(w, type_of(w, &name)) ? name : 0;
	}
	return 0;
}

/* The machine code that the function runs when it is called: where it is and which tier's. */
__noinline int read_code(struct walk *w)
{
	u64 code, table, handle;
	const struct layout *l;

	if (!w)
		return 0;
	l = &w->process.layout;
	w->code_size = 0;
	if (!read_user(&code, 8, w->function - 1 + l->function_code))
		return 0;
	if (l->dispatch_handle) {
		handle = (u32)code >> 8;
		table = w->process.dispatch_base;
		if (!table && !(l->dispatch_table && w->isolate &&
				read_user(&table, 8, w->isolate + l->dispatch_table)))
			return 0;
		if (!read_user(&code, 8, table + 16 * handle + 8))
			return 0;
		code = code >> 16 | 1;
	}
	if (read_object(w, &code, w->object, CODE_BYTES) != l->code)
		return 0;
	w->code_start = l->code_start_pointer ? field(w->object, l->code_start) : code - 1 + l->code_start;
	w->code_size = *(u32 *)((u8 *)w->object + (l->code_size & 60));
	handle = *(u32 *)((u8 *)w->object + (l->code_flags & 60)) & l->code_kind_mask;
	w->tier = handle == l->kind_turbofan ? TIER_TURBOFAN :
		  handle == l->kind_baseline ? TIER_BASELINE :
		  l->kind_maglev && handle == l->kind_maglev ? TIER_MAGLEV : TIER_NONE;
	return 0;
}

/* Reads the script's name and tells user space of it. */
static __always_inline void send_script(struct walk *w, u64 script)
{
	const struct layout *l = &w->process.layout;
	struct script_key key = { .ids = w->ids, .script = w->name.script };
	u64 name = field(w->script, l->script_name);
	u8 sent = 1;

	if (bpf_map_lookup_elem(&scripts, &key))
		return;
	if (!is_string(w, type_of(w, &name)))
		name = field(w->script, l->script_source_url);
	w->name.flags = 0;
	read_text(w, name, TEXT_BYTES);
	if (w->name.flags & NAME_PARTIAL)
		w->name.length = 0; /* no name, or none that can be read */
	w->name.id = script;
	w->name.start = 0;
	if (send_name(w, EVENT_SCRIPT))
		bpf_map_update_elem(&scripts, &key, &sent, BPF_ANY);
}

static __always_inline void send_function(struct walk *w)
{
	u64 id = w->id;
	u8 sent = 1;

	if (bpf_map_lookup_elem(&names, &id))
		return;
	w->name.id = id;
	if (send_name(w, EVENT_FUNCTION))
		bpf_map_update_elem(&names, &id, &sent, BPF_ANY);
}

/* The name that V8 itself would print (JSFunction::GetDebugName): the function's own property, the
 * shared name, or the one inferred from the source. Tagged, or 0.
 */
static __always_inline u64 choose_name(struct walk *w, u64 shared, u64 inferred)
{
	u64 name = own_name(w);

	if (name)
		return name;
	if (is_string(w, type_of(w, &shared)) && string_length(shared))
		return shared;
	if (!is_string(w, type_of(w, &inferred)))
		return 0;
	w->name.flags |= NAME_INFERRED;
	return inferred;
}

/* The Script of a SharedFunctionInfo, read into w->script; 0 if it has none. */
static __always_inline u64 read_script(struct walk *w, u64 script)
{
	const struct layout *l = &w->process.layout;
	int type = read_object(w, &script, w->script, 40);

	if (l->debug_info && type == l->debug_info) {
		script = field(w->script, l->debug_info_script);
		type = type_of(w, &script);
	}
	if (type != l->script || read_object(w, &script, w->script, SCRIPT_BYTES) != l->script)
		return 0;
	return script;
}

/* Reads the function at w->function, tells user space of it if it is new, and sets id, is_builtin
 * and complete; id is 0 if it is no function.
 */
__noinline int read_function(struct walk *w)
{
	struct scope scope = { .start = -1 };
	u64 shared, script, info, name;
	const struct layout *l;
	int type;

	if (!w)
		return 0;
	l = &w->process.layout;
	w->id = 0;
	w->complete = 0;
	type = read_object(w, &w->function, w->object, FUNCTION_BYTES);
	if (type < l->first_js_function || type > l->last_js_function)
		return 0;
	shared = field(w->object, l->function_shared);
	if (read_object(w, &shared, w->script, SHARED_BYTES) != l->shared_function_info)
		return 0;
	info = field(w->script, l->shared_name);
	script = field(w->script, l->shared_script);
	type = type_of(w, &info);
	if (type == l->scope_info) {
		if (!read_scope(w, info, &scope))
			return 0;
	} else if (is_string(w, type)) {
		scope.name = info;
	} else if (!is_smi(info)) {
		return 0;
	}
	script = read_script(w, script);
	w->is_builtin = !script;
	w->name.flags = 0;
	w->name.length = 0;
	w->name.script = script ? smi_value(field(w->script, l->script_id)) : 0;
	w->name.start = script ? scope.start : -1;
	name = choose_name(w, scope.name, scope.inferred);
	if (name)
		read_text(w, name, NAME_BYTES);
	w->complete = !(w->name.flags & NAME_PARTIAL);
	w->id = identity(w);
	send_function(w);
	if (script)
		send_script(w, script);
	return 0;
}

/* Keeps what was read of the function until the next collection. */
static __always_inline void remember(struct walk *w)
{
	struct function_key key = { .ids = w->ids, .function = w->function };
	struct function_value value = {
		.epoch = w->epoch,
		.id = w->id,
		.code_start = w->code_start,
		.code_size = w->code_size,
		.tier = w->tier,
		.is_builtin = w->is_builtin,
	};

	if (w->epoch && w->complete)
		bpf_map_update_elem(&functions, &key, &value, BPF_ANY);
}

/* Names the function at w->function: from what is remembered of it, or afresh. False if it is no
 * function.
 */
__noinline int name_function(struct walk *w)
{
	struct function_key key = {};
	struct function_value *known;

	if (!w)
		return false;
	key.ids = w->ids;
	key.function = w->function;
	known = w->epoch ? bpf_map_lookup_elem(&functions, &key) : 0;
	if (known && known->epoch == w->epoch) {
		w->id = known->id;
		w->code_start = known->code_start;
		w->code_size = known->code_size;
		w->tier = known->tier;
		w->is_builtin = known->is_builtin;
		w->complete = 1;
		return true;
	}
	read_function(w);
	if (!w->id)
		return false;
	read_code(w);
	remember(w);
	return true;
}

#define runs_at(w, pc) ((pc) - (w)->code_start < (w)->code_size)

/* The tier of the code at pc, on whose behalf the frame at fp is. A loop that was entered in the
 * middle (OSR) runs code that the function does not refer to: then only the frame's slots tell
 * Sparkplug's code, which keeps the interpreter's frame but for the bytecode offset, from others.
 */
static __always_inline u32 tier_at(struct walk *w, u64 pc, u32 code)
{
	const struct layout *l = &w->process.layout;
	u64 bytecodes, head[2];

	if (w->is_builtin)
		return TIER_NONE;
	if (code == CODE_BUILTIN)
		return TIER_INTERPRETED;
	if (runs_at(w, pc))
		return w->tier;
	read_code(w);
	if (runs_at(w, pc)) { /* compiled anew since it was remembered */
		remember(w);
		return w->tier;
	}
	bytecodes = word(w, w->fp + l->fp_bytecode_array);
	if (is_heap_object(word(w, w->fp + l->fp_bytecode_offset)) &&
	    read_object(w, &bytecodes, head, sizeof(head)) == l->bytecode_array)
		return TIER_BASELINE;
	return TIER_OPTIMIZED;
}

#define push_function(w, tier) push(w, frame_of(FRAME_JS, (u64)(tier) << 56 | (w)->id))

/* The thread's isolate: from thread-local storage where the binary says where, else from V8's root
 * register, now or when it was last seen.
 */
static __always_inline void find_isolate(struct walk *w, struct task_struct *task)
{
	u64 *seen;

	w->isolate = 0;
	if (w->process.tls_isolate &&
	    read_user(&w->isolate, 8, thread_pointer(task) + w->process.tls_isolate))
		return;
	if (w->code == CODE_BUILTIN || w->code == CODE_JIT) {
		w->isolate = w->root - ROOT_BIAS;
		bpf_map_update_elem(&isolates, &w->ids, &w->isolate, BPF_ANY);
		return;
	}
	seen = bpf_map_lookup_elem(&isolates, &w->ids);
	if (seen)
		w->isolate = *seen;
}

/* What must be known of V8 before its frames are: is a collection under way, how many were there,
 * and where did the thread leave JavaScript.
 */
static __always_inline void begin_v8(struct walk *w, struct task_struct *task)
{
	const struct layout *l = &w->process.layout;
	u32 state, collections;

	find_isolate(w, task);
	if (!w->isolate)
		return;
	if (l->gc_count && read_user(&state, 4, w->isolate + l->gc_state) && !state &&
	    read_user(&collections, 4, w->isolate + l->gc_count))
		w->epoch = (w->isolate << 20) + collections + 1;
	if (l->c_entry_fp && w->code == CODE_NATIVE)
		read_user(&w->exit_fp, 8, w->isolate + l->c_entry_fp);
}

#endif
