/*
 * An add-on whose functions hand their work to Node-API as the very last thing they
 * do, so that a compiler makes a jump of it: when the work is handed over, they are on
 * the stack no more. Each exported function takes the microseconds of one job and a
 * callback:
 *
 *	sleep   kicked off by begin_sleep, which is called by schedule
 *	spin    kicked off by begin_spin, which is called by schedule
 *	direct  kicked off by begin_direct, which is called by call_direct
 *	linked  kicked off by begin_linked, which is called by call_linked through the
 *		linkage table
 */

#include <node_api.h>
#include <stdlib.h>

#include "job.h"

struct job {
	double microseconds;
	napi_ref callback;
	napi_async_work work;
};

typedef napi_status begin(napi_env env, struct job *job);

static void do_sleep(napi_env env, void *data)
{
	(void)env;
	sleep_for(((struct job *)data)->microseconds);
}

/* Known to other libraries: its address is where the loader puts it. */
__attribute__((visibility("default"))) void do_spin(napi_env env, void *data)
{
	(void)env;
	spin_for(((struct job *)data)->microseconds);
}

static void do_direct(napi_env env, void *data)
{
	do_sleep(env, data);
}

static void do_linked(napi_env env, void *data)
{
	do_spin(env, data);
}

static void end(napi_env env, napi_status status, void *data)
{
	struct job *job = data;
	napi_value callback, global, cancelled;

	napi_get_reference_value(env, job->callback, &callback);
	napi_get_global(env, &global);
	napi_get_boolean(env, status == napi_cancelled, &cancelled);
	napi_delete_reference(env, job->callback);
	napi_delete_async_work(env, job->work);
	free(job);
	napi_call_function(env, global, callback, 1, &cancelled, NULL);
}

static napi_value name_of(napi_env env)
{
	napi_value name;

	napi_create_string_utf8(env, "tailcall", NAPI_AUTO_LENGTH, &name);
	return name;
}

static __attribute__((noipa)) napi_status begin_sleep(napi_env env, struct job *job)
{
	napi_create_async_work(env, NULL, name_of(env), do_sleep, end, job, &job->work);
	return napi_queue_async_work(env, job->work);
}

static __attribute__((noipa)) napi_status begin_spin(napi_env env, struct job *job)
{
	napi_create_async_work(env, NULL, name_of(env), do_spin, end, job, &job->work);
	return napi_queue_async_work(env, job->work);
}

__attribute__((noipa, visibility("default"))) napi_status begin_linked(napi_env env, struct job *job)
{
	napi_create_async_work(env, NULL, name_of(env), do_linked, end, job, &job->work);
	return napi_queue_async_work(env, job->work);
}

static __attribute__((noipa)) napi_status begin_direct(napi_env env, struct job *job)
{
	napi_create_async_work(env, NULL, name_of(env), do_direct, end, job, &job->work);
	return napi_queue_async_work(env, job->work);
}

static struct job *prepare(napi_env env, napi_callback_info info)
{
	struct job *job = calloc(1, sizeof(*job));
	napi_value args[2];
	size_t count = 2;

	napi_get_cb_info(env, info, &count, args, NULL, NULL);
	napi_get_value_double(env, args[0], &job->microseconds);
	napi_create_reference(env, args[1], 1, &job->callback);
	return job;
}

static __attribute__((noipa)) void schedule(napi_env env, struct job *job, begin *begin)
{
	if (begin(env, job) != napi_ok)
		napi_fatal_error("schedule", NAPI_AUTO_LENGTH, "failed", NAPI_AUTO_LENGTH);
}

static napi_value call_sleep(napi_env env, napi_callback_info info)
{
	schedule(env, prepare(env, info), begin_sleep);
	return NULL;
}

static napi_value call_spin(napi_env env, napi_callback_info info)
{
	schedule(env, prepare(env, info), begin_spin);
	return NULL;
}

static __attribute__((noipa)) napi_value call_direct(napi_env env, napi_callback_info info)
{
	if (begin_direct(env, prepare(env, info)) != napi_ok)
		napi_fatal_error("call_direct", NAPI_AUTO_LENGTH, "failed", NAPI_AUTO_LENGTH);
	return NULL;
}

static __attribute__((noipa)) napi_value call_linked(napi_env env, napi_callback_info info)
{
	if (begin_linked(env, prepare(env, info)) != napi_ok)
		napi_fatal_error("call_linked", NAPI_AUTO_LENGTH, "failed", NAPI_AUTO_LENGTH);
	return NULL;
}

NAPI_MODULE_INIT()
{
	napi_property_descriptor functions[] = {
		{ "sleep", NULL, call_sleep, NULL, NULL, NULL, napi_default, NULL },
		{ "spin", NULL, call_spin, NULL, NULL, NULL, napi_default, NULL },
		{ "direct", NULL, call_direct, NULL, NULL, NULL, napi_default, NULL },
		{ "linked", NULL, call_linked, NULL, NULL, NULL, napi_default, NULL },
	};

	napi_define_properties(env, exports, 4, functions);
	return exports;
}
