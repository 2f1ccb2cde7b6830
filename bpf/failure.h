/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * Why parts of stacks are missing: a counter for each cause.
 */
#ifndef USTACK_FAILURE_H
#define USTACK_FAILURE_H

#include "kernel.h"

/* User space's words for them are in tools/trace/failures.go. */
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
	FAILURE_REGEXP,         /* the regular expression of a frame cannot be read */
	FAILURE_WASM,           /* the script of a WebAssembly frame cannot be read */
	FAILURE_TOO_DEEP,       /* the stack has more than MAX_FRAMES frames */
	FAILURES
};

/* Keeps types that no map names in the object, for Go's bindings. */
const enum failure *failure_unused __attribute__((unused));

/* By enum failure. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, FAILURES);
	__type(key, u32);
	__type(value, u64);
} failures SEC(".maps");

__noinline int count_failure(u32 cause)
{
	u64 *counter = bpf_map_lookup_elem(&failures, &cause);

	if (counter)
		count(*counter); /* a probe may interrupt another's */
	return 0;
}

#endif
