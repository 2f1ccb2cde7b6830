//go:build ignore

// SPDX-License-Identifier: GPL-2.0 OR MIT
//
// types: the types of types.h and event.h for Go. It has no programs.

#include "event.h"
#include "types.h"

const struct process *process_type;
const struct unwind_row *unwind_row_type;
const enum unwind_base *unwind_base_type;
const enum unwind_fp *unwind_fp_type;
const enum saved_bits *saved_bits_type;
const struct stack *stack_type;
const struct name *name_type;
const struct script_key *script_key_type;
const struct code_object *code_object_type;
const struct code_key *code_key_type;
const struct frame *frame_type;
const struct exec *exec_type;
const struct wasm *wasm_type;
const enum limit *limit_type;
const enum code *code_type;
const enum range_bit *range_bit_type;
const enum frame_kind *frame_kind_type;
const enum frame_bits *frame_bits_type;
const enum position_form *position_form_type;
const enum position_bits *position_bits_type;
const enum tier *tier_type;
const enum event_kind *event_kind_type;
const enum stack_flag *stack_flag_type;
const enum name_flag *name_flag_type;
const enum failure *failure_type;
const struct condition *condition_type;
const struct syscall *syscall_type;
const struct pattern *pattern_type;
const struct match *match_type;
const enum text_read *text_read_type;
const struct weigher *weigher_type;
const struct field *field_type;
const struct place *place_type;
const struct ends *ends_type;
const struct usdt *usdt_type;
const struct stack_key *stack_key_type;
const struct total *total_type;
const enum hit_limit *hit_limit_type;
const enum trigger *trigger_type;
const enum operand *operand_type;
const enum comparison *comparison_type;
const enum call_flag *call_flag_type;
const enum data_kind *data_kind_type;
const enum weight *weight_type;
const enum profile_limit *profile_limit_type;
const enum place_kind *place_kind_type;
const enum work_kind *work_kind_type;

char _license[] SEC("license") = "Dual MIT/GPL";
