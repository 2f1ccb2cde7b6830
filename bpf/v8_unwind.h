/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * The ustack helper: a frame of V8 -> JSFunction -> SharedFunctionInfo -> name, script, position;
 * and from the frame to its caller.
 *
 * All offsets come from struct layout; no version of V8 is known here. A name is read by V8's own
 * rules at the moment of the event and sent to user space once per content. Any map word may be a
 * forwarding address during a collection.
 */
#ifndef USTACK_V8_UNWIND_H
#define USTACK_V8_UNWIND_H

#include "unwind.h"
#include "v8_cache.h"

#define MAX_SLOT 48             /* bytes below the frame pointer that are read */
#define MAX_HANDLER (4 << 10)   /* bytes of one of the interpreter's handlers */
#define MAX_BYTECODES (8 << 20) /* bytes of one function's */
#define MAX_BYTECODES_HEAD 64   /* of a BytecodeArray, before the bytecodes */
#define BYTECODES_LENGTH 8      /* in a BytecodeArray: Smi */

/* A frame of V8's glue: the marker says its type. A C++ builtin's exit frame holds its function. */
static __always_inline void push_typed(struct walk *w, u64 type)
{
	const struct layout *l = &w->process.layout;

	if (type == l->frame_regexp) {
		if (push_regexp(w))
			return;
		count_failure(FAILURE_REGEXP);
	}
	push(w, frame_of(FRAME_TYPED, type << FRAME_PC_BITS | (w->pc & PC_MASK)));
	if (type == l->frame_wasm)
		note_wasm(w, word(w, w->fp + l->fp_function));
	if (type != l->frame_builtin_exit || !l->builtin_exit_function)
		return;
	if (read_user(&w->function, 8, w->fp + l->builtin_exit_function) && name_function(w))
		push_function(w, TIER_NONE, 0);
}

/* The innermost function while its code is still building its frame: the callee register has it. */
static __always_inline bool push_callee(struct walk *w)
{
	w->function = w->callee;
	if (!is_heap_object(w->function) || !name_function(w) || !runs_at(w, w->pc) ||
	    w->pc - w->code_start > MAX_PROLOGUE)
		return false;
	push_function(w,
	    w->is_builtin               ? TIER_NONE :
	        w->code == CODE_BUILTIN ? TIER_INTERPRETED :
	                                  w->tier,
	    w->is_builtin || w->code == CODE_BUILTIN ?
	        0 :
	        code_position(w->check, w->pc - w->code_start));
	return true;
}

/* Whether the innermost pc is in the builtin that builds the frame of Sparkplug's code, before the
 * function's return address is on top of that frame again.
 */
static __always_inline bool is_building(struct walk *w)
{
	const struct range *builtins = &w->recent[CODE_BUILTIN];
	const struct layout *l = &w->process.layout;

	return w->leaf && w->code == CODE_BUILTIN && l->builder && is_within(builtins, w->pc) &&
	    w->pc - builtins->start - l->builder <= l->builder_returns_to;
}

/* Moves to the caller of the function whose frame the builtin at pc builds. The callee register has
 * the function: its slot in the frame may not be written yet. Until the frame pointer is set, the
 * return address is on top of the stack, under one word more before and after push %rbp.
 */
static __always_inline int leave_building(struct walk *w)
{
	const struct layout *l = &w->process.layout;
	s64 built = w->pc - w->recent[CODE_BUILTIN].start - l->builder - l->builder_saves_fp;
	u64 slot = built ? w->sp + 8 : w->sp;
	u64 frame = frame_of(FRAME_LOST, w->pc & PC_MASK), position = 0, pc;

	push(w, frame_of(FRAME_CODE, w->pc & PC_MASK));
	w->function = w->callee;
	if (is_heap_object(w->function) && name_function(w)) {
		frame = frame_of(FRAME_JS, (u64)TIER_BASELINE << FRAME_ID_BITS | w->id);
		if (w->tier == TIER_BASELINE)
			position = code_position(w->check, 0);
	} else {
		count_failure(FAILURE_FUNCTION);
	}
	push_at(w, frame, position);
	if (built >= BUILDER_BUILT) {
		slot = w->fp + 8;
		w->reached = w->fp;
		w->fp = word(w, w->fp);
	}
	if (!read_user(&pc, sizeof(pc), slot)) {
		count_failure(FAILURE_STACK);
		w->stack.flags |= STACK_BROKEN;
		return DONE;
	}
	w->sp = sp_above(slot - 8);
	return_to(w, pc, slot);
	return CONTINUE;
}

/* Where the innermost code, which has no frame of its own, returns to: in the link register, on top of
 * the stack, or under the frame pointer that was just saved.
 */
static __always_inline void find_return(struct walk *w)
{
	u64 words[3];

	w->pc = 0;
	w->code = CODE_BUILTIN;
	words[0] = w->link;
	if (!read_user(words + 1, 16, w->sp))
		return;
	for (u32 i = !HAS_LINK; i < 3; i++) {
		u64 pc = code_address(words[i]);
		u32 code = code_at(w, pc - 1);

		if (code == CODE_JIT || code == CODE_BUILTIN) {
			w->pc = pc;
			w->returned = 1;
			w->code = code;
			return;
		}
	}
}

/* The frame is not V8's after all. The innermost pc is valid still, any other may not be. */
static __always_inline int give_up(struct walk *w)
{
	if (!w->leaf)
		return leap(w);
	push(w, frame_of(w->code == CODE_UNKNOWN ? FRAME_NATIVE : FRAME_CODE, w->pc & PC_MASK));
	return climb(w);
}

/* Whether a function that has a frame runs bytecode: it does if it has no code of its own. Code that
 * was compiled after the call says nothing.
 */
#define is_interpreted(w) ((w)->code_size && (w)->tier == TIER_NONE)

/* Whether the innermost pc is in a handler of the interpreter's. */
static __always_inline bool is_in_handler(struct walk *w)
{
	const struct range *builtins = &w->recent[CODE_BUILTIN];
	u32 handlers = w->process.layout.handlers;

	return handlers && w->code == CODE_BUILTIN && is_within(builtins, w->pc) &&
	    w->pc - builtins->start >= handlers;
}

/* Whether handler_pc is in the handler of the bytecode at an offset in array. A prefix before it, 0 or 1,
 * widens its operands: then it has another handler.
 */
static __always_inline bool handles(struct walk *w, u64 array, u64 offset)
{
	u8 bytes[2];
	u64 handler;

	if (offset >= MAX_BYTECODES || !read_user(bytes, sizeof(bytes), array + offset - 1))
		return false;
	if (read_user(&handler, 8, w->handlers + 8 * (u64)bytes[1]) &&
	    w->handler_pc - handler < MAX_HANDLER)
		return true;
	return bytes[0] < 2 &&
	    read_user(&handler, 8, w->handlers + 8 * (256 * (bytes[0] + 1ull) + bytes[1])) &&
	    w->handler_pc - handler < MAX_HANDLER;
}

/* Where the interpreted function is that the frame at fp is of, while its bytecode's handler runs.
 * The frame has the bytecode that last called a function; the current one is in a register, until
 * the handler needs that for something else, or has put the next bytecode there at its end.
 */
__noinline u64 handler_position(struct walk *w)
{
	const struct layout *l;
	u64 array, length, slot, offset;

	if (!w)
		return 0;
	l = &w->process.layout;
	array = word(w, w->fp + l->fp_bytecode_array);
	slot = (u32)smi_value(word(w, w->fp + l->fp_bytecode_offset));
	offset = w->bytecode_offset;
	if (handles(w, array, offset))
		return position_of(POSITION_BYTECODE, offset);
	if (w->bytecodes == array && read_user(&length, 8, array - 1 + BYTECODES_LENGTH) &&
	    offset < (u32)smi_value(length) + MAX_BYTECODES_HEAD)
		return position_of(POSITION_BYTECODE, offset);
	if (handles(w, array, slot))
		return position_of(POSITION_BYTECODE, slot);
	count_failure(FAILURE_POSITION);
	return 0;
}

/* A frame whose code is V8's or may be, at fp. */
static __always_inline int step_v8(struct walk *w)
{
	const struct layout *l = &w->process.layout;
	u64 marker, fp = w->fp;
	u32 tier, leaf = w->leaf;

	if (fp & 7)
		return give_up(w);
	if (!see(w, fp - 48, fp + 16)) {
		count_failure(FAILURE_STACK);
		return give_up(w);
	}
	if (is_building(w))
		return leave_building(w);
	if (leaf && is_in_handler(w))
		w->handler_pc = w->pc;
	if (leaf && w->code != CODE_UNKNOWN &&
	    w->sp > fp + l->fp_function) { /* the slots below sp are not written yet */
		if (!push_callee(w))
			push(w, frame_of(FRAME_CODE, w->pc & PC_MASK));
		return climb(w);
	}
	if (hides_regexps(w) && w->code == CODE_JIT && push_regexp(w))
		return climb(w);
	marker = word(w, fp + l->fp_context);
	if (!(marker & 1)) {
		/* builtins that V8 has just mapped again are not described yet: the marker is enough */
		if (w->code == CODE_UNKNOWN &&
		    (leaf || w->exit_fp || !marker || marker >> 1 >= 256))
			return give_up(w);
		if (marker >> 1 < 256) {
			push_typed(w, marker >> 1);
		} else {
			count_failure(FAILURE_FRAME_TYPE);
			push(w, frame_of(FRAME_CODE, w->pc & PC_MASK));
		}
		return climb(w);
	}
	w->function = word(w, fp + l->fp_function);
	w->failure = FAILURE_FUNCTION;
	if (!is_heap_object(w->function) || !name_function(w)) {
		if (!l->frame_regexp && push_regexp(w))
			return climb(w);
		if (w->code == CODE_UNKNOWN)
			return give_up(w);
		count_failure(l->gc_count && !w->epoch ? FAILURE_COLLECTION : w->failure);
		push(w, frame_of(FRAME_LOST, w->pc & PC_MASK));
		return climb(w);
	}
	w->met_v8 = 1;
	if (w->handler_pc && !w->is_builtin) {
		if (leaf)
			push(w, frame_of(FRAME_CODE, w->pc & PC_MASK));
		push_function(w, TIER_INTERPRETED, handler_position(w));
		w->handler_pc = 0;
		return climb(w);
	}
	if (leaf && w->code == CODE_JIT && !runs_at(w, w->pc)) {
		if (push_callee(w)) /* the frame at fp is still the caller's */
			find_return(w);
		w->function = word(w, fp + l->fp_function);
		if (!name_function(w))
			return climb(w);
	} else if (leaf && w->code == CODE_BUILTIN && !w->is_builtin) {
		push(w, frame_of(FRAME_CODE, w->pc & PC_MASK)); /* a handler, or a stub it calls */
		find_return(w);
		if (w->code == CODE_BUILTIN) {
			tier = is_interpreted(w) ? TIER_INTERPRETED : TIER_NONE;
			push_function(w, tier, position_at(w, tier));
			return climb(w);
		}
	}
	tier = tier_at(w, w->pc, w->code);
	push_function(w, tier, position_at(w, tier));
	return climb(w);
}

/* Native code that JavaScript called directly and that has no frame: the frame at fp is V8's. In other
 * native code the top of the stack may look like a return address, and registers that the caller
 * saved like a frame of V8; but only V8's code calls V8's functions.
 */
static __always_inline bool is_frameless(struct walk *w)
{
	const struct layout *l = &w->process.layout;
	u64 pc = w->link, fp = w->fp;
	u32 code;

	if (fp & 7 || fp <= w->sp || (!HAS_LINK && !read_user(&pc, 8, w->sp)))
		return false;
	code = code_at(w, pc - 1);
	if (code < CODE_BUILTIN)
		return false;
	if (!see(w, fp - 48, fp + 16) || !(word(w, fp + l->fp_context) & 1) ||
	    code_at(w, code_address(word(w, fp + 8)) - 1) < CODE_BUILTIN)
		return false;
	w->function = word(w, fp + l->fp_function);
	if (!is_heap_object(w->function) || !name_function(w))
		return false;
	w->pc = pc;
	w->returned = 1;
	w->code = code;
	return true;
}

/* Unwinds frames of cached functions for as long as nothing is unusual. Most samples spend most of
 * their time here, so what changes is kept in registers.
 */
__noinline int run(struct walk *w)
{
	const struct layout *l;
	u64 fp, pc, hash, count;
	u32 code, returned, passed = 0;

	if (!w)
		return 0;
	l = &w->process.layout;
	fp = w->fp;
	pc = w->pc;
	code = w->code;
	hash = w->stack.hash;
	count = w->stack.count;
	returned = w->returned;
	if (w->handler_pc || (w->leaf && (code != CODE_JIT || w->sp > fp + l->fp_function)))
		return 0; /* its frame is not built yet, or not up to date */
	for (; passed < MAX_RUN && count < MAX_FRAMES; passed++) {
		u64 next, caller, frame, function, offset, position = 0;
		struct known *known;

		if (code < CODE_BUILTIN || fp & 7 || !see(w, fp - MAX_SLOT, fp + 16) ||
		    !(word(w, fp + l->fp_context) & 1))
			break;
		function = word(w, fp + l->fp_function);
		known = recall(w, function);
		next = word(w, fp);
		caller = code_address(word(w, fp + 8));
		if (!known || known->epoch != w->epoch || !caller || next <= fp ||
		    next - fp > MAX_FRAME_BYTES)
			break;
		frame = known->named;
		offset = pc - returned - known->code_start;
		if (code == CODE_JIT && offset >= known->code_size)
			break;
		if (frame & KNOWN_BUILTIN) {
			frame &= ID_MASK;
		} else if (code != CODE_BUILTIN) {
			position = code_position(known->check, offset);
		} else if (builtin_tier(w, fp) == TIER_INTERPRETED) {
			frame = (frame & ID_MASK) | (u64)TIER_INTERPRETED << FRAME_ID_BITS;
			position = bytecode_position(w, fp);
		} else {
			frame = (frame & ID_MASK) | (u64)TIER_BASELINE << FRAME_ID_BITS;
		}
		frame |= (u64)FRAME_JS << FRAME_KIND_SHIFT;
		mask_index(count, MAX_FRAMES - 1);
		w->stack.frames[count].word = frame;
		w->stack.frames[count++].position = position;
		hash = mix_frame(hash, frame, position);
		w->reached = fp;
		fp = next;
		pc = caller;
		code = code_at(w, pc - 1);
		returned = 1;
	}
	if (!passed)
		return 0;
	w->leaf = 0;
	w->sp = 0;
	w->fp = fp;
	w->pc = pc;
	w->returned = 1;
	w->code = code;
	w->stack.hash = hash;
	w->stack.count = count;
	return passed == MAX_RUN;
}

#endif
