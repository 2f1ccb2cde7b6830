/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * Jobs in flight, each found by the address of its struct uv__work.
 */
#ifndef USTACK_JOBS_H
#define USTACK_JOBS_H

#include "walk.h"

#define MAX_JOBS 131072 /* in flight */
#define MAX_SEATS 4096  /* for jobs, by a hash of their address; a power of two */

struct job_key {
	u64 generation; /* of the process */
	u64 work;       /* address of its struct uv__work */
};

struct job {
	u64 submitted, begun, ended; /* ns, CLOCK_MONOTONIC; 0: not seen */
	u64 kind;                    /* hash of the stack */
	u32 slow;                    /* slow I/O for libuv: may use only half of the threads */
	u32 tid;                     /* that submitted it */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_JOBS);
	__type(key, struct job_key);
	__type(value, struct job);
} jobs SEC(".maps");

/* A place for a job, by a hash of its address. Most find theirs free; the others are in the map of all
 * jobs, whose lookup costs more.
 */
struct seat {
	struct job_key key; /* zero: free */
	struct job job;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_SEATS);
	__type(key, u32);
	__type(value, struct seat);
} seats SEC(".maps");

static __always_inline struct seat *seat_of(const struct job_key *key)
{
	u32 at = mix(key->generation, key->work) >> 32 & (MAX_SEATS - 1);

	return bpf_map_lookup_elem(&seats, &at);
}

static __always_inline bool has_seat(const struct seat *seat, const struct job_key *key)
{
	return seat && seat->key.work == key->work && seat->key.generation == key->generation;
}

static __always_inline struct job *find_job(const struct job_key *key)
{
	struct seat *seat = seat_of(key);

	return has_seat(seat, key) ? &seat->job : bpf_map_lookup_elem(&jobs, key);
}

/* Keeps the job; false if there is no room. */
static __always_inline bool put_job(const struct job_key *key, const struct job *job)
{
	struct seat *seat = seat_of(key);

	if (has_seat(seat, key) ||
	    (seat && !__sync_val_compare_and_swap(&seat->key.work, 0, key->work))) {
		seat->job = *job;
		seat->key.generation = key->generation;
		return true;
	}
	return !bpf_map_update_elem(&jobs, key, job, BPF_ANY);
}

/* Removes the job; false if it is not there. */
static __always_inline bool take_job(const struct job_key *key, struct job *to)
{
	struct seat *seat = seat_of(key);
	struct job *job;

	if (has_seat(seat, key)) {
		*to = seat->job;
		seat->key.generation = 0; /* before another may have it */
		__sync_lock_test_and_set(&seat->key.work, 0);
		return true;
	}
	job = bpf_map_lookup_elem(&jobs, key);
	if (!job)
		return false;
	*to = *job;
	bpf_map_delete_elem(&jobs, key);
	return true;
}

#endif
