/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * What the sockets of a process are bound and connected to. The socket itself is asked: a descriptor
 * may be another file's soon after, and its network namespace does not matter.
 */
#ifndef USTACK_ENDS_H
#define USTACK_ENDS_H

#include "event.h"
#include "target.h"

#define SOCKFS_MAGIC 0x534f434b /* include/uapi/linux/magic.h */
#define AF_UNIX 1
#define AF_INET 2
#define AF_INET6 10

/* include/net/tcp_states.h */
enum tcp_state {
	TCP_ESTABLISHED = 1,
	TCP_SYN_SENT,
	TCP_SYN_RECV,
	TCP_FIN_WAIT1,
	TCP_FIN_WAIT2,
	TCP_TIME_WAIT,
	TCP_CLOSE,
	TCP_CLOSE_WAIT,
	TCP_LAST_ACK,
	TCP_LISTEN,
	TCP_CLOSING,
	TCP_NEW_SYN_RECV,
};

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct in6_addr {
	union {
		u8 u6_addr8[16];
	} in6_u;
};

struct sock_common {
	u32 skc_daddr, skc_rcv_saddr;
	u16 skc_dport, skc_num;
	unsigned short skc_family;
	unsigned char skc_state;
	struct in6_addr skc_v6_daddr, skc_v6_rcv_saddr;
};

struct sock {
	struct sock_common __sk_common;
};

struct inet_sock {
	u16 inet_sport;
};

struct socket {
	struct sock *sk;
};

struct sockaddr_un {
	unsigned short sun_family;
	char sun_path[UNIX_BYTES];
};

struct unix_address {
	int len;
	struct sockaddr_un name[0];
};

struct unix_sock {
	struct unix_address *addr;
	struct sock *peer;
};

struct super_block {
	unsigned long s_magic;
};

struct inode {
	unsigned short i_mode;
	struct super_block *i_sb;
};

struct file {
	struct inode *f_inode;
	void *private_data;
};

struct fdtable {
	unsigned int max_fds;
	struct file **fd;
};

struct files_struct {
	struct fdtable *fdt;
};

struct task_struct___files {
	struct files_struct *files;
};

#pragma clang attribute pop

/* The current process's open file of that number; or null. */
static __always_inline struct file *file_of(u32 number)
{
	struct task_struct___files *task = (void *)bpf_get_current_task_btf();
	struct fdtable *table = BPF_CORE_READ(task, files, fdt);
	struct file **files, *file = 0;

	if (number >= BPF_CORE_READ(table, max_fds))
		return 0;
	files = BPF_CORE_READ(table, fd);
	bpf_probe_read_kernel(&file, sizeof(file), files + number);
	return file;
}

/* The socket that a file is; or null. */
static __always_inline struct sock *socket_in(struct file *file)
{
	struct socket *socket;

	if (!file || BPF_CORE_READ(file, f_inode, i_sb, s_magic) != SOCKFS_MAGIC)
		return 0;
	socket = BPF_CORE_READ(file, private_data);
	return BPF_CORE_READ(socket, sk);
}

/* The current process's socket of that number; or null. */
static __always_inline struct sock *socket_of(u32 number)
{
	return socket_in(file_of(number));
}

/* The name of a socket in the file system, or an abstract one, which begins with a zero. */
static __always_inline u32 read_unix_name(struct sock *sk, void *to)
{
	struct unix_address *address = BPF_CORE_READ((struct unix_sock *)sk, addr);
	u32 length;

	if (!address)
		return 0;
	length = BPF_CORE_READ(address, len) - sizeof(unsigned short);
	if (length > UNIX_BYTES)
		return 0;
	bpf_probe_read_kernel(to, UNIX_BYTES,
	    (u8 *)address + bpf_core_field_offset(struct unix_address, name) +
	        sizeof(unsigned short));
	return length;
}

static __always_inline void read_ends(struct ends *ends, struct sock *sk)
{
	ends->family = BPF_CORE_READ(sk, __sk_common.skc_family);
	if (ends->family == AF_INET) {
		BPF_CORE_READ_INTO(&ends->local, sk, __sk_common.skc_rcv_saddr);
		BPF_CORE_READ_INTO(&ends->peer, sk, __sk_common.skc_daddr);
	} else if (ends->family == AF_INET6) {
		BPF_CORE_READ_INTO(&ends->local, sk, __sk_common.skc_v6_rcv_saddr);
		BPF_CORE_READ_INTO(&ends->peer, sk, __sk_common.skc_v6_daddr);
	} else if (ends->family == AF_UNIX && bpf_core_type_exists(struct unix_sock)) {
		struct sock *peer = BPF_CORE_READ((struct unix_sock *)sk, peer);

		ends->name_length = peer ? read_unix_name(peer, ends->name) : 0;
		ends->is_peers = ends->name_length > 0;
		if (!ends->is_peers)
			ends->name_length = read_unix_name(sk, ends->name);
		return;
	} else {
		return;
	}
	ends->local_port = BPF_CORE_READ(sk, __sk_common.skc_num);
	if (!ends->local_port) /* of a socket that was reset, or has never had one */
		ends->local_port =
		    __builtin_bswap16(BPF_CORE_READ((struct inet_sock *)sk, inet_sport));
	ends->peer_port = __builtin_bswap16(BPF_CORE_READ(sk, __sk_common.skc_dport));
}

static __always_inline void read_socket(struct ends *ends, u32 number)
{
	struct sock *sk = socket_of(number);

	if (sk)
		read_ends(ends, sk);
}

#endif
