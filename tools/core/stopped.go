package core

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// StopOptions say how a process is stopped.
type StopOptions struct {
	MaxStop time.Duration // resume the process rather than stop it for longer
	Hurry   bool          // run do ahead of other programs: for short limits
	Resumed func()        // called when the threads are in the state they were in before; may be nil

	traced func(*tracer) // called with what has stopped the process, before do; may be nil
}

// WhileStopped stops all threads of the process pid, calls do with them, and resumes the
// process. It returns for how long the process was stopped. When the time limit is reached
// or ctx is done, the process is resumed at once, and the result is an error whatever do
// returns. If this process dies, the kernel resumes the threads. If it is unable to resume
// them in time, because it is itself stopped or hangs, the kernel kills it, which resumes
// them.
func WhileStopped(ctx context.Context, pid int, o StopOptions, do func(context.Context, []Thread) error) (time.Duration, error) {
	defer holdJobControl()()
	began := time.Now()
	timer, err := killAfter(o.MaxStop + killGrace)
	if err != nil {
		return 0, err
	}
	stopped, err := stopThreads(pid, min(o.MaxStop, stopLimit))
	if err != nil {
		timer.disarm()
		if errors.Is(err, errTimeout) && o.MaxStop < stopLimit {
			err = fmt.Errorf("%w: %w", errTooLong, err)
		}
		return 0, err
	}
	ctx, cancel := context.WithDeadlineCause(ctx, began.Add(o.MaxStop), errTooLong)
	defer cancel()
	var lasted time.Duration
	release := sync.OnceValue(func() error {
		err := stopped.resume()
		timer.disarm()
		lasted = time.Since(began)
		if o.Resumed != nil {
			o.Resumed()
		}
		return err
	})
	defer context.AfterFunc(ctx, func() { release() })()
	if o.traced != nil {
		o.traced(stopped.tracer)
	}
	end := func() {}
	if o.Hurry {
		end = startHurry().end
	}
	err = do(ctx, stopped.threads())
	end()
	resumeErr := release()
	if ctx.Err() != nil {
		err = fmt.Errorf("stop process %d: %w", pid, context.Cause(ctx))
	}
	return lasted, errors.Join(err, resumeErr)
}
