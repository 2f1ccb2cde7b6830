package core

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ustack/testdata/nodetest"
)

func TestHurryEnds(t *testing.T) {
	nodetest.Root(t)
	policy := func() uint32 {
		t.Helper()
		attributes, err := unix.SchedGetAttr(0, 0)
		if err != nil {
			t.Fatal(err)
		}
		return attributes.Policy
	}
	h := startHurry()
	defer h.end()
	if h.before == nil {
		nodetest.MustRun(t, "threads may not have real-time priority")
	}
	if got := policy(); got != unix.SCHED_RR {
		t.Errorf("policy = %d, want %d", got, unix.SCHED_RR)
	}
	h.check()
	if got := policy(); got != unix.SCHED_RR {
		t.Errorf("policy at once = %d, want %d", got, unix.SCHED_RR)
	}
	h.until = time.Now().Add(-1)
	h.check()
	if got := policy(); got != unix.SCHED_NORMAL {
		t.Errorf("policy after the limit = %d, want %d", got, unix.SCHED_NORMAL)
	}
	again := startHurry()
	again.end()
	if got := policy(); got != unix.SCHED_NORMAL {
		t.Errorf("policy in the end = %d, want %d", got, unix.SCHED_NORMAL)
	}
}
