/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * Stands in for libbpf's header: the kernel's structs are as they are declared here.
 */
#ifndef USTACK_HOST_CORE_READ_H
#define USTACK_HOST_CORE_READ_H

#define BPF_CORE_READ(from, member) ((from)->member)
#define bpf_core_field_exists(field) 1

#endif
