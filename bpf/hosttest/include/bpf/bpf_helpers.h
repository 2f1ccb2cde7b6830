/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * Stands in for libbpf's header: the kernel's helpers on the host, over recorded memory. A map's
 * definition carries the sizes of its keys and values in its type.
 */
#ifndef USTACK_HOST_HELPERS_H
#define USTACK_HOST_HELPERS_H

#define SEC(name)
#define __noinline __attribute__((noinline))
#undef __always_inline /* libc's */
#define __always_inline inline __attribute__((always_inline))
#define __uint(name, value) int(*name)[value]
#define __type(name, value) typeof(value) *name

#define host_kind(map) (sizeof(*(map)->type) / sizeof(int))
#define host_entries(map) (sizeof(*(map)->max_entries) / sizeof(int))

#define bpf_map_lookup_elem(map, key_at)                                           \
	host_lookup((map), host_kind(map), host_entries(map), sizeof(*(map)->key), \
	    sizeof(*(map)->value), (key_at))
#define bpf_map_update_elem(map, key_at, value_at, flags)                          \
	host_update((map), host_kind(map), host_entries(map), sizeof(*(map)->key), \
	    sizeof(*(map)->value), (key_at), (value_at))
#define bpf_ringbuf_output(map, from, bytes, flags) \
	((void)(map), (void)(flags), host_send((from), (bytes)))
#define bpf_probe_read_user(to, bytes, from) host_read((to), (bytes), (u64)(from))
#define bpf_probe_read_kernel(to, bytes, from) host_copy((to), (bytes), (from))
#define bpf_get_current_task() host_task()
#define bpf_get_current_task_btf() host_task()
#define bpf_task_pt_regs(task) host_registers()
#define bpf_get_current_pid_tgid() host_ids()
#define bpf_get_current_comm(to, bytes) ((void)__builtin_memset((to), 0, (bytes)))
#define bpf_get_stack(ctx, to, bytes, flags) ((void)(ctx), (void)(to), -1l)

void *host_lookup(
    const void *map, u64 kind, u64 entries, u64 key_bytes, u64 value_bytes, const void *key);
int host_update(const void *map, u64 kind, u64 entries, u64 key_bytes, u64 value_bytes,
    const void *key, const void *value);
long host_send(const void *from, u64 bytes);
long host_copy(void *to, u64 bytes, const void *from);
long host_read(void *to, u64 bytes, u64 from);
void *host_task(void);
void *host_registers(void);
u64 host_ids(void);

#endif
