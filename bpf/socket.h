/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * The addresses in a system call: what the program gave, and what the sockets that it works on are
 * bound and connected to. The socket itself is asked, at the call's end: a descriptor may be another
 * file's soon after, and its network namespace does not matter.
 */
#ifndef USTACK_SOCKET_H
#define USTACK_SOCKET_H

#include "hit.h"

/* Reads the addresses in a system call that ends. */
static __always_inline void read_addresses(struct hit *hit, const volatile struct syscall *call)
{
	s8 at = call->address;
	u64 bytes;

	if (call->flags & CALL_ACCEPTS)
		read_socket(&hit->ends, hit->result);
	else if (call->descriptor >= 0)
		read_socket(&hit->ends, argument_of(hit, call->descriptor));
	if (at < 0)
		return;
	bytes = argument_of(hit, at + 1);
	if (call->flags & CALL_LENGTH_AT && !read_user(&bytes, 4, bytes))
		return;
	bytes &= 0xffffffff;
	if (bytes > ADDRESS_BYTES)
		bytes = ADDRESS_BYTES;
	if (argument_of(hit, at) && read_user(hit->address, bytes, argument_of(hit, at)))
		hit->address_length = bytes;
}

#endif
