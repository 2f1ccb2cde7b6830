package process

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// ErrNoCgroup2 means that no cgroup v2 hierarchy is mounted.
var ErrNoCgroup2 = errors.New("no control groups of version 2 are mounted (mount -t cgroup2 none /sys/fs/cgroup)")

// CgroupMount returns where cgroup v2 is mounted: usually /sys/fs/cgroup, or
// /sys/fs/cgroup/unified alongside cgroup v1.
func CgroupMount() (string, error) {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "", fmt.Errorf("find the control groups: %w", err)
	}
	if mount, ok := cgroupMount(string(text)); ok {
		return mount, nil
	}
	return "", ErrNoCgroup2
}

// cgroupMount finds the mount point in a mountinfo file: proc_pid_mountinfo(5).
func cgroupMount(mountinfo string) (string, bool) {
	for line := range strings.Lines(mountinfo) {
		mount, source, ok := strings.Cut(line, " - ")
		fields := strings.Fields(mount)
		if ok && strings.HasPrefix(source, "cgroup2 ") && len(fields) > 4 {
			return fields[4], true
		}
	}
	return "", false
}

// FindCgroup returns the path of a v2 control group relative to the mount point,
// as in /proc/PID/cgroup. The group may be given with or without the mount point.
// It is an error if no such group exists.
func FindCgroup(group string) (string, error) {
	mount, err := CgroupMount()
	if err != nil {
		return "", err
	}
	below := path.Clean("/" + group)
	if rest, ok := strings.CutPrefix(below, mount); ok && (rest == "" || rest[0] == '/') {
		below = path.Clean("/" + rest)
	}
	if info, err := os.Stat(filepath.Join(mount, below)); err != nil || !info.IsDir() {
		return "", fmt.Errorf("no control group %s in %s (/proc/PID/cgroup has a process's, behind \"0::\")", below, mount)
	}
	return below, nil
}

// InCgroup reports whether process pid is in a control group or one of its
// descendants. The group is a path as FindCgroup returns it.
func InCgroup(pid int, group string) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		return false // the process has ended
	}
	for line := range strings.Lines(string(text)) {
		// Hierarchy 0, without a list of controllers, is cgroup v2: cgroups(7).
		if in, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "0::"); ok {
			return group == "/" || in == group || strings.HasPrefix(in, group+"/")
		}
	}
	return false
}
