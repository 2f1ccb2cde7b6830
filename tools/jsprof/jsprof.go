// Package jsprof profiles running Node.js processes: it shows where their CPU time
// goes, with JavaScript and native code in one stack. The kernel names each
// JavaScript function as it takes the sample.
package jsprof

import (
	"context"
	"errors"
	"fmt"
	"time"

	"ustack/bpf"
	"ustack/loader"
	"ustack/tools/profile"
	"ustack/tools/trace"
)

// Options say what to profile and how.
type Options struct {
	trace.Selection

	Hz       int           // samples a second on each CPU; 99 if zero
	Cycles   bool          // count CPU cycles instead of time
	Kernel   bool          // include kernel frames
	Duration time.Duration // until the context or the targets end if zero

	Started func(hz int)       // called once sampling runs; may be nil
	Sampled func(count uint64) // called from time to time with the samples so far; may be nil
	Warn    func(error)        // called with what keeps names from being found; may be nil
}

const defaultHz = 99 // out of step with work that repeats every 10 ms

// Run samples until the duration is over, ctx is done or the last target has ended,
// and returns the profile. It is not an error if ctx is done.
func Run(ctx context.Context, o Options) (*profile.Profile, error) {
	if o.Hz == 0 {
		o.Hz = defaultHz
	}
	s, err := open(o)
	if err != nil {
		return nil, err
	}
	s.table.Hurry(ctx)
	profile, err := s.run(ctx)
	return profile, errors.Join(err, s.close())
}

// A session is one run: what it has in the kernel and what it has received.
type session struct {
	o         Options
	objects   bpf.JsprofObjects
	table     *trace.Table
	collector *collector
	targets   *trace.Targets
	closers   []func() error // called in reverse order
}

// longestTick is how long a throttled perf event may wait for the tick of a busy CPU:
// the kernel's HZ is at least 100.
const longestTick = 10 * time.Millisecond

func open(o Options) (s *session, err error) {
	s = &session{o: o}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	spec, err := bpf.LoadJsprof()
	if err != nil {
		return s, err
	}
	namespace, err := loader.PIDNamespace()
	if err != nil {
		return s, err
	}
	kernel := uint32(0)
	if o.Kernel {
		kernel = 1
	}
	err = errors.Join(
		spec.Variables[bpf.JsprofVarPidNamespace].Set(namespace),
		spec.Variables[bpf.JsprofVarMaxElapsed].Set(uint64(2*time.Second/time.Duration(loader.SampleRate(o.Hz))+longestTick)),
		spec.Variables[bpf.JsprofVarWithKernel].Set(kernel))
	if err != nil {
		return s, fmt.Errorf("configure BPF programs: %w", err)
	}
	if err := loader.Load(spec, &s.objects); err != nil {
		return s, err
	}
	s.closers = append(s.closers, s.objects.Close)
	s.table = trace.NewTable(trace.Maps{
		Processes: s.objects.Processes, Scripts: s.objects.Scripts, Rows: s.objects.UnwindRows, Described: s.objects.Described,
	})
	s.closers = append(s.closers, s.table.Close)
	s.targets = trace.NewTargets(s.table, o.Selection)
	if o.Warn != nil {
		s.targets.Warn = o.Warn
	}
	s.closers = append(s.closers, s.targets.Close)
	s.collector, err = newCollector(s)
	if err != nil {
		return s, err
	}
	s.closers = append(s.closers, s.collector.events.Close)
	exec, err := loader.RawTracepoint("sched_process_exec", s.objects.OnExec)
	if err != nil {
		return s, err
	}
	s.closers = append(s.closers, exec.Close)
	return s, nil
}

func (s *session) close() error {
	var errs []error
	for i := len(s.closers) - 1; i >= 0; i-- {
		errs = append(errs, s.closers[i]())
	}
	s.closers = nil
	return errors.Join(errs...)
}

func (s *session) run(ctx context.Context) (*profile.Profile, error) {
	if err := s.targets.Add(); err != nil {
		return nil, err
	}
	event := loader.CPUClock
	if s.o.Cycles {
		event = loader.Cycles
	}
	sampler, err := loader.Sample(s.objects.OnSample, event, s.o.Hz)
	if err != nil {
		return nil, err
	}
	start := time.Now()
	if s.o.Started != nil {
		s.o.Started(sampler.Hz)
	}
	if err := s.targets.Start(); err != nil {
		return nil, errors.Join(err, sampler.Close())
	}
	s.wait(ctx)
	if err := sampler.Close(); err != nil {
		return nil, fmt.Errorf("stop sampling: %w", err)
	}
	if err := s.targets.Missing(); err != nil {
		return nil, err
	}
	duration := time.Since(start)
	profile, err := s.collector.profile()
	if err != nil {
		return nil, err
	}
	s.warn()
	profile.Node, profile.V8 = s.table.Versions()
	profile.Start, profile.Duration = start, duration
	profile.HzAsked = s.o.Hz
	profile.Hz, profile.Throttled = s.rate(sampler.Hz)
	return profile, nil
}

// rate returns the rate at which samples were taken while the targets ran, in Hz,
// and how many samples are missing at the requested rate: 0 if it was reached. hz is
// the rate that was set.
func (s *session) rate(hz int) (reached int, throttled uint64) {
	taken := s.collector.count(s.objects.Samples)
	seconds := float64(s.collector.count(s.objects.Sampled)) / float64(time.Second)
	expected := uint64(seconds * float64(s.o.Hz))
	// The kernel controls the rate of cycles: an idle CPU counts none.
	if s.o.Cycles || taken == 0 {
		return hz, 0
	}
	const usual = 0.95 // a few per cent are late on any machine
	if float64(taken) >= usual*float64(expected) {
		return s.o.Hz, 0
	}
	return max(1, int(float64(taken)/seconds+0.5)), expected - taken
}

// tick is how often progress is reported and the kernel's counts are read.
const tick = 250 * time.Millisecond

// wait returns when there is nothing left to sample.
func (s *session) wait(ctx context.Context) {
	if s.o.Duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.o.Duration)
		defer cancel()
	}
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.targets.Gone():
			return
		case <-ticker.C:
			s.warn()
			s.collector.relieve()
			if s.o.Sampled != nil {
				s.o.Sampled(s.collector.count(s.objects.Samples))
			}
		}
	}
}

func (s *session) warn() {
	if s.o.Warn == nil {
		return
	}
	for _, err := range s.table.Troubles() {
		s.o.Warn(err)
	}
}
