/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * Arguments of USDT probes: user space reads in a probe's note where they are, and gives the probe's
 * attach cookie the number of that description.
 */
#ifndef USTACK_USDT_H
#define USTACK_USDT_H

#include "event.h"
#include "regs.h"

#define MAX_USDTS 1024
#define USDT_SHIFT 32 /* of an attach cookie: below the number of the description, the tool's own */

volatile u64 unnumbered = 0; /* probes whose description is not known: there was no room for it */

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_USDTS);
	__type(key, u32);
	__type(value, struct usdt);
} usdts SEC(".maps"); /* where USDT probes have their arguments, by the number in the cookie */

/* The value of a size in bytes that begins at a word's low end. */
static __always_inline u64 resized(u64 word, u32 size, bool is_signed)
{
	u32 unused = 64 - 8 * (size & 7);

	if (!(size & 7))
		return word;
	return is_signed ? (u64)((s64)(word << unused) >> unused) : word << unused >> unused;
}

/* An argument of a USDT probe. */
static __always_inline u64 argument_at(struct pt_regs *ctx, const struct place *at)
{
	u64 value = 0, index = 0;

	if (at->kind == PLACE_CONSTANT)
		return at->offset;
	if (at->kind == PLACE_NONE || bpf_probe_read_kernel(&value, 8, (void *)ctx + at->base))
		return 0;
	if (at->kind == PLACE_MEMORY) {
		if (at->has_index && bpf_probe_read_kernel(&index, 8, (void *)ctx + at->index))
			return 0;
		value += at->offset + index * at->scale;
		if (!read_user(&value, 8, value))
			return 0;
	}
	return resized(value, at->size, at->is_signed);
}

/* Reads the arguments of the probe that is reached; 0 where they are not known. Its description, or
 * null.
 */
static __always_inline struct usdt *usdt_arguments(
    struct pt_regs *ctx, u64 cookie, u64 arguments[MAX_ARGUMENTS])
{
	u32 number = cookie >> USDT_SHIFT;
	struct usdt *usdt = bpf_map_lookup_elem(&usdts, &number);

	if (!usdt)
		count(unnumbered);
	for (u32 i = 0; i < MAX_ARGUMENTS; i++)
		arguments[i] = usdt ? argument_at(ctx, &usdt->arguments[i]) : 0;
	return usdt;
}

/* Whether an argument may be the address of a text: it is as long as one and has no sign. */
static __always_inline bool may_be_text(const struct place *at)
{
	return at->kind != PLACE_NONE && at->size == 8 && !at->is_signed;
}

#endif
