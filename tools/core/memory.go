package core

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

const (
	leaveMachine = 128 << 20 // bytes of the machine's memory that a copy leaves free
	leaveGroup   = 32 << 20  // bytes of a control group's limit that a copy leaves unused
)

// A freeBytes says how much memory this process may use.
type freeBytes struct {
	bytes uint64
	where string // what has no more memory, for messages
}

// freeMemory returns what is available to this process: the least that the
// machine and each of its control groups have left.
func freeMemory() (freeBytes, error) {
	meminfo, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return freeBytes{}, fmt.Errorf("find the free memory: %w", err)
	}
	available, ok := field(meminfo, "MemAvailable:")
	if !ok {
		return freeBytes{}, errors.New("find the free memory: /proc/meminfo has no MemAvailable")
	}
	least := freeBytes{less(available<<10, leaveMachine), "on this machine"}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return freeBytes{}, fmt.Errorf("find the memory limits of this process: %w", err)
	}
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // the kernel may not support control groups
		return freeBytes{}, fmt.Errorf("find the memory limits of this process: %w", err)
	}
	for _, folder := range memoryGroups(string(mounts), string(groups)) {
		if left, ok := groupLeft(folder); ok && left < least.bytes {
			least = freeBytes{left, "in control group " + folder}
		}
	}
	return least, nil
}

// memoryGroups returns the directories of the control groups that limit this
// process's memory: of version 2 and of version 1's memory controller, each
// with all its ancestors that are visible from here.
func memoryGroups(mounts, groups string) []string {
	var folders []string
	for line := range strings.Lines(mounts) {
		// id parent device root mount-point options … - type source super-options
		left, right, _ := strings.Cut(strings.TrimSpace(line), " - ")
		where, what := strings.Fields(left), strings.Fields(right)
		if len(where) < 5 || len(what) < 3 {
			continue
		}
		controller := ""
		switch {
		case what[0] == "cgroup2":
		case what[0] == "cgroup" && listed(what[2], "memory"):
			controller = "memory"
		default:
			continue
		}
		if path, ok := groupPath(groups, controller); ok {
			folders = append(folders, chain(where[4], below(path, where[3]))...)
		}
	}
	return folders
}

// groupPath returns this process's group in /proc/self/cgroup: in the version 1
// hierarchy of this controller, or in version 2 if controller is empty.
func groupPath(groups, controller string) (string, bool) {
	for line := range strings.Lines(groups) {
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3) // number:controllers:path
		if len(parts) == 3 && (parts[1] == controller || controller != "" && listed(parts[1], controller)) {
			return parts[2], true
		}
	}
	return "", false
}

func listed(list, word string) bool { return strings.Contains(","+list+",", ","+word+",") }

// below returns path relative to root, which is mounted; the root itself if
// path is outside.
func below(path, root string) string {
	relative, err := filepath.Rel(root, path)
	if err != nil || !filepath.IsLocal(relative) || strings.HasPrefix(path, "/..") {
		return "."
	}
	return relative
}

// chain returns the directory relative to mount and all its parents, up to
// mount.
func chain(mount, relative string) []string {
	var all []string
	for ; relative != "."; relative = filepath.Dir(relative) {
		all = append(all, filepath.Join(mount, relative))
	}
	return append(all, mount)
}

// groupLeft returns how much a control group's members may still allocate; ok
// is false if it sets no limit. Inactive page cache counts as free.
func groupLeft(folder string) (left uint64, ok bool) {
	limit, usage, inactive := uint64(math.MaxUint64), "memory.current", "inactive_file "
	for _, file := range []string{"memory.max", "memory.high", "memory.limit_in_bytes"} {
		number, err := readNumber(filepath.Join(folder, file))
		if err == nil {
			limit = min(limit, number)
		}
		if err == nil && file == "memory.limit_in_bytes" {
			usage, inactive = "memory.usage_in_bytes", "total_inactive_file "
		}
	}
	used, err := readNumber(filepath.Join(folder, usage))
	if err != nil || limit == math.MaxUint64 {
		return 0, false
	}
	stat, err := os.ReadFile(filepath.Join(folder, "memory.stat"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, true
	}
	cache, _ := field(stat, inactive)
	return less(limit, less(used, cache)+leaveGroup), true
}

// readNumber reads a file that holds a number. "max" is not a number.
func readNumber(path string) (uint64, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	return strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
}

// field returns the number behind key at the start of a line.
func field(text []byte, key string) (uint64, bool) {
	for line := range bytes.Lines(text) {
		rest, found := bytes.CutPrefix(line, []byte(key))
		if words := strings.Fields(string(rest)); found && len(words) > 0 {
			number, err := strconv.ParseUint(words[0], 10, 64)
			return number, err == nil
		}
	}
	return 0, false
}

// less returns a-b, or 0 if b is greater.
func less(a, b uint64) uint64 { return a - min(a, b) }
