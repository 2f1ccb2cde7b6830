/*
 * An add-on whose exported function, spin, calls outer, which calls middle, which calls
 * inner until the milliseconds of its argument are over. inner computes, calls the C library,
 * which calls back `compare`, and asks the vdso for the time. Each keeps data in as many
 * registers as it can, the frame pointer among them if it may.
 */

#include <node_api.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define COUNT 64

static __attribute__((noipa)) int compare(const void *a, const void *b)
{
	return *(const int *)a < *(const int *)b ? -1 : *(const int *)a > *(const int *)b;
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e3 + t.tv_nsec / 1e6;
}

static __attribute__((noipa)) long inner(int *numbers, long a, long b, long c, long d, long e)
{
	for (int i = 0; i < COUNT; i++) {
		a += b ^ (c >> 3);
		b = b * 31 + d;
		c ^= e + a;
		d += c & numbers[i];
		e = e * 17 + b;
		numbers[i] = (int)(a ^ d);
	}
	qsort(numbers, COUNT, sizeof(*numbers), compare);
	return a + b + c + d + e;
}

static __attribute__((noipa)) long middle(const int *from, long a, long b)
{
	int numbers[COUNT];
	long sum = 0;

	memcpy(numbers, from, sizeof(numbers));
	for (int i = 0; i < 8; i++)
		sum += inner(numbers, a, b, sum, a + i, b - i) + a;
	return sum;
}

static __attribute__((noipa)) long outer(double until)
{
	int numbers[COUNT] = { 7, 3, 5 };
	long sum = 1, other = 2;

	while (now() < until) {
		sum += middle(numbers, sum, other);
		other ^= sum;
	}
	return sum + other;
}

static __attribute__((noipa)) napi_value spin(napi_env env, napi_callback_info info)
{
	napi_value argument, result;
	size_t count = 1;
	double milliseconds = 0;

	napi_get_cb_info(env, info, &count, &argument, NULL, NULL);
	napi_get_value_double(env, argument, &milliseconds);
	napi_create_int64(env, outer(now() + milliseconds), &result);
	return result;
}

NAPI_MODULE_INIT()
{
	napi_value function;

	napi_create_function(env, "spin", NAPI_AUTO_LENGTH, spin, NULL, &function);
	return function;
}
