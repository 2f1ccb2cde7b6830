//go:build !amd64

package core

import (
	"fmt"
	"runtime"
)

// DefaultWay is the way that is best where there is no reason for another: on this
// architecture.
const DefaultWay = Stopped

// A snapshot is a copy of a process's memory. There is none on this machine: to
// have a thread make calls takes knowledge of its registers.
type snapshot struct{}

func (t *tracee) snapshot() (*snapshot, error) {
	return nil, fmt.Errorf("take snapshot of process %d: not on %s (take the core with the process stopped)", t.pid, runtime.GOARCH)
}

func (s *snapshot) pid() int { return 0 }

func (s *snapshot) close() error { return nil }
