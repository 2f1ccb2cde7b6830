/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * What all events of nodesnoop have in common.
 */
#ifndef USTACK_SNOOPED_H
#define USTACK_SNOOPED_H

#include "node.h"

#define MAX_THREADS 8192

enum snoop_event {
	EVENT_TRANSACTION = EVENT_TOOL,
	EVENT_PAUSE,
	EVENT_ITERATION,
	EVENT_OPERATION,
	EVENT_UNFIT
};

const volatile u64 slower = 0; /* ns: events that took less are not sent */

volatile u64 unsent = 0; /* events for which there was no room */

/* Keeps a type that no map names in the object, for Go's bindings. */
const enum snoop_event *snoop_event_unused __attribute__((unused));

/* Sends an event. User space is not woken for it. */
static __always_inline void send_event(void *event, u64 bytes)
{
	if (bpf_ringbuf_output(&events, event, bytes, BPF_RB_NO_WAKEUP))
		count(unsent);
}

#endif
