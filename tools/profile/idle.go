package profile

import (
	"slices"

	"ustack/symbolize"
	"ustack/tools/profile/internal/lazyregexp"
)

// WithoutIdle returns p without the stacks of threads that wait because they have nothing to do: an
// event loop that polls, or a thread of a pool without a job. A wait that JavaScript has caused is
// never idle.
func (p *Profile) WithoutIdle() *Profile {
	c := classifier{}
	return p.keep(func(s Stack) bool { return !c.idle(s.Frames) })
}

// waitCalls match the functions by which threads of Node.js wait for work.
var waitCalls = lazyregexp.New(`^(uv_cond_(timed)?wait|uv_sem_wait|v8::base::ConditionVariable::Wait(For)?|v8::base::Semaphore::Wait(For)?|` +
	`std::condition_variable::wait.*|std::__1::condition_variable::.*)$`)

// idlers match the functions that call them when there is nothing to do: libuv's event loop and
// pool, the threads of Node.js's and V8's platforms, and those that wait for a debugger.
var idlers = lazyregexp.New(`^(uv__io_poll|uv_run|worker|uv__thread_start|start_thread|__?clone3?|` +
	`node::.*(TaskQueue|PlatformWorkerThread|WorkerThreadsTaskRunner|DelayedTaskScheduler|inspector|[Ss]ignalInspector|StartIoThread|Watchdog).*|` +
	`v8::platform::.*)$`)

// idle reports whether a stack, leaf first, is of a thread that has nothing to do.
func (c classifier) idle(frames []symbolize.Frame) bool {
	if slices.ContainsFunc(frames, ofProgram) {
		return false
	}
	waiting := false
	for _, f := range frames {
		switch {
		case f.Kind == symbolize.Kernel || f.Kind == symbolize.Runtime:
		case idlers.MatchString(f.Name):
			return waiting || f.Name == "uv__io_poll"
		case c.meaning(f.Name).waits || waitCalls.MatchString(f.Name):
			waiting = true
		case waiting && f.Name != "" && !inLibc(f): // something else waits
			return false
		}
	}
	return false
}

// inLibc reports whether f is a function of the C library.
func inLibc(f symbolize.Frame) bool { return libcFile.MatchString(f.Module) }

var libcFile = lazyregexp.New(`/(libc|libpthread|ld-musl-[^/]*)[.-][^/]*$`)
