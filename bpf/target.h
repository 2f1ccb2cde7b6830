/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * Which processes are traced, and what the kernel knows about each: where its code is and of
 * what kind, and how its V8 lays out objects. User space writes a struct process for each
 * process; a process without one is not traced.
 */
#ifndef USTACK_TARGET_H
#define USTACK_TARGET_H

#include "kernel.h"

#define MAX_PROCESSES 1024
#define MAX_RANGES 256 /* executable mappings of one process; a power of two */
#define MAX_PID_LEVELS 8

/* What code a range of addresses holds. */
enum code {
	CODE_UNKNOWN, /* in no range: may be JIT code that user space has not seen yet */
	CODE_NATIVE,
	CODE_BUILTIN, /* V8's embedded builtins and bytecode handlers */
	CODE_JIT,     /* V8's code space */
};

#define RANGE_CODE 3
#define RANGE_ADDON 4 /* native code of an add-on */
#define RANGE_BITS 7ull

struct range {
	u64 start;
	u64 end;  /* exclusive; the low bits are not part of it: enum code, RANGE_ADDON */
	u64 bias; /* address in memory minus address in the file */
	u32 rows, row_count; /* of unwind_rows: how to unwind functions without frame pointers */
};

/* V8's layout, in bytes unless noted; symbolize/v8.Layout explains each field. 0 means "not
 * present in this version".
 */
struct layout {
	u32 gc_count, gc_state, vm_state, c_entry_fp, dispatch_table;
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
	s16 fp_context, fp_function, fp_bytecode_array, fp_bytecode_offset;
	s16 builtin_exit_function, regexp_argument;
	u8 dictionary_bit, descriptor_shift, details_location, details_index;
	u8 scope_flags_smi, scope_module, scope_receiver;
	u8 code_start_pointer, code_kind_mask, kind_baseline, kind_maglev, kind_turbofan;
	u8 dispatch_handle;
	u8 frame_builtin_exit;
	u8 kind_members, kind_static;
	u8 frame_wasm, frame_regexp;
	u8 external_data;
	u8 pad;
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

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_PROCESSES);
	__type(key, u32);
	__type(value, struct process);
} processes SEC(".maps");

/* Change counters of processes: user space bumps described, the kernel bumps execs. There are two
 * because neither side can increment the other's.
 */
volatile u32 described = 1, execs = 0;

/* Inode of user space's pid namespace; 0: the initial one, which the kernel uses. */
const volatile u32 pid_namespace = 0;

/* The task's pid in user space's pid namespace; 0: it has none there. */
static __always_inline u32 number_of(struct task_struct *task)
{
	struct pid *pid = BPF_CORE_READ(task, thread_pid);
	u32 level = BPF_CORE_READ(pid, level);
	struct upid upid;

	for (u32 i = 0; i < MAX_PID_LEVELS && i <= level; i++) {
		bpf_probe_read_kernel(&upid, sizeof(upid), &pid->numbers[i]);
		if (BPF_CORE_READ(upid.ns, ns.inum) == pid_namespace)
			return upid.nr;
	}
	return 0;
}

/* The current thread's ids in that namespace: tgid in the upper half, tid in the lower. */
static __always_inline u64 current_ids(void)
{
	struct task_struct *task;

	if (!pid_namespace)
		return bpf_get_current_pid_tgid();
	task = (struct task_struct *)bpf_get_current_task();
	return (u64)number_of(BPF_CORE_READ(task, group_leader)) << 32 | number_of(task);
}

#endif
