package core

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// hurryLimit bounds how long other programs may have to wait.
const hurryLimit = 500 * time.Millisecond

// A hurry is a thread that runs ahead of all normal ones, with the lowest
// real-time priority: on a busy machine, sharing the CPUs would make the stop
// of a process many times as long. It needs CAP_SYS_NICE, and has no effect
// without.
type hurry struct {
	before *unix.SchedAttr // nil if the thread is a normal one
	until  time.Time
}

// startHurry makes the caller's thread hurry. The caller calls end.
func startHurry() *hurry {
	runtime.LockOSThread()
	before, err := unix.SchedGetAttr(0, 0)
	if err != nil || before.Policy != unix.SCHED_NORMAL {
		return new(hurry)
	}
	attributes := &unix.SchedAttr{
		Size: unix.SizeofSchedAttr, Policy: unix.SCHED_RR, Priority: 1, Flags: unix.SCHED_FLAG_RESET_ON_FORK,
	}
	if err := unix.SchedSetAttr(0, attributes, 0); err != nil {
		return new(hurry)
	}
	before.Flags |= unix.SCHED_FLAG_RESET_ON_FORK // clearing it may not be permitted
	return &hurry{before, time.Now().Add(hurryLimit)}
}

// check ends the hurry if it has lasted long enough.
func (h *hurry) check() {
	if h.before != nil && time.Now().After(h.until) {
		h.slow()
	}
}

// slow makes the thread a normal one again.
func (h *hurry) slow() {
	if h.before != nil {
		_ = unix.SchedSetAttr(0, h.before, 0) // lowering a priority is always permitted
		h.before = nil
	}
}

func (h *hurry) end() {
	h.slow()
	runtime.UnlockOSThread()
}
