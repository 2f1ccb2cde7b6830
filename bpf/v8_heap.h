/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * V8's heap: its objects and the text of its strings, by bounded reads.
 *
 * Any object may be half made, moved or gone: a read that fails says so, a type that is wrong ends
 * the matter, and an object that the collector has moved is followed to its new place.
 */
#ifndef USTACK_V8_HEAP_H
#define USTACK_V8_HEAP_H

#include "walk.h"

#define MAX_STRING_STEPS 48 /* pieces of a name */
#define MAX_UNITS 512       /* of a piece */

#define is_heap_object(word) (((word)&3) == 1)
#define is_smi(word) (((word)&0xffffffff) == 0)
#define smi_value(word) ((s32)((word) >> 32))
#define field(object, offset) (*(u64 *)((u8 *)(object) + ((offset)&127 & ~7)))
#define half(object, offset) (*(u32 *)((u8 *)(object) + ((offset)&124)))

/* How much of each object is read: up to the last field in use, never past the smallest object's
 * end, which may be the end of what is mapped.
 */
#define MAP_BYTES 48
#define FUNCTION_BYTES 56
#define SCRIPT_BYTES 120
#define CODE_BYTES 64

#define TYPE_MASK 0x7fff
#define TYPE_PLAIN 0x8000 /* functions of this map have no property "name" of their own */

/* Where the map's type is cached. */
static __always_inline u64 *type_place(struct walk *w, u64 map)
{
	u64 at = (map >> 3) * 0x9e3779b97f4a7c15ull >> 59; /* 2^64 / golden ratio */

	mask_index(at, MAX_TYPES - 1);
	return &w->types[at];
}

/* The instance type of the map's objects; -1 if it is none. Maps are few. */
static __always_inline int type_by(struct walk *w, u64 map)
{
	u64 *place = type_place(w, map);
	u16 type;

	if (!is_heap_object(map))
		return -1;
	if (*place >> 16 == map)
		return *place & TYPE_MASK;
	if (!read_user(&type, sizeof(type), map - 1 + w->process.layout.map_instance_type))
		return -1;
	*place = map << 16 | (type & TYPE_MASK);
	return type & TYPE_MASK;
}

/* Forgets the types of a time when maps may have been elsewhere. */
static __always_inline void forget_types(struct walk *w)
{
	if (w->settled && w->types_epoch == w->epoch)
		return;
	for (u32 i = 0; i < MAX_TYPES; i++)
		w->types[i] = 0;
	w->types_epoch = w->settled ? w->epoch : 0;
}

/* The first bytes of *object, and its instance type; -1 if it is none. An object that the
 * collector has moved says where to in its map word: *object is then its new place. Newer V8s say
 * so before they copy the rest (Scavenger::MigrateObject), and the old place keeps it until the
 * collection ends: the bytes after the map are from there.
 */
static __always_inline int read_object(struct walk *w, u64 *object, void *to, u32 bytes)
{
	u64 map;

	if (!is_heap_object(*object) || !read_user(to, bytes, *object - 1))
		return -1;
	map = *(u64 *)to;
	if (!(map & 1)) {
		*object = map | 1;
		if (!read_user(to, sizeof(map), map))
			return -1;
		map = *(u64 *)to;
	}
	return type_by(w, map);
}

#define is_string(w, type) ((type) >= 0 && (type) < (w)->process.layout.first_nonstring)

/* Strings */

#define STRING_BYTES 16 /* map, hash, length in UTF-16 units */
#define string_length(w) ((u32)((w)->head[1] >> 32))

/* Reads the first bytes of what may be a string into head, its place into head_of, and returns its
 * type. Most names are read whole by this.
 */
__noinline int read_head(struct walk *w, u64 string)
{
	if (!w)
		return -1;
	if (w->head_of == string)
		return w->head_type;
	w->head_of = string;
	w->head_bytes = HEAD_BYTES;
	w->head_type = read_object(w, &w->head_of, w->head, HEAD_BYTES);
	if (w->head_type < 0) { /* it may be the last of what is mapped */
		w->head_bytes = STRING_BYTES;
		w->head_type = read_object(w, &w->head_of, w->head, STRING_BYTES);
	}
	if (w->head_of == string)
		return w->head_type;
	/* the collector may have replaced one that refers to another by that */
	if (!read_user(
	        w->head, w->head_bytes < HEAD_BYTES ? STRING_BYTES : HEAD_BYTES, w->head_of - 1))
		w->head_type = -1;
	return w->head_type;
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

/* Takes the text from head, if it is all there and all ASCII. */
static __always_inline bool take_ascii(struct walk *w, u64 units)
{
	u64 word, rest;

	if (w->name.length || w->high || units > w->head_bytes - STRING_BYTES)
		return false;
	for (u32 i = 0; i < (HEAD_BYTES - STRING_BYTES) / 8; i++) {
		if (8 * i >= units)
			break;
		word = w->head[2 + i];
		rest = units - 8 * i;
		if (rest < 8)
			word &= (1ull << 8 * rest) - 1;
		if (word & 0x8080808080808080ull)
			return false;
		((u64 *)w->name.text)[i] = word;
	}
	w->name.length = units;
	return true;
}

/* Adds the units, of width bytes, of a flat string at address to the text. The verifier follows
 * each round of the loop: so this is apart from its callers, and has no branch for the width.
 */
__noinline int append_flat(struct walk *w, u64 address, u64 units, u32 width)
{
	u32 high = width == 2 ? 0xff00 : 0; /* bits of a unit that the text has */
	const u8 *text;
	u64 bytes, at;

	if (!w)
		return 0;
	if (units > MAX_UNITS) {
		units = MAX_UNITS;
		w->name.flags |= NAME_TRUNCATED;
	}
	bytes = units * width;
	mask_index(bytes, sizeof(w->raw) - 1);
	if (!read_user(w->raw, bytes, address)) {
		w->name.flags |= NAME_PARTIAL;
		return 0;
	}
	for (u32 i = 0; i < MAX_UNITS; i++) {
		if (i >= units)
			break;
		at = i * width;
		mask_index(at, 2 * MAX_UNITS - 1);
		text = (const u8 *)w->raw + at;
		if (append_unit(w, text[0] | (text[1] << 8 & high)))
			break;
	}
	return 0;
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
	STRING_SEQUENTIAL = 0,
	STRING_CONS = 1,
	STRING_EXTERNAL = 2,
	STRING_SLICED = 3,
	STRING_THIN = 5,
	STRING_SHAPE_MASK = 7,
	STRING_ONE_BYTE = 8,
	STRING_UNCACHED = 16,
};

/* Where the characters of the external string in head are; 0: not known. */
static __always_inline u64 external_data(struct walk *w, int type)
{
	u64 words[2] = {}; /* the resource, and the characters unless it is uncached */
	u64 data = 0;

	if (!read_user(words, type & STRING_UNCACHED ? 8 : 16, w->head_of - 1 + STRING_BYTES))
		return 0;
	if (!(type & STRING_UNCACHED))
		return words[1];
	if (!w->process.layout.external_data ||
	    !read_user(&data, 8, words[0] + w->process.layout.external_data))
		return 0;
	return data;
}

/* Takes the last piece and adds its text, or puts its parts in its place; true when none is left. */
__noinline int append_piece(struct walk *w)
{
	u64 at, string, offset, length, first, second;
	u32 units, width;
	int type;

	if (!w)
		return 1;
	at = w->piece_count - 1;
	if (at >= MAX_PIECES)
		return 1;
	mask_index(at, MAX_PIECES - 1);
	w->piece_count = at;
	string = w->pieces[at].string;
	offset = w->pieces[at].offset;
	length = w->pieces[at].length;
	type = read_head(w, string);
	if (!is_string(w, type)) {
		w->name.flags |= NAME_PARTIAL;
		return 0;
	}
	at = w->head_of - 1 + STRING_BYTES;
	width = type & STRING_ONE_BYTE ? 1 : 2;
	units = string_length(w);
	if (offset > units)
		offset = units;
	if (length > units - offset)
		length = units - offset;
	if (!length)
		return 0;
	if ((type & STRING_SHAPE_MASK) == STRING_SEQUENTIAL) {
		if (!offset && type & STRING_ONE_BYTE && take_ascii(w, length))
			return 0;
		append_flat(w, at + width * offset, length, width);
		return 0;
	}
	if (w->head_bytes < HEAD_BYTES &&
	    !read_user(w->head + 2, type & (STRING_THIN & ~1) ? 8 : 16, at)) {
		w->name.flags |= NAME_PARTIAL;
		return 0;
	}
	first = w->head[2];
	second = w->head[3];
	switch (type & STRING_SHAPE_MASK) {
	case STRING_CONS: /* both parts in full: slices are of flat strings only */
		push_piece(w, second, 0, length);
		push_piece(w, first, 0, length);
		break;
	case STRING_SLICED:
		push_piece(w, first, (u32)smi_value(second) + offset, length);
		break;
	case STRING_THIN:
		push_piece(w, first, offset, length);
		break;
	case STRING_EXTERNAL:
		first = external_data(w, type);
		if (first)
			append_flat(w, first + width * offset, length, width);
		else
			w->name.flags |= NAME_PARTIAL;
		break;
	default:
		w->name.flags |= NAME_PARTIAL;
	}
	return 0;
}

/* Reads the string from a unit on into the text, up to limit bytes. */
__noinline int read_text(struct walk *w, u64 string, u32 from, u32 limit)
{
	if (!w)
		return 0;
	w->name.length = 0;
	w->name.flags &= ~(NAME_TRUNCATED | NAME_PARTIAL);
	w->limit = limit;
	w->high = 0;
	w->piece_count = 0;
	push_piece(w, string, from, ~0u);
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

#endif
