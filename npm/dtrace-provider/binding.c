// SPDX-License-Identifier: MIT
//
// Maps the library that elf.js makes, and reaches its probes.
//
// The library is a file in memory that has no name in any folder and ends with the process. It is
// sealed before it is mapped, so that nobody can change it. Its counters are mapped writable and
// private: the kernel counts there who watches a probe (uprobes with a reference counter, Linux
// 4.20). JavaScript reads them as an ArrayBuffer, so a probe that nobody watches costs it one load.

#define _GNU_SOURCE
#define NAPI_VERSION 7

#include <fcntl.h>
#include <node_api.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MAX_ARGUMENTS 32
#define MAX_TEXT (256 << 10) // bytes of one argument
#define ARENA (MAX_ARGUMENTS * MAX_TEXT)
#define MAX_PROBES 2048 // of one library: their counters are on one page
#define NOEXEC_SEAL 8   // include/uapi/linux/memfd.h: MFD_NOEXEC_SEAL, MFD_EXEC, Linux 6.3
#define EXEC 16

// A library that is mapped; base is null once it is not.
struct library {
	char *base;
	size_t length;
	int fd; // some tracers find the file by it
	uint32_t functions, stub, probes;
};

// What each environment has: room for the texts of one probe's arguments. It is touched only as far
// as texts are long.
struct environment {
	char *arena;
};

static napi_value fail(napi_env env, const char *message)
{
	napi_throw_error(env, NULL, message);
	return NULL;
}

static void unmap(struct library *l)
{
	if (!l->base)
		return;
	munmap(l->base, l->length);
	close(l->fd);
	l->base = NULL;
}

static void forget(napi_env env, void *data, void *hint)
{
	(void)env;
	(void)hint;
	unmap(data);
	free(data);
}

// Executable if possible: bpftrace reads no other files. A machine may forbid that (vm.memfd_noexec),
// and older kernels do not know the flags.
static int make_file(const char *name, const char *bytes, size_t length)
{
	const unsigned flags[] = { EXEC, NOEXEC_SEAL, 0 };
	size_t done = 0;
	int fd = -1;

	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]) && fd < 0; i++)
		fd = syscall(SYS_memfd_create, name, MFD_CLOEXEC | MFD_ALLOW_SEALING | flags[i]);
	if (fd < 0)
		return -1;
	while (done < length) {
		ssize_t n = write(fd, bytes + done, length - done);

		if (n <= 0)
			goto failed;
		done += n;
	}
	if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL))
		goto failed;
	return fd;
failed:
	close(fd);
	return -1;
}

// Maps the file as its segments say: up to the functions, up to the counters, one page of them.
static int map_file(struct library *l, size_t functions, size_t counters, size_t page)
{
	struct {
		size_t from, to;
		int protection;
	} parts[] = {
		{ 0, functions, PROT_READ },
		{ functions, counters, PROT_READ | PROT_EXEC },
		{ counters, counters + page, PROT_READ | PROT_WRITE },
	};

	l->length = counters + page;
	l->base = mmap(NULL, l->length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (l->base == MAP_FAILED) {
		l->base = NULL;
		return 0;
	}
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		void *at = mmap(l->base + parts[i].from, parts[i].to - parts[i].from, parts[i].protection,
		    MAP_PRIVATE | MAP_FIXED, l->fd, parts[i].from);

		if (at == MAP_FAILED)
			return 0;
	}
	return 1;
}

// map(name, bytes, functions, counters, stub, probes) returns { handle, counters }.
static napi_value map(napi_env env, napi_callback_info info)
{
	napi_value arguments[6], handle, buffer, result;
	uint32_t numbers[4];
	size_t count = 6, length, page = sysconf(_SC_PAGESIZE);
	char name[200];
	void *bytes;
	struct library *l;

	if (napi_get_cb_info(env, info, &count, arguments, NULL, NULL) != napi_ok || count != 6 ||
	    napi_get_value_string_utf8(env, arguments[0], name, sizeof(name), NULL) != napi_ok ||
	    napi_get_buffer_info(env, arguments[1], &bytes, &length) != napi_ok)
		return fail(env, "map: bad arguments");
	for (int i = 0; i < 4; i++) {
		if (napi_get_value_uint32(env, arguments[2 + i], &numbers[i]) != napi_ok)
			return fail(env, "map: bad arguments");
	}
	if (numbers[0] % page || numbers[1] % page || numbers[0] >= numbers[1] ||
	    numbers[1] + page > length || !numbers[3] || numbers[3] > MAX_PROBES ||
	    numbers[0] + (size_t)numbers[2] * numbers[3] > numbers[1])
		return fail(env, "map: bad layout");
	l = calloc(1, sizeof(*l));
	if (!l)
		return fail(env, "out of memory");
	l->functions = numbers[0];
	l->stub = numbers[2];
	l->probes = numbers[3];
	l->fd = make_file(name, bytes, length);
	if (l->fd < 0) {
		free(l);
		return fail(env, "no file in memory for probes (memfd_create)");
	}
	if (!map_file(l, numbers[0], numbers[1], page)) {
		unmap(l);
		free(l);
		return fail(env, "probes cannot be mapped as code (mmap)");
	}
	if (napi_create_external(env, l, forget, NULL, &handle) != napi_ok) {
		unmap(l);
		free(l);
		return fail(env, "no handle for probes");
	}
	// From here on, the handle's end unmaps the library.
	if (napi_create_external_arraybuffer(env, l->base + numbers[1], 2 * (size_t)numbers[3], NULL, NULL, &buffer) != napi_ok ||
	    napi_create_object(env, &result) != napi_ok ||
	    napi_set_named_property(env, result, "handle", handle) != napi_ok ||
	    napi_set_named_property(env, result, "counters", buffer) != napi_ok)
		return fail(env, "JavaScript cannot read counters of probes here");
	return result;
}

static struct library *library_of(napi_env env, napi_value handle)
{
	void *l = NULL;
	napi_valuetype type;

	if (napi_typeof(env, handle, &type) != napi_ok || type != napi_external)
		return NULL;
	napi_get_value_external(env, handle, &l);
	return l;
}

// unmap(handle, counters): the library is gone, and so is the ArrayBuffer's memory.
static napi_value unmap_library(napi_env env, napi_callback_info info)
{
	napi_value arguments[2];
	size_t count = 2;
	struct library *l;

	if (napi_get_cb_info(env, info, &count, arguments, NULL, NULL) != napi_ok || count != 2 ||
	    !(l = library_of(env, arguments[0])))
		return fail(env, "unmap: bad arguments");
	if (napi_detach_arraybuffer(env, arguments[1]) != napi_ok)
		return fail(env, "unmap: the counters are in use");
	unmap(l);
	return NULL;
}

// fire(handle, index, values) reaches a probe. Values are texts and integers.
static napi_value fire(napi_env env, napi_callback_info info)
{
	napi_value arguments[3];
	size_t count = 3, used = 0;
	uint32_t index, values;
	struct environment *e;
	struct library *l;
	int64_t passed[MAX_ARGUMENTS] = { 0 };

	if (napi_get_cb_info(env, info, &count, arguments, NULL, NULL) != napi_ok || count != 3 ||
	    !(l = library_of(env, arguments[0])) ||
	    napi_get_value_uint32(env, arguments[1], &index) != napi_ok ||
	    napi_get_array_length(env, arguments[2], &values) != napi_ok ||
	    napi_get_instance_data(env, (void **)&e) != napi_ok)
		return fail(env, "fire: bad arguments");
	if (!l->base || index >= l->probes)
		return NULL;
	for (uint32_t i = 0; i < values && i < MAX_ARGUMENTS; i++) {
		napi_value value;
		size_t length;

		if (napi_get_element(env, arguments[2], i, &value) != napi_ok)
			return fail(env, "fire: bad values");
		if (napi_get_value_int64(env, value, &passed[i]) == napi_ok)
			continue;
		if (napi_get_value_string_utf8(env, value, e->arena + used, MAX_TEXT, &length) != napi_ok)
			return fail(env, "fire: bad values");
		passed[i] = (intptr_t)(e->arena + used);
		used += length + 1;
	}
	((void (*)(int64_t *))(l->base + l->functions + (size_t)l->stub * index))(passed);
	// The kernel has read the texts behind passed: the compiler must not think it unused.
	__asm__ volatile("" ::"r"(passed) : "memory");
	return NULL;
}

static void end(napi_env env, void *data, void *hint)
{
	struct environment *e = data;

	(void)env;
	(void)hint;
	munmap(e->arena, ARENA);
	free(e);
}

NAPI_MODULE_INIT()
{
	struct environment *e = calloc(1, sizeof(*e));
	napi_property_descriptor all[] = {
		{ "map", NULL, map, NULL, NULL, NULL, napi_default, NULL },
		{ "unmap", NULL, unmap_library, NULL, NULL, NULL, napi_default, NULL },
		{ "fire", NULL, fire, NULL, NULL, NULL, napi_default, NULL },
	};
	napi_value page;

	if (!e)
		return fail(env, "out of memory");
	e->arena = mmap(NULL, ARENA, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (e->arena == MAP_FAILED) {
		free(e);
		return fail(env, "out of memory");
	}
	if (napi_set_instance_data(env, e, end, NULL) != napi_ok ||
	    napi_define_properties(env, exports, sizeof(all) / sizeof(all[0]), all) != napi_ok ||
	    napi_create_uint32(env, sysconf(_SC_PAGESIZE), &page) != napi_ok ||
	    napi_set_named_property(env, exports, "page", page) != napi_ok)
		return NULL;
	return exports;
}
