package trace

import (
	"errors"
	"fmt"
	"os"

	"ustack/symbolize/process"
	"ustack/symbolize/v8"
	"ustack/tools/containers"
)

// A Selection says which processes to trace: in exactly one of these ways.
type Selection struct {
	PIDs      []int
	Comm      string   // every process of this name, new ones too
	Cgroup    string   // every process in this control group or its descendants, new ones too
	Container string   // every process in the container of this name or ID, new ones too
	All       bool     // every process that contains V8, new ones too
	Command   []string // start it, and trace it and its children

	Stdout *os.File // of Command; this process's own if nil
	// Exited is called if Command has exited, with its status as a shell reports it:
	// 128 plus the signal's number if a signal killed it. May be nil.
	Exited func(status int)

	container *containers.Container // that Container names, once it is found
}

// ErrNoSelection reports that a Selection names no process.
var ErrNoSelection = errors.New("no process selected (use -p, --comm, --container, --all, or a command)")

var errSelections = errors.New("give only one of -p, --comm, --cgroup, --container, --all and a command")

// Check returns an error if the selection makes no sense: one that wraps
// ErrNoSelection if it is empty.
func (s *Selection) Check() error {
	ways := 0
	for _, chosen := range []bool{len(s.PIDs) > 0, s.Comm != "", s.Cgroup != "", s.Container != "", s.All, len(s.Command) > 0} {
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

// resolve finds the control group or the container that is selected.
func (s *Selection) resolve() (err error) {
	switch {
	case s.Cgroup != "":
		s.Cgroup, err = process.FindCgroup(s.Cgroup)
	case s.Container != "":
		s.container, err = containers.Find(s.Container)
	}
	return err
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

// Running returns the processes that are selected and run now: those that are named by number,
// or else those that hold V8. Selected ones without V8 are left out. If there are none, the error
// wraps ErrNotFound.
func (s *Selection) Running() (pids []int, err error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	if err := s.resolve(); err != nil {
		return nil, err
	}
	all, err := s.list()
	if err != nil || len(s.PIDs) > 0 {
		return all, err
	}
	t := NewTable(Maps{})
	defer func() { err = errors.Join(err, t.Close()) }()
	for _, pid := range all {
		err := t.sift(pid)
		switch {
		case err == nil:
			pids = append(pids, pid)
		case !errors.Is(err, process.ErrGone) && !errors.Is(err, v8.ErrNotV8):
			return nil, err
		}
	}
	if len(pids) == 0 {
		return nil, s.missing(" with V8")
	}
	return pids, nil
}

// missing returns an error that wraps ErrNotFound, for a selection of which there is no process.
// The quality, which may be empty, is what else they were to have: " with V8".
func (s *Selection) missing(quality string) error {
	switch {
	case s.Cgroup != "":
		return fmt.Errorf("%w%s in control group %s", ErrNotFound, quality, s.Cgroup)
	case s.Container != "":
		return fmt.Errorf("%w%s in container %v", ErrNotFound, quality, s.container)
	case s.Comm != "":
		return fmt.Errorf("%w%s that is named, or runs a file named, %s", ErrNotFound, quality, s.Comm)
	}
	return fmt.Errorf("%w with V8", ErrNotFound)
}

// program returns the name of the program that processes will probably run that start later; empty if there
// is no reason to expect one. A command is node, or a script or shell that starts it.
func (s *Selection) program() string {
	if len(s.Command) > 0 {
		return "node"
	}
	return s.Comm
}

// goesOn reports whether processes that start later may be selected.
func (s *Selection) goesOn() bool {
	return s.All || s.Comm != "" || s.Cgroup != "" || s.Container != ""
}

func (s *Selection) selects(p process.Listed) bool {
	switch {
	case s.Cgroup != "":
		return process.InCgroup(p.PID, s.Cgroup)
	case s.container != nil:
		return s.container.Has(p.PID)
	}
	return s.All || p.Runs(s.Comm)
}
