/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * What user space and the programs share about events: what may happen, and conditions on it.
 */
#ifndef USTACK_EVENT_H
#define USTACK_EVENT_H

#include "match.h"

/* What one run may have. */
enum hit_limit {
	MAX_SYSCALLS = 512, /* a power of two */
	MAX_CONDITIONS = 8,
	MAX_ERRNOS = 16,
	MAX_BURST = 1024, /* a power of two */
};

enum trigger {
	TRIGGER_SYSCALL,
	TRIGGER_ENTRY,
	TRIGGER_RETURN,
	TRIGGER_USDT,
	TRIGGER_SIGNAL,
	TRIGGER_EXIT,
	TRIGGER_STALL,
	TRIGGER_JS,
	TRIGGER_THROW,
	TRIGGER_UNCAUGHT,
	TRIGGER_STALL_END,
};

enum operand { ARGUMENT, RESULT = 6, DESCRIPTOR };
enum comparison { EQUAL, NOT_EQUAL, LESS, LESS_OR_EQUAL, GREATER, GREATER_OR_EQUAL };

struct condition {
	u32 operand; /* an argument's number, or enum operand */
	u32 comparison;
	s64 value;
};

/* How to read a system call's arguments; -1: it has no such argument. */
struct syscall {
	u8 wanted;
	u8 polls; /* an event loop waits in it */
	s8 descriptor, path, data;
	u8 data_kind;
	s8 address; /* the next argument is its length */
	u8 flags;   /* enum call_flag */
};

enum call_flag {
	CALL_LENGTH_AT = 1,      /* the address's length is where its argument points */
	CALL_ACCEPTS = 2,        /* the result is the descriptor of a socket */
	CALL_MAY_NOT_RETURN = 4, /* to the program and the registers that made it */
};

enum data_kind { DATA_BUFFER, DATA_VECTORS, DATA_MESSAGE };

#define UNIX_BYTES 108 /* include/uapi/linux/un.h: UNIX_PATH_MAX */

/* What a socket is bound and connected to. */
struct ends {
	u32 family;      /* AF_…; 0: not a socket */
	u32 name_length; /* of a Unix socket's name */
	u32 local_port, peer_port;
	u8 local[16], peer[16]; /* the first 4 of IPv4; all zero: none */
	u8 name[UNIX_BYTES];
	u32 is_peers; /* the name is what the Unix socket is connected to, not its own */
};

/* What an event adds to the values of its stack. */
enum weight {
	WEIGHT_COUNT,
	WEIGHT_DURATION, /* ns */
	WEIGHT_RESULT,
	WEIGHT_ARGUMENT,
	WEIGHT_PRODUCT, /* of two arguments */
};

/* How to weigh the events of one kind. */
struct weigher {
	u8 weight;   /* enum weight */
	u8 argument; /* number of the first */
	u8 factor;   /* WEIGHT_PRODUCT: number of the second */
	u8 pad;
};

/* A field of a tracepoint's record. */
struct field {
	u16 offset;
	u8 size; /* in bytes; 0: no such field */
	u8 is_signed;
};

/* Where a USDT probe has an argument. */
enum place_kind { PLACE_NONE, PLACE_CONSTANT, PLACE_REGISTER, PLACE_MEMORY };

struct place {
	u8 kind; /* enum place_kind */
	u8 size; /* in bytes */
	u8 is_signed;
	u8 has_index;    /* PLACE_MEMORY: index is added to the address, scale times */
	u16 base, index; /* offsets of registers in struct pt_regs */
	u32 scale;
	s64 offset; /* PLACE_CONSTANT: the value; PLACE_MEMORY: from the base */
};

#define MAX_ARGUMENTS 6

struct usdt {
	struct place arguments[MAX_ARGUMENTS];
};

/* Events by stack (aggregate.h). */

enum profile_limit {
	MAX_EVENTS = 8,  /* kinds of them in one run; a power of two */
	BUCKET_ZERO = 64 /* stack_key.bucket of the value 0 */
};

struct stack_key {
	u64 ids;
	u64 hash;
	u16 event;  /* number of its kind */
	u16 turn;   /* turn.h */
	u32 bucket; /* the power of two of its value, if values are kept apart; else 0 */
};

struct total {
	u64 events;
	u64 value;
};

#endif
