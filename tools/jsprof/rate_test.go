package jsprof

import (
	"context"
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"ustack/testdata/nodetest"
	"ustack/tools/profile"
	"ustack/tools/trace"
)

// cpuTime returns how long the first thread of process pid has run.
func cpuTime(t *testing.T, pid int) time.Duration {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/schedstat", pid, pid))
	if err != nil {
		t.Fatal(err)
	}
	var ran int64
	if _, err := fmt.Sscan(string(text), &ran); err != nil {
		t.Fatal(err)
	}
	return time.Duration(ran)
}

// TestSamplesStandForTheTimeThatWasUsed compares the CPU time that a profile's
// samples stand for with the kernel's count of it, also where the machine cannot keep
// up with the requested rate. The target waits before and after its work, so that the
// two measure the same.
func TestSamplesStandForTheTimeThatWasUsed(t *testing.T) {
	nodetest.Root(t)
	for _, hz := range []int{499, 100_000} {
		t.Run(fmt.Sprintf("%d Hz", hz), func(t *testing.T) {
			nodetest.NothingLeft(t, programs...)
			target := nodetest.Start(t, nodetest.Node(t, anyVersion), nodetest.Options{
				Flags: []string{"--single-threaded"}, Script: "work.js", Args: []string{"400"},
			})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			before := cpuTime(t, target.PID)
			started, ended := make(chan struct{}), make(chan struct{})
			var p *profile.Profile
			var err error
			go func() {
				defer close(ended)
				p, err = Run(ctx, Options{
					Selection: trace.Selection{PIDs: []int{target.PID}}, Hz: hz, Started: func(int) { close(started) },
				})
			}()
			select {
			case <-started:
				target.Signal(syscall.SIGUSR2)
				target.Line()
			case <-ended:
			}
			cancel()
			<-ended
			if err != nil {
				t.Fatal(err)
			}
			used := cpuTime(t, target.PID) - before
			var samples uint64
			for _, s := range p.Stacks {
				if s.TID == target.PID {
					samples += s.Value
				}
			}
			stand := time.Duration(float64(samples) / float64(p.Hz) * float64(time.Second))
			if ratio := float64(stand) / float64(used); ratio < 0.85 || ratio > 1.15 {
				t.Errorf("%d samples at %d Hz stand for %v, want %v ± 15 %%", samples, p.Hz, stand, used)
			}
			t.Logf("%d samples at %d Hz stand for %v of %v", samples, p.Hz, stand, used)
			if p.HzAsked != hz || p.Hz > hz || (p.Throttled > 0) != (p.Hz < hz) {
				t.Errorf("rate = %d Hz of %d with %d throttled, want throttled ones if it is lower than %d",
					p.Hz, p.HzAsked, p.Throttled, hz)
			}
		})
	}
}
