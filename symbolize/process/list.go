package process

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

// A Listed process was running when the list was made.
type Listed struct {
	PID  int
	Comm string
}

// List returns all processes that /proc shows us, by number.
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
			continue // it ended meanwhile
		}
		all = append(all, Listed{pid, strings.TrimSuffix(string(comm), "\n")})
	}
	slices.SortFunc(all, func(a, b Listed) int { return a.PID - b.PID })
	return all, nil
}
