// An add-on that hands its work to libuv itself, as those written before Node-API
// do. Each of its functions takes the microseconds of one job and a callback,
// which is told whether the job was cancelled:
//
//	sleep   kicked off by rawuv::Work::BeginSleep
//	spin    kicked off by rawuv::Work::BeginSpin
//	cancel  a sleep that is cancelled at once, kicked off by rawuv::Work::BeginCancel

#include <node.h>
#include <uv.h>

#include "job.h"

namespace rawuv {

using Arguments = v8::FunctionCallbackInfo<v8::Value>;

class Work {
public:
	explicit Work(const Arguments &args)
		: isolate_(args.GetIsolate()), microseconds_(args[0].As<v8::Number>()->Value()),
		  callback_(isolate_, args[1].As<v8::Function>())
	{
		request_.data = this;
	}

	int BeginSleep();
	int BeginSpin();
	int BeginCancel();

private:
	static Work *Of(uv_work_t *request) { return static_cast<Work *>(request->data); }
	static void Sleep(uv_work_t *request) { sleep_for(Of(request)->microseconds_); }
	static void Spin(uv_work_t *request) { spin_for(Of(request)->microseconds_); }
	static void End(uv_work_t *request, int status);

	uv_work_t request_;
	v8::Isolate *isolate_;
	double microseconds_;
	v8::Global<v8::Function> callback_;
};

// Each Begin is on the stack, under its own name, while libuv runs: nothing makes it
// part of its caller or of what it calls.
__attribute__((noipa)) int Work::BeginSleep()
{
	return -uv_queue_work(node::GetCurrentEventLoop(isolate_), &request_, Sleep, End);
}

__attribute__((noipa)) int Work::BeginSpin()
{
	return -uv_queue_work(node::GetCurrentEventLoop(isolate_), &request_, Spin, End);
}

__attribute__((noipa)) int Work::BeginCancel()
{
	int err = -uv_queue_work(node::GetCurrentEventLoop(isolate_), &request_, Sleep, End);

	uv_cancel(reinterpret_cast<uv_req_t *>(&request_)); // too late, if a thread has it already
	return err;
}

void Work::End(uv_work_t *request, int status)
{
	Work *work = Of(request);
	v8::Isolate *isolate = work->isolate_;
	v8::HandleScope scope(isolate);
	v8::Local<v8::Function> callback = work->callback_.Get(isolate);
	v8::Local<v8::Value> cancelled = v8::Boolean::New(isolate, status == UV_ECANCELED);

	delete work;
	node::MakeCallback(isolate, callback.As<v8::Object>(), callback, 1, &cancelled, { 0, 0 });
}

template <int (Work::*begin)()> void Call(const Arguments &args)
{
	Work *work = new Work(args);

	if ((work->*begin)() == 0)
		return;
	delete work;
	args.GetIsolate()->ThrowException(v8::String::NewFromUtf8Literal(args.GetIsolate(), "uv_queue_work"));
}

} // namespace rawuv

NODE_MODULE_INIT()
{
	NODE_SET_METHOD(exports, "sleep", rawuv::Call<&rawuv::Work::BeginSleep>);
	NODE_SET_METHOD(exports, "spin", rawuv::Call<&rawuv::Work::BeginSpin>);
	NODE_SET_METHOD(exports, "cancel", rawuv::Call<&rawuv::Work::BeginCancel>);
}
