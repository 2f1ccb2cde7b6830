/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * HTTP/1 messages (RFC 9112) while they come: what is known of one, and the piece of it that is read.
 */
#ifndef USTACK_PIECE_H
#define USTACK_PIECE_H

#include "walk.h"

enum http_limit {
	URL_BYTES = 2048, /* of a request's target; a power of two */
	HOST_BYTES = 64,  /* of a Host field */
	METHOD_BYTES = 16,
	CARRIED_BYTES = 64, /* of a line's beginning, from one piece to the next */
};

#define WINDOW_BYTES 4096 /* of a head at a time; a power of two */
#define WINDOW_SLACK (2 * CARRIED_BYTES + 8)
#define LINE_BYTES 32  /* of a line between chunks at a time */
#define MAX_LINES 64   /* of a head at a time */
#define SOME_PARTS 64  /* of pieces at a time */
#define MAX_PARTS 4096 /* of what is written or read at once: two for each request without a body */
#define MUCH (1ull << 60) /* of a body, if its length is not understood */
#define MAX_BLANKS 16     /* after a field, around a target; and returns before a request */
#define MAX_DIGITS 15     /* of a chunk's size: V8's largest buffer has 9 */
#define FIRST_BYTES 12    /* of a status line: HTTP/1.1 200 */

enum message_state {
	MESSAGE_HEAD,
	MESSAGE_LINE, /* the rest of a request line */
	MESSAGE_BODY,
	MESSAGE_CHUNK, /* and the end of its line */
	MESSAGE_CHUNK_SIZE,
	MESSAGE_CHUNK_EXTENSION,
	MESSAGE_TRAILER,
	MESSAGE_UNTIL_CLOSE, /* the body ends with the connection */
	MESSAGE_OPAQUE,      /* no HTTP/1 any more: upgraded, a tunnel, or it never was */
	MESSAGE_LOST,        /* its end was not found: it is where the next begins */
};

/* What is known about the current message of one direction. */
struct message {
	u64 begun, last; /* ns: when its first and its latest bytes came */
	u64 bytes;       /* so far, its head's too */
	u64 left;        /* of the body, or of the chunk with the end of its line */
	u16 status;      /* of a response */
	u8 state;        /* enum message_state */
	u8 is_begun;     /* its first line was read */
	u8 is_chunked, is_sized;
	u8 digits;    /* of the chunk's size so far */
	u8 is_filled; /* the trailer's current line is not empty */
	u32 carried; /* bytes of the line's beginning that came with the last piece: see piece_of */
	u8 has_length; /* the head's latest field says how long the body is */
	u8 pad[3];
};

enum direction { REQUESTS, RESPONSES };

/* What a part of a piece was. */
enum part {
	PART_SOME,
	PART_TARGET,  /* more of a target is in the window */
	PART_HEAD,    /* the head is complete: begin_body() is to be called */
	PART_MESSAGE, /* the message is complete */
};

/* A piece while it is read. */
struct piece_of {
	u64 at, end; /* what is left of it, in the process */
	struct message message;
	u8 carry[CARRIED_BYTES]; /* the beginning of a line that message.carried counts */
	u16 direction;
	u8 is_received; /* a parser reads it, too, and confirms what is taken for a request */
	u8 has_request; /* a request's method and target are in the window */
	u32 have;       /* bytes in the window */
	u32 method_from, method_bytes, target_from, target_bytes;
	u32 host_from, host_bytes; /* the Host field that is in the window, if it is asked for */
	u8 window[WINDOW_BYTES + WINDOW_SLACK];
};

#define LOWER 0x2020202020202020ull
#define BYTES_OF_ONE 0x0101010101010101ull

/* Bounds a length, out of the compiler's sight: it may compare a copy of the length, and the verifier
 * does not know then that the length itself is bounded (clang 14, Linux 6.1).
 */
#if defined(__bpf__)
#define bound(n, most) asm volatile("if %0 <= %1 goto +1\n%0 = %1" : "+r"(n) : "i"(most))
#else
#define bound(n, most) ((n) = (n) > (most) ? (most) : (n)) /* bpf/hosttest */
#endif

static __always_inline u64 eight(struct piece_of *p, u64 at)
{
	mask_index(at, WINDOW_BYTES - 1);
	return *(u64 *)(p->window + at);
}

static __always_inline u8 byte_at(struct piece_of *p, u64 at)
{
	mask_index(at, WINDOW_BYTES - 1);
	return p->window[at];
}

/* Whether nothing of a message has come that is kept. */
static __always_inline bool is_unbegun(struct message *m)
{
	return m->state == MESSAGE_HEAD && !m->is_begun && !m->carried;
}

/* Whether a part of the next message's first line has come. */
static __always_inline bool has_beginning(struct message *m)
{
	return m->state == MESSAGE_HEAD && !m->is_begun && m->carried;
}

/* Makes m ready for the next message. */
static __always_inline void next_message(struct message *m)
{
	__builtin_memset(m, 0, sizeof(*m));
}

#endif
