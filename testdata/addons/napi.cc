// An add-on in C++ whose work goes through Node-API, by a class for each kind of
// job. Each of its functions takes the microseconds of one job, a callback, which
// is told whether the job was cancelled, and if need be the name of the async
// resource ("napi_cc"):
//
//	sleep   kicked off by pool::Sleeper::Begin()
//	spin    kicked off by pool::Spinner::Begin()
//	cancel  a sleep that is cancelled at once, kicked off by pool::Quitter::Begin()

#include <node_api.h>

#include "job.h"

namespace pool {

void Check(napi_status status, const char *what)
{
	if (status != napi_ok)
		napi_fatal_error(what, NAPI_AUTO_LENGTH, "failed", NAPI_AUTO_LENGTH);
}

class Worker {
public:
	Worker(napi_env env, napi_callback_info info) : env_(env)
	{
		napi_value args[3], name;
		napi_valuetype type;
		size_t count = 3;

		Check(napi_get_cb_info(env, info, &count, args, nullptr, nullptr), "get arguments");
		Check(napi_get_value_double(env, args[0], &microseconds_), "get microseconds");
		Check(napi_create_reference(env, args[1], 1, &callback_), "keep callback");
		Check(napi_typeof(env, args[2], &type), "get type of name");
		if (type == napi_string)
			name = args[2];
		else
			Check(napi_create_string_utf8(env, "napi_cc", NAPI_AUTO_LENGTH, &name), "make name");
		Check(napi_create_async_work(env, nullptr, name, Run, End, this, &work_), "create work");
	}

	virtual ~Worker()
	{
		Check(napi_delete_reference(env_, callback_), "delete reference");
		Check(napi_delete_async_work(env_, work_), "delete work");
	}

protected:
	virtual void Execute() = 0;

	napi_env env_;
	double microseconds_;
	napi_async_work work_;

private:
	static void Run(napi_env, void *data) { static_cast<Worker *>(data)->Execute(); }

	static void End(napi_env env, napi_status status, void *data)
	{
		Worker *worker = static_cast<Worker *>(data);
		napi_value callback, global, cancelled;

		Check(napi_get_reference_value(env, worker->callback_, &callback), "get callback");
		Check(napi_get_global(env, &global), "get global");
		Check(napi_get_boolean(env, status == napi_cancelled, &cancelled), "get boolean");
		delete worker;
		napi_call_function(env, global, callback, 1, &cancelled, nullptr); // what it throws is node's
	}

	napi_ref callback_;
};

class Sleeper : public Worker {
public:
	using Worker::Worker;
	void Begin();

protected:
	void Execute() override { sleep_for(microseconds_); }
};

class Spinner : public Worker {
public:
	using Worker::Worker;
	void Begin();

protected:
	void Execute() override { spin_for(microseconds_); }
};

class Quitter : public Sleeper {
public:
	using Sleeper::Sleeper;
	void Begin();
};

// Each Begin is on the stack, under its own name, while Node-API runs: nothing makes it
// part of its caller or of what it calls.
__attribute__((noipa)) void Sleeper::Begin()
{
	Check(napi_queue_async_work(env_, work_), "queue sleep");
}

__attribute__((noipa)) void Spinner::Begin()
{
	Check(napi_queue_async_work(env_, work_), "queue spin");
}

__attribute__((noipa)) void Quitter::Begin()
{
	Check(napi_queue_async_work(env_, work_), "queue cancel");
	napi_cancel_async_work(env_, work_); // too late, if a thread has it already
}

template <class Kind> napi_value Call(napi_env env, napi_callback_info info)
{
	(new Kind(env, info))->Begin();
	return nullptr;
}

} // namespace pool

NAPI_MODULE_INIT()
{
	napi_property_descriptor functions[] = {
		{ "sleep", nullptr, pool::Call<pool::Sleeper>, nullptr, nullptr, nullptr, napi_default, nullptr },
		{ "spin", nullptr, pool::Call<pool::Spinner>, nullptr, nullptr, nullptr, napi_default, nullptr },
		{ "cancel", nullptr, pool::Call<pool::Quitter>, nullptr, nullptr, nullptr, napi_default, nullptr },
	};

	pool::Check(napi_define_properties(env, exports, 3, functions), "define functions");
	return exports;
}
