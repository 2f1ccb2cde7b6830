package stopon

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/cilium/ebpf"
)

// expectStart records that a program is starting, unless its event loop has
// already polled: starting up is not a stall.
func (s *session) expectStart(pid int) error {
	if s.o.Stall == 0 {
		return nil
	}
	if err := s.objects.Starting.Put(uint32(pid), uint8(1)); err != nil {
		return fmt.Errorf("record that process %d is starting: %w", pid, err)
	}
	main := uint64(pid)<<32 | uint64(pid)
	errs := []error{s.objects.Loops.Delete(main)} // of the previous program
	if hasPolled(pid) {
		errs = append(errs, s.objects.Starting.Delete(uint32(pid)))
	}
	for _, err := range errs {
		if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) { // it may be polling right now
			return fmt.Errorf("record that process %d is starting: %w", pid, err)
		}
	}
	return nil
}

// pollingLoops is how many event loops of a Node.js process have polled once
// its main one has: V8's platform has a loop that polls from the start. (The
// tracing agent's loop normally never polls.)
const pollingLoops = 2

// hasPolled reports whether the main event loop of a process appears to have
// polled: libuv adds nothing to a loop's epoll instance before the loop's first
// poll. A worker that has polled is mistaken for the main thread.
func hasPolled(pid int) bool {
	folder := fmt.Sprintf("/proc/%d/fd/", pid)
	files, err := os.ReadDir(folder)
	if err != nil {
		return true
	}
	polled := 0
	for _, file := range files {
		if target, err := os.Readlink(folder + file.Name()); err != nil || target != "anon_inode:[eventpoll]" {
			continue
		}
		info, err := os.ReadFile(fmt.Sprintf("/proc/%d/fdinfo/%s", pid, file.Name()))
		if err == nil && strings.Contains(string(info), "\ntfd:") {
			polled++
		}
	}
	return polled >= pollingLoops
}
