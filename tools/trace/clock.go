package trace

import (
	"time"

	"golang.org/x/sys/unix"
)

// A Clock converts times of CLOCK_MONOTONIC, which the kernel's records have.
type Clock struct {
	offset time.Duration // from that to the time of day
}

// NewClock returns a clock that is right as long as the time of day is not set.
func NewClock() Clock {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) // it exists
	return Clock{time.Duration(time.Now().UnixNano() - now.Nano())}
}

// Time returns the time of day at so many nanoseconds of CLOCK_MONOTONIC.
func (c Clock) Time(ns uint64) time.Time { return time.Unix(0, int64(ns)+int64(c.offset)) }

// Flag returns 1 for true and 0 for false, as constants of the programs have it.
func Flag(b bool) uint32 {
	if b {
		return 1
	}
	return 0
}
