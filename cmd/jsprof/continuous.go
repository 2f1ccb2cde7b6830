package main

import (
	"context"
	"errors"
	"fmt"
	"runtime/metrics"
	"time"

	"ustack/symbolize/v8"
	"ustack/tools/profile"
	"ustack/tools/trace"
)

// What is learned about processes is kept until sampling ends, for names of functions are
// needed as long as a sample may have them. So that a run without an end has bounded memory,
// sampling starts again when it has lasted for renewAge, when so many processes have ended, or
// when it holds so many bytes and has lasted for leastAge.
const (
	renewAge   = time.Hour
	renewEnded = 512
	renewBytes = 128 << 20
	leastAge   = 10 * time.Minute
)

// maxWarnings bounds the different warnings that are printed, each once.
const maxWarnings = 1 << 10

// A run is continuous sampling, in one or several sessions.
type run struct {
	*stream
	interval time.Duration
	until    time.Time // zero: without an end
	warned   map[string]bool
	renewals int
	unseen   time.Duration // between sessions

	began time.Time // the session
	ended time.Time // the session before; zero for the first
	renew bool      // another session follows
	stop  func()    // ends the session
}

// runContinuous samples and sends a profile of each process each interval.
func (s *stream) runContinuous(ctx context.Context) error {
	r := &run{stream: s, interval: time.Duration(s.flags.interval), warned: make(map[string]bool)}
	if r.interval == 0 {
		r.interval = defaultInterval
	}
	if d := time.Duration(s.flags.duration); d > 0 {
		r.until = time.Now().Add(d)
	}
	err := r.session(ctx)
	for err == nil && r.renew && ctx.Err() == nil {
		r.renewals++
		err = r.session(ctx)
	}
	if r.renewals > 0 {
		s.messages.Notef("sampling started again %d times, in which %.1f s were not sampled", r.renewals, r.unseen.Seconds())
	}
	if errors.Is(err, trace.ErrNotFound) { // there was nothing to do
		s.messages.Warn(err)
		return nil
	}
	return err
}

// session samples until it is over, or is to start again.
func (r *run) session(ctx context.Context) error {
	ctx, r.stop = context.WithCancel(ctx)
	defer r.stop()
	r.renew, r.began = false, time.Now()
	o := r.flags.sampling(r.messages)
	announce := o.Started
	o.Started = func(hz int) {
		if r.ended.IsZero() {
			announce(hz)
			return
		}
		r.unseen += time.Since(r.ended)
	}
	o.Interval, o.Snapshot, o.Added, o.Warn = r.interval, r.take, r.labels.Read, r.warn
	if !r.until.IsZero() {
		o.Duration = max(time.Millisecond, time.Until(r.until))
	}
	last, err := sample(ctx, o)
	r.ended = time.Now()
	r.messages.Clear()
	if errors.Is(err, trace.ErrNotFound) && r.renew {
		return nil // processes may start later
	}
	if err != nil {
		return err
	}
	r.take(last)
	return nil
}

// warn passes on warnings, each once, up to a bound.
func (r *run) warn(err error) {
	text := err.Error()
	if errors.Is(err, v8.ErrNotV8) { // as of each program that a shell starts
		text = v8.ErrNotV8.Error()
		err = fmt.Errorf("%w; others like it are not reported", err)
	}
	if r.warned[text] || len(r.warned) == maxWarnings {
		return
	}
	r.warned[text] = true
	r.messages.Warn(err)
	if len(r.warned) == maxWarnings {
		r.messages.Notef("more warnings than these %d are not printed", maxWarnings)
	}
}

// take sends what was sampled in an interval. It ends the session if another is to follow.
func (r *run) take(all []*profile.Profile) {
	r.lost += all[0].Lost
	if shown, err := r.flags.present.applyAll(all); err == nil { // else nothing matches
		if err := r.send(shown); err != nil {
			r.warn(err)
		}
	}
	r.reportDropped(r.pusher.Counts())
	running := r.labels.Forget()
	if ended := len(all[0].Processes) - running; !r.renew && r.due(time.Since(r.began), ended, held()) {
		r.renew = true
		r.stop()
	}
}

// due reports whether sampling of this age, of which so many processes have ended and so many
// bytes are held, is to start again. Processes that were named are few, and a command can be
// started only once.
func (r *run) due(age time.Duration, ended int, held uint64) bool {
	switch t := &r.flags.targets; {
	case len(t.PIDs) > 0 || len(t.Command) > 0:
		return false
	case age >= renewAge || ended >= renewEnded:
		return true
	}
	return age >= leastAge && held >= renewBytes
}

// held returns how many bytes were in use when garbage was last collected.
func held() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
