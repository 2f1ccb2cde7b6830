/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * The few kernel types that our programs touch, and nothing else of its headers. Structs of the
 * kernel's own are partial: each field's place is found when the program is loaded (CO-RE).
 */
#ifndef USTACK_KERNEL_H
#define USTACK_KERNEL_H

typedef unsigned char u8, __u8;
typedef signed char s8, __s8;
typedef unsigned short u16, __u16, __be16, __le16, __sum16;
typedef signed short s16, __s16;
typedef unsigned int u32, __u32, __be32, __le32, __wsum;
typedef signed int s32, __s32;
typedef unsigned long long u64, __u64, __be64, __le64;
typedef signed long long s64, __s64;
typedef _Bool bool;
#define true 1
#define false 0

/* linux/bpf.h, 5.15 */
enum {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_RINGBUF = 27,
};
enum { BPF_ANY = 0, BPF_NOEXIST = 1 };
enum { BPF_F_USER_STACK = 1 << 8, BPF_F_MMAPABLE = 1 << 10 };
enum { BPF_RB_NO_WAKEUP = 1, BPF_RB_FORCE_WAKEUP = 2, BPF_RB_AVAIL_DATA = 0 };

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

#if defined(__bpf__)
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
#endif

struct ns_common {
	u32 inum;
};

struct pid_namespace {
	struct ns_common ns;
};

struct upid {
	int nr;
	struct pid_namespace *ns;
};

struct pid {
	u32 level;
	struct upid numbers[1];
};

#if defined(__TARGET_ARCH_x86)
struct thread_struct {
	unsigned long fsbase;
};
#elif defined(__TARGET_ARCH_arm64)
struct thread_uw {
	unsigned long tp_value;
};
struct thread_struct {
	struct thread_uw uw;
};
#endif

/* A call of which a probe awaits the return: stack is where its return address was. */
struct return_instance {
	unsigned long stack;
	unsigned long orig_ret_vaddr;
	struct return_instance *next;
};

struct uprobe_task {
	struct return_instance *return_instances;
};

struct task_struct {
	int pid;
	int tgid;
	struct task_struct *real_parent;
	struct task_struct *group_leader;
	struct pid *thread_pid;
	struct thread_struct thread;
	struct uprobe_task *utask;
	void *mm;
	u64 start_boottime; /* ns */
};

#if defined(__bpf__)
#pragma clang attribute pop
#endif

#define COMM_BYTES 16

/* A counter that several CPUs add to; its sum is right, its moments are not ordered. */
#define count(counter) ((void)__sync_fetch_and_add(&(counter), 1))

/* Masks an index in place, out of the compiler's sight: it may otherwise prove the mask needless
 * and drop it, and the verifier, which proves less, refuses the access (clang 14, 19).
 */
#if defined(__bpf__)
#define mask_index(i, mask) asm volatile("%0 &= %1" : "+r"(i) : "i"(mask))
#else
#define mask_index(i, mask) ((i) &= (mask)) /* bpf/hosttest */
#endif

#endif
