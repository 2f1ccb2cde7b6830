//go:build ignore

// SPDX-License-Identifier: GPL-2.0 OR MIT
//
// The kernel's unwinder as a program of the host, over recorded memory.
//
// For each struct input on standard input, with what follows it, it unwinds one stack and writes
// to standard output: the records for user space, each after its size as u32; a size of 0;
// the counters of failures; the number of touched pieces of memory, and each as address and size;
// the number of rows of unwind tables that were used, and each one's number.

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../stack.h"

#define MAX_MAPS 16
#define MAX_MEMORY (64 << 20)
#define MAX_PIECES_OF_MEMORY (1 << 16)
#define MAX_TOUCHED (1 << 16)
#define MAX_SECONDS 20 /* for one stack */

/* Names are only sent. */
static __always_inline void note_name(struct walk *w)
{
}

struct input {
	u32 process_bytes; /* of struct process */
	u32 live;          /* read this process's memory, not what is recorded; 0: none */
	u64 ids;
	u64 thread_pointer;
	struct pt_regs registers;
	u32 rows, pieces;
	u32 again,
	    pad; /* keep what the programs remember of the stack before; else it is as the first */
	/* process, rows: struct row, pieces: struct piece_of_memory, and the bytes of each */
};

struct row {
	u32 key;
	struct unwind_row row;
};

struct piece_of_memory {
	u64 address, bytes;
};

static struct input input;
static struct task_struct task;
static int live = -1; /* the file with the live process's memory */

/* Memory: pieces by address, which do not overlap, and where in content each one begins. */
static struct piece_of_memory *pieces;
static u64 *places;
static u8 *content;

static struct piece_of_memory touched[MAX_TOUCHED];
static u32 touched_count;

/* A map: an array of values, or a list of entries that are searched one by one. A large one is
 * cleared faster than it is made: only what was looked up, up to count, can hold anything.
 */
static struct map {
	const void *definition;
	u64 count, key_bytes, value_bytes;
	u8 *keys, *values; /* keys: not of an array */
} maps[MAX_MAPS];

static u8 *used_rows; /* by number */
static u32 *row_keys;

static void fail(const char *what)
{
	fprintf(stderr, "host: %s\n", what);
	exit(2);
}

static void *allocate(u64 count, u64 bytes)
{
	void *new = calloc(count ? count : 1, bytes);

	if (!new)
		fail("out of memory");
	return new;
}

static void read_all(void *to, u64 bytes)
{
	if (bytes && fread(to, bytes, 1, stdin) != 1)
		fail("the input ends early");
}

static void write_all(const void *from, u64 bytes)
{
	if (bytes && fwrite(from, bytes, 1, stdout) != 1)
		fail("cannot write");
}

static void write_u32(u32 value)
{
	write_all(&value, sizeof(value));
}

static struct map *map_of(
    const void *definition, u64 kind, u64 entries, u64 key_bytes, u64 value_bytes)
{
	struct map *m = maps;

	while (m->definition && m->definition != definition) {
		if (++m == maps + MAX_MAPS)
			fail("too many maps");
	}
	if (!m->definition) {
		m->definition = definition;
		m->key_bytes = key_bytes;
		m->value_bytes = value_bytes;
		m->values = allocate(entries, value_bytes);
		if (kind != BPF_MAP_TYPE_ARRAY && kind != BPF_MAP_TYPE_PERCPU_ARRAY)
			m->keys = allocate(entries, key_bytes);
	}
	return m;
}

void *host_lookup(
    const void *map, u64 kind, u64 entries, u64 key_bytes, u64 value_bytes, const void *key)
{
	struct map *m = map_of(map, kind, entries, key_bytes, value_bytes);

	if (!m->keys) {
		u32 at = *(u32 *)key;

		if (at >= entries)
			return 0;
		if (live >= 0 && map == &unwind_rows)
			used_rows[at] = 1;
		if (m->count <= at)
			m->count = at + 1;
		return m->values + at * value_bytes;
	}
	for (u64 i = 0; i < m->count; i++) {
		if (!memcmp(m->keys + i * key_bytes, key, key_bytes))
			return m->values + i * value_bytes;
	}
	return 0;
}

int host_update(const void *map, u64 kind, u64 entries, u64 key_bytes, u64 value_bytes,
    const void *key, const void *value)
{
	u8 *place = host_lookup(map, kind, entries, key_bytes, value_bytes, key);
	struct map *m = map_of(map, kind, entries, key_bytes, value_bytes);

	if (!place && (!m->keys || m->count >= entries))
		return -1;
	if (!place) {
		memcpy(m->keys + m->count * key_bytes, key, key_bytes);
		place = m->values + m->count++ * value_bytes;
	}
	memcpy(place, value, value_bytes);
	return 0;
}

long host_send(const void *from, u64 bytes)
{
	write_u32(bytes);
	write_all(from, bytes);
	return 0;
}

/* Copies what is in one piece of memory. */
static bool copy_memory(void *to, u64 bytes, u64 from)
{
	u32 low = 0,
	    high = input.pieces; /* the piece is the last in them that begins before from */

	while (high - low > 1) {
		u32 middle = low + (high - low) / 2;

		if (pieces[middle].address <= from)
			low = middle;
		else
			high = middle;
	}
	if (low == high || from < pieces[low].address)
		return false;
	from -= pieces[low].address;
	if (from > pieces[low].bytes || bytes > pieces[low].bytes - from)
		return false;
	memcpy(to, content + places[low] + from, bytes);
	return true;
}

long host_copy(void *to, u64 bytes, const void *from)
{
	memcpy(to, from, bytes);
	return 0;
}

long host_read(void *to, u64 bytes, u64 from)
{
	if (live >= 0) {
		if (bytes && pread(live, to, bytes, from) != (ssize_t)bytes)
			goto unreadable;
		if (touched_count == MAX_TOUCHED)
			fail("too many reads");
		touched[touched_count].address = from;
		touched[touched_count++].bytes = bytes;
		return 0;
	}
	if (copy_memory(to, bytes, from))
		return 0;
unreadable: /* as the kernel does */
	memset(to, 0, bytes);
	return -14;
}

void *host_task(void)
{
	return &task;
}

void *host_registers(void)
{
	return &input.registers;
}

u64 host_ids(void)
{
	return input.ids;
}

static void read_memory(void)
{
	u64 bytes = 0;

	if (input.pieces > MAX_PIECES_OF_MEMORY)
		fail("too many pieces of memory");
	pieces = allocate(input.pieces, sizeof(*pieces));
	places = allocate(input.pieces, sizeof(*places));
	read_all(pieces, input.pieces * sizeof(*pieces));
	for (u32 i = 0; i < input.pieces; i++) {
		if (pieces[i].bytes > MAX_MEMORY - bytes)
			fail("too much memory");
		if (i && pieces[i].address - pieces[i - 1].address < pieces[i - 1].bytes)
			fail("pieces of memory overlap");
		if (i && pieces[i].address < pieces[i - 1].address)
			fail("pieces of memory are not in order");
		places[i] = bytes;
		bytes += pieces[i].bytes;
	}
	content = allocate(bytes, 1);
	read_all(content, bytes);
}

static void read_input(void)
{
	struct process *process = allocate(1, sizeof(*process));
	u32 tgid = input.ids >> 32;

	if (input.process_bytes != sizeof(*process))
		fail("struct process is of another size");
	read_all(process, sizeof(*process));
	bpf_map_update_elem(&processes, &tgid, process, BPF_ANY);
	free(process);
	row_keys = allocate(input.rows, sizeof(*row_keys));
	for (u32 i = 0; i < input.rows; i++) {
		struct row row;

		read_all(&row, sizeof(row));
		row_keys[i] = row.key;
		bpf_map_update_elem(&unwind_rows, &row.key, &row.row, BPF_ANY);
	}
	read_memory();
	if (input.live) {
		char path[32];

		memset(used_rows, 0, MAX_ROWS);
		snprintf(path, sizeof(path), "/proc/%u/mem", input.live);
		live = open(path, O_RDONLY);
		if (live < 0)
			fail("cannot open the process's memory");
	}
}

static bool is_used(u32 row)
{
	return live >= 0 && row_keys[row] < MAX_ROWS && used_rows[row_keys[row]];
}

static void write_used(void)
{
	u32 used = 0;

	write_u32(touched_count);
	write_all(touched, touched_count * sizeof(touched[0]));
	for (u32 i = 0; i < input.rows; i++)
		used += is_used(i);
	write_u32(used);
	for (u32 i = 0; i < input.rows; i++) {
		if (is_used(i))
			write_u32(row_keys[i]);
	}
}

/* Makes all maps as they were at first. */
static void forget(void)
{
	for (struct map *m = maps; m < maps + MAX_MAPS && m->definition; m++) {
		if (!m->keys)
			memset(m->values, 0, m->count * m->value_bytes);
		m->count = 0;
	}
}

static void free_input(void)
{
	free(pieces);
	free(places);
	free(content);
	free(row_keys);
	if (live >= 0)
		close(live);
	live = -1;
	touched_count = 0;
	described++; /* so that the next process is read */
}

int main(void)
{
	used_rows = allocate(MAX_ROWS, 1);
	while (fread(&input, sizeof(input), 1, stdin) == 1) {
		struct walk *w;

		alarm(MAX_SECONDS);
		if (!input.again)
			forget();
		read_input();
		task.thread.fsbase = input.thread_pointer;
		w = walk_of(input.ids >> 32, 0);
		if (!w)
			fail("no walk");
		capture(w, 0, input.ids, 0);
		send_stack(w, false);
		write_u32(0);
		write_all(failures, sizeof(failures));
		write_used();
		free_input();
		fflush(stdout);
	}
	free(used_rows);
	return 0;
}
