/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * The state of unwinding one user-mode stack, the memory it reads, and the frames it produces.
 *
 * The cost of reading user memory is per call, not per byte, so the stack is read in page-sized
 * windows, from which the frames are then taken. Functions that are not static are verified
 * once, apart from their callers (Linux 5.12 for their pointer argument): that keeps loops over
 * many frames cheap to verify, without bpf_loop (5.17).
 */
#ifndef USTACK_WALK_H
#define USTACK_WALK_H

#include "failure.h"
#include "regs.h"
#include "target.h"

#define MAX_KERNEL_FRAMES 64       /* of these at most */
#define WINDOW_WORDS 512           /* of the stack at a time: 4 KiB */
#define MAX_FRAME_BYTES (16 << 20) /* between two frames; threads' stacks are smaller */
#define NAME_BYTES 512             /* of a function's name */
#define SOURCE_BYTES 128           /* of how a function's source begins */
#define MAX_DESCRIPTORS 6          /* of a function's properties */
#define MAX_PIECES 16              /* of a concatenated string at once */
#define MAX_TYPES 32               /* maps whose type is remembered; a power of two */
#define HEAD_BYTES 96              /* of a string or ScopeInfo, read at once */
#define KNOWN_ROW_BITS 4           /* of how many places' unwind rows are remembered */

struct piece {
	u64 string;
	u64 offset, length; /* the requested part of it, in units */
};

/* The last known state of a thread that runs V8. */
struct thread {
	u64 isolate;
	u64 epoch;
	u64 runs_v8; /* a frame of V8's was on its stack */
};

struct descriptor {
	u64 key, details, value;
};

struct known_row {
	u64 pc; /* of the code; 0: none */
	struct unwind_row row;
};

/* Fields used together are adjacent, because a sample finds the CPU caches cold. */
struct walk {
	struct stack stack;
	u32 taken;      /* in use by a program */
	u32 forgetful;  /* remembers no function: another is at what is remembered */
	u32 number;     /* of the walk on its CPU */
	u32 failure;    /* enum failure: why the function could not be read */
	u64 version;    /* of processes, when process was copied; 0: never */
	u64 owner;      /* process generation, tid */
	u64 pc, sp, fp; /* sp: 0 if not known */
	u64 link;       /* where the innermost code returns to, if a register has it; 0 on x86-64 */
	u64 handler_pc; /* of the innermost code, until its function is met; 0: not a bytecode's handler */
	u64 root, callee;                         /* registers that mean something in V8's code */
	u64 bytecodes, bytecode_offset, handlers; /* likewise, in the interpreter's handlers */
	u64 isolate;
	u64 epoch;        /* of the thread, its own; another after each collection; 0: not known */
	u64 thread_owner; /* whose the next is */
	struct thread thread;
	u64 reached;  /* how far up the stack unwinding has certainly come */
	u64 exit_fp;  /* V8's newest exit frame, until unwinding reaches it; 0: none */
	u64 function; /* of the current frame, as are the next */
	u64 id;
	u64 code_start;
	u64 code_word; /* the function's Code, or its handle in the dispatch table */
	u32 code_size;
	u32 check; /* of that code: code_key.check */
	u32 tier;  /* of that code */
	u32 stray; /* chunk_of() a pc that it ran at outside that code; 0: none */
	u32 is_builtin;
	u32 complete;          /* all of it was read */
	u32 tgid;              /* of process */
	u32 code;              /* enum code of pc */
	u32 leaf;              /* nothing is pushed yet */
	u32 returned;          /* pc is where a call returns to, not the next instruction */
	u32 met_v8;            /* a frame of V8's, on this stack */
	u32 interrupted;       /* by a signal: the thread's registers are its handler's */
	struct unwind_row row; /* of the current code */
	u32 settled;           /* nothing moves any longer in this epoch */
	u32 fresh;             /* user space is to read V8's objects before they move */
	u64 last_script;       /* of this sample, as its function refers to it; 0: none */
	u64 window_base;
	u64 window_bytes;
	u64 edge; /* where a window ended because what follows could not be read; 0: not known */
	struct range recent[4]; /* by enum code: the last one that a pc was in */
	struct known_row rows[1 << KNOWN_ROW_BITS];
	struct process process; /* a copy: reads of it need no lookup */
	u64 window[WINDOW_WORDS];
	/* functions that are not remembered */
	u64 types_epoch;      /* 0: this sample only */
	u64 types[MAX_TYPES]; /* maps, TYPE_PLAIN, their objects' type: while nothing moves */
	u64 object[16], map[16], part[16], script[16];
	struct descriptor descriptors[MAX_DESCRIPTORS];
	u32 last_script_id;
	u32 head_bytes;
	u64 head_of; /* the string whose first bytes were read last; 0: none */
	s64 head_type;
	u64 head[16];
	u64 piece_count;
	u32 limit; /* of text */
	u32 high;  /* a high surrogate whose low surrogate is still to come */
	struct piece pieces[MAX_PIECES];
	u16 raw[TEXT_BYTES];
	struct code_object code_object;
	struct name name;
};

static __always_inline u64 mix(u64 hash, u64 word)
{
	word *= 0x87c37b91114253d5ull; /* the constants of MurmurHash3, x64, 128 bit */
	word = word << 31 | word >> 33;
	hash ^= word * 0x4cf5ad432745937full;
	hash = hash << 27 | hash >> 37;
	return hash * 5 + 0x52dce729;
}

static __always_inline u64 finish(u64 hash)
{
	hash ^= hash >> 33;
	hash *= 0xff51afd7ed558ccdull;
	hash ^= hash >> 33;
	hash *= 0xc4ceb9fe1a85ec53ull;
	return hash ^ hash >> 33;
}

/* Adds a frame to a stack's hash. A word is random where a position has its bits. */
#define mix_frame(hash, word, position) mix(hash, (word) ^ (position))

static __always_inline bool push_at(struct walk *w, u64 frame, u64 position)
{
	u64 at = w->stack.count;

	w->leaf = 0;
	if (at >= MAX_FRAMES) {
		w->stack.flags |= STACK_TRUNCATED;
		return false;
	}
	mask_index(at, MAX_FRAMES - 1);
	w->stack.frames[at].word = frame;
	w->stack.frames[at].position = position;
	w->stack.count = at + 1;
	w->stack.hash = mix_frame(w->stack.hash, frame, position);
	return true;
}

static __always_inline bool push(struct walk *w, u64 frame)
{
	return push_at(w, frame, 0);
}

#define position_of(form, rest) ((u64)(form) << POSITION_FORM_SHIFT | (rest))
#define frame_of(kind, rest) ((u64)(kind) << FRAME_KIND_SHIFT | (rest))
#define PC_MASK ((1ull << FRAME_PC_BITS) - 1)
#define RETURN_ADDRESS \
	(1ull << FRAME_PC_BITS) /* pc follows a call: the function is that of the call */

static __always_inline bool read_user(void *to, u32 bytes, u64 from)
{
	return bpf_probe_read_user(to, bytes, (const void *)from) == 0;
}

#define PAGE_BYTES 4096 /* the smallest page: what follows it may not be there */

/* Reads what is there of so many bytes, up to the end of the page; the others are zero. */
static __always_inline bool read_user_part(void *to, u32 bytes, u64 from)
{
	u64 here = PAGE_BYTES - (from & (PAGE_BYTES - 1));

	if (read_user(to, bytes, from))
		return true;
	__builtin_memset(to, 0, bytes);
	return here < bytes && read_user(to, here, from);
}

/* Makes the stack's words from low to high readable with word(). A read that faults costs more than
 * all others, so where one did is remembered: most stacks end within the last window.
 */
static __always_inline bool see(struct walk *w, u64 low, u64 high)
{
	u64 bytes = sizeof(w->window);

	if (low >= w->window_base && high <= w->window_base + w->window_bytes)
		return true;
	if (high <= w->edge && w->edge - low < bytes)
		bytes = w->edge - low;
	w->window_base = low;
	w->window_bytes = 0;
	if (bytes > sizeof(w->window))
		return false; /* cannot happen; tells the verifier so */
	if (!read_user(w->window, bytes, low)) {
		bytes =
		    PAGE_BYTES - (low & (PAGE_BYTES - 1)); /* the mapping ends within the window */
		if (bytes < high - low)
			bytes = high - low;
		if (bytes > sizeof(w->window) || !read_user(w->window, bytes, low))
			return false;
		w->edge = low + bytes;
	}
	w->window_bytes = bytes;
	return true;
}

/* The word at address, which see() has made readable. */
static __always_inline u64 word(struct walk *w, u64 address)
{
	u64 at = (address - w->window_base) >> 3;

	mask_index(at, WINDOW_WORDS - 1);
	return w->window[at];
}

#define is_within(range, pc) ((pc) >= (range)->start && (pc) < ((range)->end & ~RANGE_BITS))

/* The kind of code at pc: the last range that starts at or before it, if pc is inside. */
__noinline u32 code_at(struct walk *w, u64 pc)
{
	struct range *ranges;
	u64 i = 0, j;

	if (!w)
		return CODE_UNKNOWN;
	for (u32 code = CODE_JIT; code > CODE_UNKNOWN; code--) {
		if (is_within(&w->recent[code], pc))
			return code;
	}
	ranges = w->process.ranges;
	for (u64 step = MAX_RANGES / 2; step; step >>= 1) {
		j = i | step;
		mask_index(j, MAX_RANGES - 1);
		if (j < w->process.range_count && ranges[j].start <= pc)
			i = j;
	}
	mask_index(i, MAX_RANGES - 1);
	if (!is_within(&ranges[i], pc))
		return CODE_UNKNOWN;
	j = ranges[i].end & RANGE_CODE;
	mask_index(j, RANGE_CODE);
	w->recent[j] = ranges[i];
	return j;
}

#endif
