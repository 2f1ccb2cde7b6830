package nodesnoop

import (
	enc "encoding/binary"
	"time"

	"golang.org/x/sys/unix"

	"ustack/symbolize/nodehttp"
	"ustack/tools/trace"
)

// A Loop is how the main thread's event loop of a process has spent an interval.
type Loop struct {
	PID         int
	Utilization float64 // from 0, always waiting, to 1, never
}

// A loopClock reads libuv's own count of how long the main thread's loop has waited. The
// process does not notice.
type loopClock struct {
	node       *trace.Module
	loop       uint64 // its address
	idleOffset uint64
	last       reading
}

// A reading is the time that the loop has waited in all, at a time of CLOCK_MONOTONIC.
type reading struct {
	idle, at int64 // ns
}

// defaultLoop is libuv's loop of the main thread.
const defaultLoop = "default_loop_struct"

// entryBeforeIdle is how far before the time that a loop has waited it has since when it
// is waiting, in bytes.
const entryBeforeIdle = 8

// newLoopClock returns nil if the loop cannot be found.
func newLoopClock(node *trace.Module, l *nodehttp.Layout) *loopClock {
	loop, ok := node.Address(defaultLoop)
	if !ok || l == nil {
		return nil
	}
	c := &loopClock{node: node, loop: node.Live(loop), idleOffset: l.Idle}
	c.last, _ = c.read()
	return c
}

// word reads the process's word at an address.
func (c *loopClock) word(address uint64) (uint64, bool) {
	var word [8]byte
	_, err := c.node.ReadMemory(word[:], address)
	return enc.NativeEndian.Uint64(word[:]), err == nil
}

// maxTries bounds how often read looks for a moment at which the loop changes nothing.
const maxTries = 100

// idleAddress returns where the process has how long the loop has waited; false before it is made.
func (c *loopClock) idleAddress() (at uint64, ok bool) {
	metrics, ok := c.word(c.loop + nodehttp.LoopMetrics)
	return metrics + c.idleOffset, ok && metrics != 0
}

// read returns how long the loop has waited; false before it is made.
func (c *loopClock) read() (r reading, ok bool) {
	at, ok := c.idleAddress()
	if !ok {
		return r, false
	}
	for range maxTries {
		idle, ok := c.word(at)
		since, alsoOK := c.word(at - entryBeforeIdle)
		now := monotonic()
		again, stillOK := c.word(at)
		if !ok || !alsoOK || !stillOK {
			return r, false
		}
		if idle != again {
			continue
		}
		r = reading{int64(idle), now}
		if since != 0 {
			r.idle += max(now-int64(since), 0)
		}
		return r, true
	}
	return r, false
}

func monotonic() int64 { return clockOf(unix.CLOCK_MONOTONIC) }

// clockOf returns a clock of the kernel's, in ns.
func clockOf(clock int32) int64 {
	var now unix.Timespec
	_ = unix.ClockGettime(clock, &now) // it exists
	return now.Nano()
}

// utilization returns which share of the time since the last call the loop did not wait.
func (c *loopClock) utilization() (share float64, ok bool) {
	now, ok := c.read()
	last := c.last
	c.last = now
	if !ok || last.at == 0 || now.at <= last.at {
		return 0, false
	}
	idle := float64(now.idle-last.idle) / float64(now.at-last.at)
	return min(max(1-idle, 0), 1), true
}

// loops returns the utilizations since the last call.
func (s *session) loops() (all []Loop) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for pid, t := range s.targeted {
		if t.loop == nil {
			continue
		}
		if share, ok := t.loop.utilization(); ok {
			all = append(all, Loop{PID: pid, Utilization: share})
		}
	}
	return all
}

// reportInterval reports the loops, between two events.
func (s *session) reportInterval() error {
	loops := s.loops()
	s.handling.Lock()
	defer s.handling.Unlock()
	return s.o.Report(loops, time.Now())
}
