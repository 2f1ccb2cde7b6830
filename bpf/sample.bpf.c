//go:build ignore

// SPDX-License-Identifier: GPL-2.0 OR MIT
//
// jsprof: which stacks use CPU time or cause perf events: the part of jsprof.bpf.c that runs without
// probes need. User space reads it in half the time. Needs Linux 5.15.

#include "exec.h"

const volatile u32 with_kernel = 0;

#include "sample.h"

char _license[] SEC("license") = "Dual MIT/GPL";
