/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * The jobs of libuv's thread pool as its functions and node's have them: struct uv__work, the request
 * that contains it, and the object that contains that. tools/jobs finds the places.
 */
#ifndef USTACK_WORK_H
#define USTACK_WORK_H

#include "target.h"

#define UV_ECANCELED -125 /* include/uv/errno.h: -ECANCELED */
#define UV_WORK_SLOW_IO 2 /* src/uv-common.h: enum uv__work_kind */

/* include/uv.h: uv_work_t is 64 bytes of any request, the loop, two callbacks, a struct uv__work. */
#define UV_WORK_OFFSET 88

/* src/threadpoolwork-inl.h of Node.js: ThreadPoolWork is a vtable, the Environment, a uv_work_t. */
#define THREAD_POOL_WORK_OFFSET 16

/* Words of an object of Node-API's, behind its uv_work_t, among which is the add-on's function that
 * does the work (src/node_api.cc: class Work; src/threadpoolwork-inl.h: a name since 18).
 */
#define UV_WORK_BYTES 128
#define WORK_WORDS 5

/* include/uv/threadpool.h: struct uv__work is two functions, the loop, its link in a queue. */
#define WORK_LINK 24

/* include/uv.h, unix: fields of the requests, from their struct uv__work. */
#define FS_TYPE (64 - 336)
#define FS_RESULT (88 - 336)
#define ADDRINFO_RESULT 80
#define RANDOM_RESULT (72 - 104)

/* A probe's cookie has in its upper half what is to be known of the place. Where a job begins or ends
 * on a thread, that is the register with the job's link. Where it completes, the lowest bits are its
 * enum work_kind; where libuv calls no function for it, the others say which register has an address
 * in the job, and where in it.
 */
#define place_of(cookie) ((cookie) >> 32)
#define PLACE_KIND 255
#define PLACE_BY_REGISTER (1 << 8)
#define PLACE_REGISTER(place) ((place) >> 9 & 15)
#define PLACE_OFFSET(place) ((place) >> 16)

#define work_kind_of(cookie) (place_of(cookie) & PLACE_KIND)

/* The struct uv__work that a thread is about to run, or has run. */
static __always_inline u64 linked_work(struct pt_regs *ctx, u64 cookie)
{
	return register_of(ctx, place_of(cookie)) - WORK_LINK;
}

/* The struct uv__work that completes. */
static __always_inline u64 completed_work(struct pt_regs *ctx, u64 cookie)
{
	u64 place = place_of(cookie);

	if (place & PLACE_BY_REGISTER)
		return register_of(ctx, PLACE_REGISTER(place)) - PLACE_OFFSET(place);
	return argument0(ctx);
}

/* The error with which the request itself says that the work failed; 0 if it says none. */
static __always_inline s64 result_of(u32 kind, u64 work)
{
	s64 result = 0;
	s32 status = 0;

	switch (kind) {
	case WORK_FS:
		return read_user(&result, 8, work + FS_RESULT) && result < 0 ? result : 0;
	case WORK_ADDRINFO:
		return read_user(&status, 4, work + ADDRINFO_RESULT) ? status : 0;
	case WORK_RANDOM:
		return read_user(&status, 4, work + RANDOM_RESULT) ? status : 0;
	}
	return 0;
}

#endif
