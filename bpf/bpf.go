// Package bpf holds the kernel half of every tool, compiled, with the Go types
// of what it shares with user space. It has no code of its own that runs.
package bpf

//go:generate go tool bpf2go -cc clang-14 -strip llvm-strip-14 -target amd64,arm64 -go-package bpf -no-global-types -type process -type layout -type range -type unwind_row -type unwind_base -type unwind_fp -type saved_bits -type stack -type name -type script_key -type code_key -type code_object -type frame -type exec -type wasm -type limit -type code -type range_bit -type frame_kind -type frame_bits -type position_form -type position_bits -type tier -type event_kind -type stack_flag -type name_flag -type failure Trace types.bpf.c -- -O2 -g -mcpu=v3 -Wall -Werror
//go:generate go tool bpf2go -cc clang-14 -strip llvm-strip-14 -target amd64,arm64 -go-package bpf -no-global-types -type stack_key Jsprof jsprof.bpf.c -- -O2 -g -mcpu=v3 -Wall -Werror
//go:generate go tool bpf2go -cc clang-14 -strip llvm-strip-14 -target amd64,arm64 -go-package bpf -no-global-types -type kind_key -type kind -type pool -type job_key -type job -type seat -type work_kind -type by Addonlat addonlat.bpf.c -- -O2 -g -mcpu=v3 -Wall -Werror
//go:generate go tool bpf2go -cc clang-14 -strip llvm-strip-14 -target amd64,arm64 -go-package bpf -no-global-types -type hit -type hit_limit -type tally_key -type tally -type stop -type ends -type call_flag -type condition -type syscall -type pattern -type match -type trigger -type thrown_kind -type operand -type comparison -type data_kind Stopon stopon.bpf.c -- -O2 -g -mcpu=v3 -Wall -Werror
