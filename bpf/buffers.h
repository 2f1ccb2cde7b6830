/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * What node writes at once, in any number of buffers.
 */
#ifndef USTACK_BUFFERS_H
#define USTACK_BUFFERS_H

#include "target.h"

/* include/uv/unix.h, and include/uapi/linux/uio.h: struct iovec */
struct uv_buf {
	u64 base, bytes;
};

/* What is written. */
struct written {
	u64 buffers; /* address; 0: it is only one */
	u64 count;
	struct uv_buf one;
	u64 left; /* at most so many bytes */
	u64 next; /* the number of the next buffer */
};

/* Reads the next buffer, up to the bytes that are left. False if it cannot be read. */
static __always_inline bool read_buffer(struct uv_buf *buffer, struct written *w)
{
	*buffer = w->one;
	if (w->buffers &&
	    !read_user(buffer, sizeof(*buffer), w->buffers + w->next * sizeof(*buffer)))
		return false;
	if (buffer->bytes > w->left)
		buffer->bytes = w->left;
	return true;
}

#endif
