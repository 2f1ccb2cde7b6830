/*
 * An add-on in C whose work goes through Node-API. Each of its functions takes
 * the microseconds of one job, a callback, which is told whether the job was
 * cancelled, and if need be the name of the async resource ("napi_c"):
 *
 *	sleep   kicked off by begin_sleep
 *	spin    kicked off by begin_spin
 *	cancel  a sleep that is cancelled at once, kicked off by begin_cancel
 */

#include <node_api.h>
#include <stdbool.h>
#include <stdlib.h>

#include "job.h"

struct job {
	double microseconds;
	napi_ref callback;
	napi_async_work work;
};

static void check(napi_status status, const char *what)
{
	if (status != napi_ok)
		napi_fatal_error(what, NAPI_AUTO_LENGTH, "failed", NAPI_AUTO_LENGTH);
}

static void do_sleep(napi_env env, void *data)
{
	(void)env;
	sleep_for(((struct job *)data)->microseconds);
}

static void do_spin(napi_env env, void *data)
{
	(void)env;
	spin_for(((struct job *)data)->microseconds);
}

static void end(napi_env env, napi_status status, void *data)
{
	struct job *job = data;
	napi_value callback, global, cancelled;

	check(napi_get_reference_value(env, job->callback, &callback), "get callback");
	check(napi_get_global(env, &global), "get global");
	check(napi_get_boolean(env, status == napi_cancelled, &cancelled), "get boolean");
	check(napi_delete_reference(env, job->callback), "delete reference");
	check(napi_delete_async_work(env, job->work), "delete work");
	free(job);
	napi_call_function(env, global, callback, 1, &cancelled, NULL); /* what it throws is node's */
}

static struct job *prepare(napi_env env, napi_callback_info info, napi_async_execute_callback run)
{
	struct job *job = calloc(1, sizeof(*job));
	napi_value args[3], name;
	napi_valuetype type;
	size_t count = 3;

	check(napi_get_cb_info(env, info, &count, args, NULL, NULL), "get arguments");
	check(napi_get_value_double(env, args[0], &job->microseconds), "get microseconds");
	check(napi_create_reference(env, args[1], 1, &job->callback), "keep callback");
	check(napi_typeof(env, args[2], &type), "get type of name");
	if (type == napi_string)
		name = args[2];
	else
		check(napi_create_string_utf8(env, "napi_c", NAPI_AUTO_LENGTH, &name), "make name");
	check(napi_create_async_work(env, NULL, name, run, end, job, &job->work), "create work");
	return job;
}

/*
 * Each begin_* is on the stack, under its own name, while Node-API runs: nothing makes it
 * part of its caller or of what it calls.
 */
static __attribute__((noipa)) void begin_sleep(napi_env env, struct job *job)
{
	check(napi_queue_async_work(env, job->work), "queue sleep");
}

static __attribute__((noipa)) void begin_spin(napi_env env, struct job *job)
{
	check(napi_queue_async_work(env, job->work), "queue spin");
}

static __attribute__((noipa)) void begin_cancel(napi_env env, struct job *job)
{
	check(napi_queue_async_work(env, job->work), "queue cancel");
	napi_cancel_async_work(env, job->work); /* too late, if a thread has it already */
}

static napi_value call_sleep(napi_env env, napi_callback_info info)
{
	begin_sleep(env, prepare(env, info, do_sleep));
	return NULL;
}

static napi_value call_spin(napi_env env, napi_callback_info info)
{
	begin_spin(env, prepare(env, info, do_spin));
	return NULL;
}

static napi_value call_cancel(napi_env env, napi_callback_info info)
{
	begin_cancel(env, prepare(env, info, do_sleep));
	return NULL;
}

NAPI_MODULE_INIT()
{
	napi_property_descriptor functions[] = {
		{ "sleep", NULL, call_sleep, NULL, NULL, NULL, napi_default, NULL },
		{ "spin", NULL, call_spin, NULL, NULL, NULL, napi_default, NULL },
		{ "cancel", NULL, call_cancel, NULL, NULL, NULL, napi_default, NULL },
	};

	check(napi_define_properties(env, exports, 3, functions), "define functions");
	return exports;
}
