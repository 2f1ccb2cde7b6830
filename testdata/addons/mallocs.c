/*
 * An add-on that is preloaded, too: it counts the bytes that each thread asks malloc for. Exports
 * counted(), those of the calling thread so far, and take(n), which asks for n bytes and frees them.
 */

#include <node_api.h>
#include <stddef.h>
#include <stdint.h>

void *__libc_malloc(size_t bytes);
void *__libc_realloc(void *p, size_t bytes);
void free(void *p);

static __attribute__((tls_model("initial-exec"))) __thread uint64_t counted;

void *malloc(size_t bytes)
{
	counted += bytes;
	return __libc_malloc(bytes);
}

void *realloc(void *p, size_t bytes)
{
	if (!p) /* the C library's calls its malloc */
		counted += bytes;
	return __libc_realloc(p, bytes);
}

static napi_value get_counted(napi_env env, napi_callback_info info)
{
	uint64_t so_far = counted;
	napi_value result;

	(void)info;
	napi_create_double(env, (double)so_far, &result);
	return result;
}

static napi_value take(napi_env env, napi_callback_info info)
{
	napi_value arg;
	size_t count = 1;
	int64_t bytes = 0;
	void *volatile p;

	napi_get_cb_info(env, info, &count, &arg, NULL, NULL);
	napi_get_value_int64(env, arg, &bytes);
	p = malloc(bytes);
	free(p);
	return NULL;
}

NAPI_MODULE_INIT()
{
	napi_property_descriptor all[] = {
		{ "counted", NULL, get_counted, NULL, NULL, NULL, napi_enumerable, NULL },
		{ "take", NULL, take, NULL, NULL, NULL, napi_enumerable, NULL },
	};

	napi_define_properties(env, exports, sizeof(all) / sizeof(all[0]), all);
	return exports;
}
