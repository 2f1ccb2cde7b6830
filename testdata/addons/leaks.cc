/*
 * An add-on in C++ that keeps memory or loses it. Exports keep(n, size) and lose(n, size), which
 * take n blocks of size bytes from malloc, of which a list has those that are kept and nothing
 * those that are lost, widgets(n), which loses n objects of the class Widget, and info(), what
 * malloc says about itself.
 */

#include <node_api.h>
#include <cstdlib>
#include <cstring>
#include <malloc.h>

class Widget {
public:
	virtual ~Widget() {}
	virtual int number() { return number_; }
	int number_ = 0;
	char text_[1000] = "widget";
};

struct block {
	block *next;
	char text[];
};

static block *volatile kept;
static volatile int made;

static void arguments(napi_env env, napi_callback_info info, size_t count, int64_t *numbers)
{
	napi_value values[2];

	napi_get_cb_info(env, info, &count, values, nullptr, nullptr);
	for (size_t i = 0; i < count; i++)
		napi_get_value_int64(env, values[i], &numbers[i]);
}

static block *take(int64_t size)
{
	block *b = static_cast<block *>(malloc(size));

	memset(b, 'x', size);
	b->next = nullptr;
	return b;
}

static napi_value keep(napi_env env, napi_callback_info info)
{
	int64_t numbers[2];

	arguments(env, info, 2, numbers);
	for (int64_t i = 0; i < numbers[0]; i++) {
		block *b = take(numbers[1]);
		b->next = kept;
		kept = b;
	}
	return nullptr;
}

static __attribute__((noinline)) napi_value lose(napi_env env, napi_callback_info info)
{
	int64_t numbers[2];

	arguments(env, info, 2, numbers);
	for (int64_t i = 0; i < numbers[0]; i++)
		made += take(numbers[1])->next == nullptr;
	return nullptr;
}

static __attribute__((noinline)) napi_value widgets(napi_env env, napi_callback_info info)
{
	int64_t numbers[1];

	arguments(env, info, 1, numbers);
	for (int64_t i = 0; i < numbers[0]; i++) {
		Widget *volatile w = new Widget;
		made += w->number();
		w = nullptr;
	}
	return nullptr;
}

static napi_value info(napi_env env, napi_callback_info)
{
	struct mallinfo2 m = mallinfo2();
	const struct {
		const char *name;
		size_t value;
	} numbers[] = {
		{ "arena", m.arena }, { "hblks", m.hblks }, { "hblkhd", m.hblkhd },
		{ "fsmblks", m.fsmblks }, { "uordblks", m.uordblks }, { "fordblks", m.fordblks },
	};
	napi_value result, value;

	napi_create_object(env, &result);
	for (const auto &n : numbers) {
		napi_create_double(env, static_cast<double>(n.value), &value);
		napi_set_named_property(env, result, n.name, value);
	}
	return result;
}

NAPI_MODULE_INIT()
{
	napi_property_descriptor functions[] = {
		{ "keep", nullptr, keep, nullptr, nullptr, nullptr, napi_default, nullptr },
		{ "lose", nullptr, lose, nullptr, nullptr, nullptr, napi_default, nullptr },
		{ "info", nullptr, info, nullptr, nullptr, nullptr, napi_default, nullptr },
		{ "widgets", nullptr, widgets, nullptr, nullptr, nullptr, napi_default, nullptr },
	};

	napi_define_properties(env, exports, 4, functions);
	return exports;
}
