package stopon

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/cilium/ebpf"
)

// expectStart records that a program is starting, unless its event loop has polled
// already: starting up is no stall.
func (s *session) expectStart(pid int) error {
	if s.o.Stall == 0 {
		return nil
	}
	if err := s.objects.Starting.Put(uint32(pid), uint8(1)); err != nil {
		return fmt.Errorf("record that process %d is starting: %w", pid, err)
	}
	main := uint64(pid)<<32 | uint64(pid)
	errs := []error{s.objects.Loops.Delete(main)} // of the program before
	if hasPolled(pid) {
		errs = append(errs, s.objects.Starting.Delete(uint32(pid)))
	}
	for _, err := range errs {
		if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) { // it may poll just now
			return fmt.Errorf("record that process %d is starting: %w", pid, err)
		}
	}
	return nil
}

// pollingLoops is how many event loops of a Node.js process have polled once its main
// one has: V8's platform has one that polls from the beginning. (That of the tracing
// agent never does, as a rule.)
const pollingLoops = 2

// hasPolled reports whether the main event loop of a process has polled, as far as
// can be seen: libuv gives a loop's epoll instance nothing to watch before the loop's
// first poll. A worker that has polled passes for the main thread.
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
