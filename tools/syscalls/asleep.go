package syscalls

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/cilium/ebpf"

	"ustack/bpf"
	"ustack/loader"
	"ustack/tools/event"
)

// sleepsAfter is how long a call may take before it is shown as sleeping.
const sleepsAfter = 500 * time.Millisecond

// tick shows the calls that have begun to sleep.
func (s *session) tick() time.Duration {
	if err := s.showAsleep(); err != nil {
		s.Warn(err)
	}
	if s.o.Tick != nil {
		s.mutex.Lock()
		defer s.mutex.Unlock()
		s.o.Tick()
	}
	return 0
}

// showAsleep shows each call that has been under way for long, once.
func (s *session) showAsleep() error {
	now := time.Now()
	var ids uint64
	var call bpf.SyscallsUnderWay
	all := s.objects.CallsUnderWay.Iterate()
	for all.Next(&ids, &call) {
		since := now.Sub(s.clock.Time(call.Begun))
		if since < max(sleepsAfter, s.o.Slower) || s.asleep[ids] == call.Begun {
			continue
		}
		thread, ok := threadName(int(ids>>32), int(uint32(ids)))
		if !ok { // it was killed
			_ = s.objects.CallsUnderWay.Delete(ids)
			delete(s.asleep, ids)
			continue
		}
		s.asleep[ids] = call.Begun
		s.show(Call{
			Call:  event.Call{Syscall: event.SyscallOf(uint32(call.Number)), Values: call.Arguments},
			State: Sleeping, Time: now, Duration: since,
			PID: int(ids >> 32), TID: int(uint32(ids)), Thread: thread,
		}, call.Hash)
	}
	if err := all.Err(); err != nil && !errors.Is(err, ebpf.ErrIterationAborted) {
		return fmt.Errorf("read which calls sleep: %w", err)
	}
	return nil
}

// threadName returns the name of a thread that exists.
func threadName(pid, tid int) (name string, ok bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/comm", pid, tid))
	return strings.TrimSuffix(string(text), "\n"), err == nil
}

// showBlocked shows the calls in which threads sleep that began before the run.
func (s *session) showBlocked() {
	if len(s.o.Command) > 0 {
		return // it waits for us
	}
	for _, id := range s.Table.Identities() {
		threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", id.PID))
		if err != nil {
			continue // it has ended
		}
		for _, t := range threads {
			tid, err := strconv.Atoi(t.Name())
			if err != nil {
				continue
			}
			s.showBlockedIn(id.PID, tid)
		}
	}
}

func (s *session) showBlockedIn(pid, tid int) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/syscall", pid, tid))
	thread, ok := threadName(pid, tid)
	if err != nil || !ok {
		return
	}
	number, values, ok := parseBlocked(string(text))
	if !ok {
		return
	}
	c := Call{
		Call: event.Call{Syscall: event.SyscallOf(number), Values: values}, State: Sleeping, Time: time.Now(),
		PID: pid, TID: tid, Thread: thread,
	}
	if s.wanted[c.Syscall.Name] == uint8(bpf.SyscallsWantedWANTED) {
		s.show(c, 0)
	}
}

// parseBlocked parses /proc/PID/task/TID/syscall: the number and six arguments of the call in
// which a thread sleeps. It returns false if it sleeps in none.
func parseBlocked(text string) (number uint32, values [6]uint64, ok bool) {
	words := strings.Fields(text)
	if len(words) < 1+len(values) {
		return 0, values, false
	}
	n, err := strconv.ParseUint(words[0], 10, 32)
	for i := range values {
		var bad error
		values[i], bad = strconv.ParseUint(words[1+i], 0, 64)
		err = errors.Join(err, bad)
	}
	return uint32(n), values, err == nil
}

// forget forgets the calls that were under way in process pid: it has a new program.
func (s *session) forget(pid int) error {
	return loader.RemoveKeys(s.objects.CallsUnderWay, func(ids uint64) bool { return int(ids>>32) == pid })
}
