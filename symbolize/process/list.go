package process

import (
	"fmt"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
)

// A Listed process was running when the list was made.
type Listed struct {
	PID  int
	Comm string
}

// List returns all processes visible in /proc, by PID.
func List() ([]Listed, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var all []Listed
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		comm, err := os.ReadFile("/proc/" + name + "/comm")
		if err != nil {
			continue // the process has ended
		}
		all = append(all, Listed{pid, strings.TrimSuffix(string(comm), "\n")})
	}
	slices.SortFunc(all, func(a, b Listed) int { return a.PID - b.PID })
	return all, nil
}

// Runs reports whether a process has that name: its own, or that of its
// executable. Node.js 24 and later name their first thread, and so the process,
// MainThread.
func (l Listed) Runs(name string) bool {
	if l.Comm == name {
		return true
	}
	exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", l.PID))
	return err == nil && path.Base(strings.TrimSuffix(exe, " (deleted)")) == name
}
