//go:build ignore

// SPDX-License-Identifier: GPL-2.0 OR MIT
//
// tcp: follows a process's TCP connections.
//
// The kernel changes a socket's state in whatever runs at that moment, so a socket is known by its
// address: from when a call of the process begins a connection or listens, or accepts, or from when
// its open files are read, until its state is CLOSE. Each of these that comes again forgets what was
// known of the address before.
// Needs Linux 5.15.

#include "exec.h"
#include "hit.h"
#include "once.h"
#include "unended.h"

#define MAX_SOCKETS 65536
#define MAX_UNACCEPTED 16384
#define IPPROTO_TCP 6
#define EPIPE 32
#define ECONNRESET 104

enum { EVENT_TCP = EVENT_TOOL };

/* What happened to a socket. */
enum happening {
	HAPPENED_FOUND, /* it was open when the process's files were read */
	HAPPENED_STATE,
	HAPPENED_ACCEPTED,
	HAPPENED_RETRANSMITTED,
	HAPPENED_QUEUES, /* have changed since they were last reported */
};

/* Which end of a connection began to close it. */
enum closer { CLOSED_BY_NONE, CLOSED_HERE, CLOSED_THERE };

struct connection {
	u32 event; /* EVENT_TCP */
	u16 what;  /* enum happening */
	u8 old, state;
	u64 ids;    /* tgid of the socket's process; tid of the thread that did it, or 0 */
	u64 time;   /* ns, CLOCK_MONOTONIC */
	u64 hash;   /* of the stack, which was sent before; 0: none */
	u64 number; /* of the socket */
	u64 waited; /* ns, accepted: since it was established; 0: not known */
	u32 send_queue, receive_queue; /* bytes; listening: room in the queue, and what is in it */
	u32 retransmitted;             /* segments, in all */
	u32 error;                     /* errno: why the state is CLOSE; 0: none */
	u32 closer;                    /* enum closer */
	u32 pad;
	struct ends ends;
};

/* What is known about a socket of a process. */
struct tracked {
	u64 number;
	u32 tgid;
	u32 state;                     /* as far as it was seen */
	u32 closer;                    /* enum closer */
	u32 send_queue, receive_queue; /* as reported last */
	u32 pad;
};

/* By address. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_SOCKETS);
	__type(key, u64);
	__type(value, struct tracked);
} sockets SEC(".maps");

/* When connections were established that nobody has accepted yet, ns; of all processes. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, MAX_UNACCEPTED);
	__type(key, u64);
	__type(value, u64);
} unaccepted SEC(".maps");

volatile u64 seen = 0;       /* sockets */
volatile u64 unfollowed = 0; /* of those, there was no room for */
volatile u64 lost = 0;       /* events there was no room for */
volatile u64 unreported = 0; /* changes of state before which the kernel has not reported others */
volatile u64 untimed = 0; /* accepted connections of which it is not known how long they waited */

/* Keeps the types, which no map names as such, in the object for Go's bindings. */
const struct connection connection_unused __attribute__((unused));
const enum tcp_state state_unused __attribute__((unused));
const enum happening happening_unused __attribute__((unused));
const enum closer closer_unused __attribute__((unused));

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct sock_common___tcp {
	unsigned char skc_state;
	unsigned short skc_family;
};

struct sock___tcp {
	struct sock_common___tcp __sk_common;
	u16 sk_protocol;
	int sk_err;
	u32 sk_ack_backlog, sk_max_ack_backlog;
};

struct tcp_sock {
	u32 write_seq, snd_una, rcv_nxt, copied_seq, total_retrans;
};

struct bpf_iter__task_file {
	struct task_struct *task;
	struct file *file;
};

#pragma clang attribute pop

/* Names are only sent. */
static __always_inline void note_name(struct walk *w)
{
}

static __always_inline bool is_tcp(struct sock___tcp *sk)
{
	u16 family = BPF_CORE_READ(sk, __sk_common.skc_family);

	return (family == AF_INET || family == AF_INET6) &&
	    BPF_CORE_READ(sk, sk_protocol) == IPPROTO_TCP;
}

/* Reads how much waits to be sent and to be read. */
static __always_inline void read_queues(struct connection *c, struct sock___tcp *sk)
{
	struct tcp_sock *tcp = (void *)sk;

	if (c->state == TCP_LISTEN) {
		c->receive_queue = BPF_CORE_READ(sk, sk_ack_backlog);
		c->send_queue = BPF_CORE_READ(sk, sk_max_ack_backlog);
		return;
	}
	if (c->state == TCP_CLOSE || c->state == TCP_SYN_SENT)
		return; /* the numbers mean nothing */
	c->send_queue = BPF_CORE_READ(tcp, write_seq) - BPF_CORE_READ(tcp, snd_una);
	c->receive_queue = BPF_CORE_READ(tcp, rcv_nxt) - BPF_CORE_READ(tcp, copied_seq);
	c->retransmitted = BPF_CORE_READ(tcp, total_retrans);
}

/* Who closed first a connection that is in this state when it becomes the process's. A reset is
 * an error, EPIPE if it comes after the other side has closed.
 */
static __always_inline u32 closer_before(u32 state, u32 error)
{
	switch (state) {
	case TCP_FIN_WAIT1:
	case TCP_FIN_WAIT2:
		return CLOSED_HERE;
	case TCP_CLOSE_WAIT:
	case TCP_LAST_ACK:
		return CLOSED_THERE;
	case TCP_CLOSE:
		if (error == ECONNRESET || error == EPIPE)
			return CLOSED_THERE;
	}
	return CLOSED_BY_NONE;
}

/* Makes a socket in that state known as that of a process; null if there is no room. */
static __noinline struct tracked *track(u64 socket, u32 tgid, u32 state)
{
	struct tracked fresh = { .tgid = tgid, .state = state }, *tracked;

	fresh.closer = closer_before(state, BPF_CORE_READ((struct sock___tcp *)socket, sk_err));
	fresh.number = __sync_fetch_and_add(&seen, 1) + 1;
	bpf_map_update_elem(&sockets, &socket, &fresh, BPF_ANY);
	tracked = bpf_map_lookup_elem(&sockets, &socket);
	if (!tracked)
		count(unfollowed);
	return tracked;
}

/* What an event about a socket has besides what is read of the socket. */
struct happened {
	u64 ids, hash, waited;
	u32 what, old, state, retransmitted;
};

static __noinline int send_connection(
    struct sock___tcp *sk, struct tracked *tracked, struct happened *h)
{
	struct connection *c;

	if (!tracked || !h)
		return 0;
	c = bpf_ringbuf_reserve(&events, sizeof(*c), 0);
	if (!c) {
		count(lost);
		return 0;
	}
	__builtin_memset(c, 0, sizeof(*c));
	c->event = EVENT_TCP;
	c->what = h->what;
	c->old = h->old;
	c->state = h->state;
	c->ids = h->ids;
	c->time = bpf_ktime_get_ns();
	c->hash = h->hash;
	c->number = tracked->number;
	c->waited = h->waited;
	c->closer = tracked->closer;
	c->error = h->state == TCP_CLOSE ? BPF_CORE_READ(sk, sk_err) : 0;
	read_queues(c, sk);
	c->retransmitted += h->retransmitted;
	read_ends(&c->ends, (void *)sk);
	tracked->send_queue = c->send_queue;
	tracked->receive_queue = c->receive_queue;
	bpf_ringbuf_submit(c, BPF_RB_NO_WAKEUP);
	return 0;
}

/* Whether a call of the process changes the state so, rather than a packet or a timer. */
static __always_inline bool is_call(u32 old, u32 state, u32 error)
{
	switch (state) {
	case TCP_SYN_SENT:
	case TCP_LISTEN:
	case TCP_FIN_WAIT1:
	case TCP_LAST_ACK:
		return true;
	case TCP_CLOSE:
		return !error &&
		    (old == TCP_ESTABLISHED || old == TCP_CLOSE_WAIT || old == TCP_SYN_SENT ||
		        old == TCP_LISTEN);
	}
	return false;
}

/* Who closes first if an established connection's state changes so. */
static __always_inline u32 closer_of(u32 state, u32 error)
{
	if (state == TCP_FIN_WAIT1)
		return CLOSED_HERE;
	if (state != TCP_CLOSE)
		return CLOSED_THERE;
	if (error)
		return error == ECONNRESET || error == EPIPE ? CLOSED_THERE : CLOSED_BY_NONE;
	return CLOSED_HERE;
}

/* What changed the state of a socket: one of no traced process, a packet or a timer, or a call. */
enum cause { CAUSE_NOT_OURS, CAUSE_PACKET, CAUSE_CALL };

/* Notes that a state changes. Not inlined, as others: older kernels allow small stacks. */
static __noinline u32 note_state(u64 *ctx, u64 ids)
{
	struct sock___tcp *sk = (void *)ctx[0];
	u64 socket = ctx[0], now;
	u32 old = ctx[1], state = ctx[2], tgid = ids >> 32, error;
	struct tracked *tracked = bpf_map_lookup_elem(&sockets, &socket);

	if (tracked && tracked->state == state)
		return CAUSE_NOT_OURS; /* no change, or the other program has seen it */
	if (state == TCP_SYN_SENT || state == TCP_LISTEN ||
	    (state == TCP_SYN_RECV && old == TCP_LISTEN)) {
		if (tracked)
			count(unreported); /* the end of another socket at that address */
		bpf_map_delete_elem(&sockets, &socket);
		if (state == TCP_SYN_RECV || !bpf_map_lookup_elem(&processes, &tgid))
			return CAUSE_NOT_OURS;
		return track(socket, tgid, state) ? CAUSE_CALL : CAUSE_NOT_OURS;
	}
	if (!tracked) {
		now = bpf_ktime_get_ns();
		if (state == TCP_ESTABLISHED)
			bpf_map_update_elem(&unaccepted, &socket, &now, BPF_ANY);
		return CAUSE_NOT_OURS;
	}
	if (tracked->state != old)
		count(unreported);
	tracked->state = state;
	error = state == TCP_CLOSE ? BPF_CORE_READ(sk, sk_err) : 0;
	if (old == TCP_ESTABLISHED && !tracked->closer)
		tracked->closer = closer_of(state, error);
	return is_call(old, state, error) && bpf_map_lookup_elem(&processes, &tgid) ? CAUSE_CALL :
	                                                                              CAUSE_PACKET;
}

/* Sends that a state changes; ids are those of the thread whose call does it, or 0. */
static __noinline int send_state(u64 *ctx, u64 ids, u64 hash)
{
	struct happened h = { .what = HAPPENED_STATE, .old = ctx[1], .state = ctx[2] };
	struct tracked *tracked;
	u64 socket = ctx[0];

	tracked = bpf_map_lookup_elem(&sockets, &socket);
	if (!tracked)
		return 0;
	h.ids = ids ? ids : (u64)tracked->tgid << 32;
	h.hash = hash;
	send_connection((void *)socket, tracked, &h);
	if (h.state == TCP_CLOSE)
		bpf_map_delete_elem(&sockets, &socket);
	return 0;
}

/* inet_sock_set_state(struct sock *, int old, int new), before the new state is set. */
static __always_inline int follow_state(u64 *ctx)
{
	u64 ids, hash = 0;
	u32 cause;

	if (!is_tcp((void *)ctx[0]))
		return 0;
	ids = current_ids();
	cause = note_state(ctx, ids);
	if (cause == CAUSE_NOT_OURS)
		return 0;
	if (cause == CAUSE_CALL && with_stacks)
		hash = stack_once(ctx, ids, 0);
	send_state(ctx, cause == CAUSE_CALL ? ids : 0, hash);
	return 0;
}

SEC("tp_btf/inet_sock_set_state")
int on_state(u64 *ctx)
{
	return follow_state(ctx);
}

/* Sees what on_state does not: the kernel does not run a program that a packet interrupts for that
 * packet. Any number of programs may see a change: the first that does notes the new state.
 */
SEC("tp_btf/inet_sock_set_state")
int on_state_meanwhile(u64 *ctx)
{
	return follow_state(ctx);
}

/* accept(), accept4() begin, where their end may go unseen. */
SEC("tp_btf/sys_enter")
int on_system_call(u64 *ctx)
{
	u64 nr = syscall_number((struct pt_regs *)ctx[0]);

	if (nr < MAX_SYSCALLS && syscalls[nr].wanted)
		handles_begin(ctx, current_ids());
	return 0;
}

/* accept(), accept4() have returned: at the tracepoint or in the kernel's function (stopon.bpf.c). */
SEC("tp_btf/sys_exit")
int on_system_call_end(u64 *ctx)
{
	struct pt_regs *regs = (struct pt_regs *)ctx[0];
	u64 nr = syscall_number(regs), ids, socket, *since;
	struct happened h = { .what = HAPPENED_ACCEPTED };
	struct sock___tcp *sk;
	struct tracked *tracked;
	s64 result = ctx[1];
	u32 tgid;

	if ((result < 0 && !repeats) || nr >= MAX_SYSCALLS || !syscalls[nr].wanted)
		return 0;
	ids = current_ids();
	tgid = ids >> 32;
	if (!is_traced(ids) || !handles_end(ctx, ids, CALL_ENDS) || result < 0)
		return 0;
	sk = (void *)socket_of(result);
	if (!sk || !is_tcp(sk))
		return 0;
	socket = (u64)sk;
	h.ids = ids;
	h.state = BPF_CORE_READ(sk, __sk_common.skc_state);
	h.old = h.state;
	since = bpf_map_lookup_elem(&unaccepted, &socket);
	if (since) {
		h.waited = bpf_ktime_get_ns() - *since;
		bpf_map_delete_elem(&unaccepted, &socket);
	} else {
		count(untimed);
	}
	tracked = track(socket, tgid, h.state);
	send_connection(sk, tracked, &h);
	if (h.state == TCP_CLOSE)
		bpf_map_delete_elem(&sockets, &socket); /* nothing more happens to it */
	return 0;
}

/* tcp_retransmit_skb(struct sock *, struct sk_buff *, ...) */
SEC("tp_btf/tcp_retransmit_skb")
int on_retransmit(u64 *ctx)
{
	struct sock___tcp *sk = (void *)ctx[0];
	struct happened h = { .what = HAPPENED_RETRANSMITTED };
	u64 socket = ctx[0];
	struct tracked *tracked = bpf_map_lookup_elem(&sockets, &socket);

	if (!tracked)
		return 0;
	h.ids = (u64)tracked->tgid << 32;
	h.state = h.old = BPF_CORE_READ(sk, __sk_common.skc_state);
	send_connection(sk, tracked, &h);
	return 0;
}

/* The number of a task's process in user space's pid namespace. */
static __always_inline u32 process_of(struct task_struct *task)
{
	return pid_namespace ? number_of(BPF_CORE_READ(task, group_leader)) :
	                       (u32)BPF_CORE_READ(task, tgid);
}

/* Each open file of each process, whenever user space reads them: its sockets are found, and how much
 * waits in them.
 */
SEC("iter/task_file")
int on_file(struct bpf_iter__task_file *ctx)
{
	struct connection queues = {};
	struct task_struct *task = ctx->task;
	struct file *file = ctx->file;
	struct happened h = {};
	struct sock___tcp *sk;
	struct tracked *tracked;
	u64 socket;
	u32 tgid;

	if (!task || !file)
		return 0;
	tgid = process_of(task);
	if (!bpf_map_lookup_elem(&processes, &tgid))
		return 0;
	sk = (void *)socket_in(file);
	if (!sk || !is_tcp(sk))
		return 0;
	socket = (u64)sk;
	h.ids = (u64)tgid << 32;
	h.state = h.old = queues.state = BPF_CORE_READ(sk, __sk_common.skc_state);
	tracked = bpf_map_lookup_elem(&sockets, &socket);
	if (tracked) {
		read_queues(&queues, sk);
		if (queues.send_queue == tracked->send_queue &&
		    queues.receive_queue == tracked->receive_queue)
			return 0;
		h.what = HAPPENED_QUEUES;
	} else if (h.state == TCP_CLOSE) {
		return 0; /* it is not connected */
	} else {
		h.what = HAPPENED_FOUND;
		tracked = track(socket, tgid, h.state);
	}
	send_connection(sk, tracked, &h);
	return 0;
}

char _license[] SEC("license") = "Dual MIT/GPL";
