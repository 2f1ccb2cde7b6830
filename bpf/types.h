/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * What user space and all tools' programs share: what a process is to the kernel, and the records
 * that the kernel sends. Limits are enums, so that Go gets them with the types.
 */
#ifndef USTACK_TYPES_H
#define USTACK_TYPES_H

#include "kernel.h"

enum limit {
	MAX_PROCESSES = 1024,
	MAX_RANGES = 256,  /* executable mappings of one process; a power of two */
	MAX_FRAMES = 256,  /* of one stack; a power of two */
	TEXT_BYTES = 1024, /* of a script's name; a power of two */
};

/* What code a range of addresses holds. */
enum code {
	CODE_UNKNOWN, /* in no range: may be JIT code that user space has not seen yet */
	CODE_NATIVE,
	CODE_BUILTIN, /* V8's embedded builtins and bytecode handlers */
	CODE_JIT,     /* V8's code space */
};

/* The low bits of a range's end. */
enum range_bit {
	RANGE_CODE = 3,   /* mask of enum code */
	RANGE_ADDON = 4,  /* native code of an add-on */
	RANGE_FRAMED = 8, /* functions have a frame pointer when they call others */
	RANGE_BITS = 15,  /* mask of all */
};

struct range {
	u64 start;
	u64 end;             /* exclusive; the low bits are not part of it: enum range_bit */
	u64 bias;            /* address in memory minus address in the file */
	u32 rows, row_count; /* of unwind_rows: how to unwind code without a frame pointer */
};

/* V8's layout, in bytes unless noted; symbolize/v8.Layout explains each field. 0 means "not
 * present in this version".
 */
struct layout {
	u32 gc_count, gc_state, vm_state, c_entry_fp, dispatch_table;
	u32 handlers, builder;
	u16 first_js_function, last_js_function, shared_function_info, scope_info, script, code;
	u16 bytecode_array, first_nonstring, debug_info, debug_info_script;
	u16 map_instance_type, map_instance_size, map_inobject, map_bit_field3;
	u16 map_descriptors, descriptors_header, map_prototype, map_constructor;
	u16 oddball, heap_number;
	u16 function_shared, function_code, function_properties;
	u16 shared_name, shared_script, shared_flags;
	u16 script_name, script_id, script_source_url, script_type;
	u16 script_source, script_line_offset, script_column_offset;
	u16 scope_first, scope_max_inlined, scope_positions, scope_positions_of;
	u16 code_start, code_size, code_flags;
	u16 wasm_instance, wasm_module, wasm_script, wasm_module_object;
	u16 regexp, regexp_source;
	u16 builder_saves_fp, builder_returns_to;
	s16 fp_context, fp_function, fp_bytecode_array, fp_bytecode_offset;
	s16 builtin_exit_function, regexp_argument, regexp_isolate;
	u8 dictionary_bit, descriptor_shift, details_location, details_index;
	u8 scope_flags_smi, scope_module, scope_receiver;
	u8 code_start_pointer, code_kind_mask, kind_baseline, kind_maglev, kind_turbofan;
	u8 dispatch_handle;
	u8 frame_builtin_exit;
	u8 kind_members, kind_static;
	u8 frame_wasm, frame_regexp;
	u8 external_data;
	u8 padding[3];
};

struct process {
	u64 dispatch_base; /* JS dispatch table, where one serves the whole process */
	s64 tls_isolate; /* where the thread's Isolate is: from the thread pointer; 0: not known */
	u64 tls_module;  /* if not 0, from the start of this library's thread-local variables */
	u32 generation;  /* of this description: differs for each process, and after each exec */
	u32 has_v8;
	u32 range_count;
	u32 serial; /* of this write: unique */
	struct layout layout;
	struct range ranges[MAX_RANGES]; /* sorted by start, not overlapping */
};

/* How to unwind code from this address up to the next row's (unwind.h). */
struct unwind_row {
	u32 start;    /* address in the file */
	u16 distance; /* words from the base to where the caller's frame begins; or enum saved_bits */
	u8 fp; /* words below that: where the caller's frame pointer is saved; or enum unwind_fp */
	u8 base; /* enum unwind_base */
};

/* Where the caller's frame begins: so far from a register, or from a stack pointer in memory. */
enum unwind_base {
	UNWIND_UNKNOWN, /* by a rule that rows cannot express */
	UNWIND_SP,
	UNWIND_FP,
	UNWIND_SIGNAL,   /* a signal's handler returns here: the kernel has saved the registers */
	UNWIND_END,      /* a thread's first function, which has no caller */
	UNWIND_PROLOGUE, /* the function begins with push %rbp; mov %rsp,%rbp */
	UNWIND_STUB,     /* from sp; a word more from the eleventh byte of a linker's stub on */
	UNWIND_SAVED_AT_SP,
	UNWIND_SAVED_AT_FP,
	UNWIND_SAVED_AT_R9, /* at sp and as many words beyond it as r9 says */
	UNWIND_LINK_SAVED, /* the stack pointer; the distance says where the return address is, too */
	UNWIND_REGISTER = 16, /* and above: by its DWARF number, where no call has changed it */
};

enum unwind_fp {
	UNWIND_FP_KEPT,       /* is in the register */
	UNWIND_FP_HERE = 255, /* is saved where the frame pointer points */
};

/* The parts of a distance by which a stack pointer is saved: signed words to it; then the words
 * from what it says to where the caller's frame begins. Of UNWIND_LINK_SAVED: words to where the
 * caller's frame begins; then the words below it to where the return address is saved.
 */
enum saved_bits {
	SAVED_SLOT_BITS = 12,
};

/* A frame is one word: its kind in the top four bits, then what identifies it. */
enum frame_kind {
	FRAME_NATIVE, /* pc: 52 bits, RETURN_ADDRESS */
	FRAME_JS,     /* tier: 4 bits, function id: 56 bits */
	FRAME_TYPED,  /* V8's frame type: 8 bits, pc: 52 bits */
	FRAME_CODE,   /* pc in V8's code without a frame of its own, or with an unidentified one */
	FRAME_LOST,   /* pc in V8's code whose function could not be read */
	FRAME_GAP,    /* frames are missing here */
	FRAME_TEXT,   /* no code but a name: function id of 56 bits */
	FRAME_DATA,   /* no code but an object's vtable: its address */
	FRAME_NAMED,  /* a frame that user space has named, by number; never sent */
	FRAME_KERNEL = 15, /* pc: kernel addresses begin with ones */
};

/* Where in its code a JavaScript frame is, as frame.position. The top two bits are the form. A return
 * address counts as the last byte of the call.
 */
enum position_form {
	POSITION_NONE,     /* not known */
	POSITION_BYTECODE, /* 32 bits: offset of the bytecode, as V8 stores it in the frame */
	POSITION_CODE, /* 32 bits: offset in the machine code whose code_key has the 30 bits above as check */
	POSITION_PC, /* 48 bits: the address, in machine code that the function does not refer to; 14 bits: a hash of the code around it */
};

/* Where the parts of a position begin. */
enum position_bits {
	POSITION_OFFSET_BITS = 32, /* an offset ends here: code_key.check follows */
	POSITION_CHECK_BITS = 30,
	POSITION_PC_BITS = 48,    /* an address ends here: a hash of the code around it follows */
	POSITION_CODE_BYTES = 16, /* of code that are hashed, half of them before the address */
	POSITION_FORM_SHIFT = 62, /* enum position_form */
};

/* Where the parts of a frame's word begin. */
enum frame_bits {
	FRAME_PC_BITS = 52,    /* pc ends here: RETURN_ADDRESS or V8's frame type follows */
	FRAME_ID_BITS = 56,    /* a function's id ends here: its tier follows */
	FRAME_KIND_SHIFT = 60, /* enum frame_kind */
};

enum tier {
	TIER_NONE,
	TIER_INTERPRETED,
	TIER_BASELINE,
	TIER_MAGLEV,
	TIER_TURBOFAN,
	TIER_OPTIMIZED
};

enum event_kind {
	EVENT_STACK,
	EVENT_FUNCTION,
	EVENT_SCRIPT,
	EVENT_EXEC,
	EVENT_WASM,
	EVENT_TEXT,
	EVENT_CODE,
	EVENT_TOOL = 16, /* and above: of one tool */
};

enum stack_flag {
	STACK_TRUNCATED = 1, /* deeper than MAX_FRAMES */
	STACK_BROKEN = 2,    /* the chain of frame pointers ended where no thread begins */
	STACK_NEW_CODE = 4,  /* has code that user space has not described */
	STACK_ADDON = 8,     /* has an add-on's code, or code that may be an add-on's */
};

struct frame {
	u64 word;     /* what runs: enum frame_kind */
	u64 position; /* where in it: enum position_form */
};

/* One stack, leaf first: kernel frames, then user frames. */
struct stack {
	u32 event; /* EVENT_STACK */
	u32 flags;
	u64 ids;   /* tgid, tid */
	u64 owner; /* process generation, tid: whose names the frames have */
	u64 hash;  /* of the frames: two stacks of one thread are the same if it is */
	u32 count;
	u32 kernel_count;
	u8 comm[COMM_BYTES];
	struct frame frames[MAX_FRAMES];
};

enum name_flag {
	NAME_TRUNCATED = 1, /* longer than its bound */
	NAME_INFERRED = 2,  /* V8's guess from the source: "Foo.bar" of Foo.bar = function () {} */
	NAME_PARTIAL = 4,   /* a piece of it could not be read */
	NAME_MEMBERS = 8,   /* no text: initializes a class's fields */
	NAME_STATIC = 16,   /* no text: initializes a class's static fields */
	NAME_WASM = 32,     /* script: a WebAssembly module's */
	NAME_REGEXP =
	    64, /* no function but a regular expression: its source, and its flags in start */
	NAME_ONE_BYTE = 128, /* text: the characters at address are bytes, not UTF-16 units */
};

/* What is known about one function or script: sent once per content. */
struct name {
	u32 event; /* EVENT_FUNCTION, EVENT_SCRIPT or EVENT_TEXT: how a function's source begins */
	u32 flags;
	u64 owner;  /* process generation, tid: an isolate is of one thread */
	u64 id;     /* function, text: its identity in frames; script: the address of its object */
	s32 script; /* V8's number of the script, unique in its isolate; 0: a builtin's */
	s32 start;  /* function, text: UTF-16 units from the script's start; -1: not known */
	u32 length; /* of text */
	u32 units;  /* text: of the script's source, in UTF-16 units */
	u64 address; /* function: of its SharedFunctionInfo, tagged; script: of its isolate; text: of the
	                script's source, where V8 does not own it; 0: not known */
	u8 text[2 * TEXT_BYTES]; /* UTF-8; the second half is room for the verifier's doubts */
};

struct script_key {
	u64 owner;
	s64 script;
};

struct code_key {
	u64 owner; /* process generation, tid */
	u64 id;    /* of the function */
	u64 check; /* 30 bits: a hash of what its header says of the instructions */
};

/* Machine code that V8 made for a function: sent once, so that its tables of source positions can be
 * read before V8 replaces it.
 */
struct code_object {
	u32 event; /* EVENT_CODE */
	u32 tier;  /* enum tier */
	struct code_key key;
	u64 address; /* of the Code object, tagged */
	u64 shared;  /* of the function's SharedFunctionInfo, tagged; 0: not known */
	u64 start;   /* of the instructions */
	u64 size;    /* of them, in bytes */
};

#define MAX_ANCESTORS 8

/* A process has a new program: what was known about it no longer holds. */
struct exec {
	u32 event; /* EVENT_EXEC */
	u32 pid;
	u32 ancestors[MAX_ANCESTORS]; /* its parent first, 0: none */
	u8 comm[COMM_BYTES];
};

/* Code at pc belongs to the script: sent once per thread, instance and epoch. */
struct wasm {
	u32 event; /* EVENT_WASM */
	s32 script;
	u64 owner;
	u64 pc;
};

/* Why a part of a stack is missing. User space's words for them are in tools/trace/failures.go. */
enum failure {
	FAILURE_FRAME_POINTER,  /* is not aligned, or does not lead up the stack */
	FAILURE_STACK,          /* words at a frame pointer cannot be read */
	FAILURE_UNWIND_RULE,    /* native code's table has no usable rule for a pc */
	FAILURE_FRAME_TYPE,     /* the marker of V8's frame is no type */
	FAILURE_COLLECTION,     /* the function cannot be read while a collection is under way */
	FAILURE_FUNCTION,       /* the function in V8's frame cannot be read */
	FAILURE_FUNCTION_DATA,  /* its SharedFunctionInfo or ScopeInfo cannot be read */
	FAILURE_UNKNOWN_LAYOUT, /* an object's type is not what the layout says */
	FAILURE_NAME,           /* a function's name, or a part of it, cannot be read */
	FAILURE_SCRIPT,         /* a function's script cannot be read */
	FAILURE_SCRIPT_ID,      /* a script's number is not above 0 */
	FAILURE_CODE,           /* a function's code cannot be read */
	FAILURE_POSITION,       /* where in its code a function is cannot be found */
	FAILURE_REGEXP,         /* the regular expression of a frame cannot be read */
	FAILURE_WASM,           /* the script of a WebAssembly frame cannot be read */
	FAILURE_TOO_DEEP,       /* the stack has more than MAX_FRAMES frames */
	FAILURES
};

/* Whose struct uv__work it is: what a probe on its completion knows. */
enum work_kind { WORK_QUEUED, WORK_FS, WORK_ADDRINFO, WORK_NAMEINFO, WORK_RANDOM };

#endif
