package trace

import (
	"errors"
	"fmt"
	"os"

	"ustack/symbolize/process"
)

// A Selection says which processes to trace: in exactly one of these ways.
type Selection struct {
	PIDs    []int
	Comm    string   // every process of this name, new ones too
	Cgroup  string   // every process in this control group or its descendants, new ones too
	All     bool     // every process that contains V8, new ones too
	Command []string // start it, and trace it and its children

	Stdout *os.File // of Command; this process's own if nil
	// Exited is called if Command has exited, with its status as a shell reports it:
	// 128 plus the signal's number if a signal killed it. May be nil.
	Exited func(status int)
}

// ErrNoSelection reports that a Selection names no process.
var ErrNoSelection = errors.New("no process selected (use -p, --comm, --all, or a command)")

var errSelections = errors.New("give only one of -p, --comm, --cgroup, --all and a command")

// Check returns an error if the selection makes no sense: one that wraps
// ErrNoSelection if it is empty.
func (s *Selection) Check() error {
	ways := 0
	for _, chosen := range []bool{len(s.PIDs) > 0, s.Comm != "", s.Cgroup != "", s.All, len(s.Command) > 0} {
		if chosen {
			ways++
		}
	}
	switch {
	case ways == 0:
		return ErrNoSelection
	case ways > 1:
		return errSelections
	}
	for _, pid := range s.PIDs {
		if pid < 1 {
			return fmt.Errorf("%d is not a process ID", pid)
		}
	}
	return nil
}

// list returns the processes that are selected now.
func (s *Selection) list() ([]int, error) {
	if len(s.PIDs) > 0 {
		return s.PIDs, nil
	}
	all, err := process.List()
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, p := range all {
		if s.selects(p) {
			pids = append(pids, p.PID)
		}
	}
	return pids, nil
}

// goesOn reports whether processes that start later may be selected.
func (s *Selection) goesOn() bool { return s.All || s.Comm != "" || s.Cgroup != "" }

func (s *Selection) selects(p process.Listed) bool {
	if s.Cgroup != "" {
		return process.InCgroup(p.PID, s.Cgroup)
	}
	return s.All || p.Runs(s.Comm)
}
