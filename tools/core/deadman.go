package core

import (
	"fmt"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// killGrace is the time after the limit of a stop at which the kernel kills
// this process, which ends the stop: long enough for this process to end it, if
// it runs.
const killGrace = 500 * time.Millisecond

// A killTimer is a timer in the kernel that kills this process with SIGKILL. It
// works whatever state the process is in, even if stopped by SIGSTOP, needs no
// other process, and ends with the process. It is the last resort against a
// tracee that stays stopped because its tracer is stopped: when a tracer dies,
// its tracee continues.
type killTimer struct{ id int32 }

// killAfter arms a timer.
func killAfter(d time.Duration) (killTimer, error) {
	// struct sigevent, whose sigev_notify SIGEV_SIGNAL is 0.
	event := struct {
		value  uint64
		signal int32
		_      [52]byte
	}{signal: int32(unix.SIGKILL)}
	var k killTimer
	_, _, errno := unix.Syscall(unix.SYS_TIMER_CREATE, unix.CLOCK_MONOTONIC,
		uintptr(unsafe.Pointer(&event)), uintptr(unsafe.Pointer(&k.id)))
	if errno != 0 {
		return k, fmt.Errorf("create a timer for the end of the stop: %w", errno)
	}
	when := unix.ItimerSpec{Value: unix.NsecToTimespec(d.Nanoseconds())}
	_, _, errno = unix.Syscall6(unix.SYS_TIMER_SETTIME, uintptr(k.id), 0, uintptr(unsafe.Pointer(&when)), 0, 0, 0)
	if errno != 0 {
		k.disarm()
		return k, fmt.Errorf("set a timer for the end of the stop: %w", errno)
	}
	return k, nil
}

func (k killTimer) disarm() {
	_, _, _ = unix.Syscall(unix.SYS_TIMER_DELETE, uintptr(k.id), 0, 0) // cannot fail for a timer that this process created
}
