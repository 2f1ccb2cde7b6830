package process

import (
	"errors"
	"fmt"
	"io"
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
	for _, in := range cgroups(pid) {
		if in.unified {
			return Below(in.path, group)
		}
	}
	return false
}

// Below reports whether a control group is another one or one of its descendants.
func Below(group, above string) bool {
	return above == "/" || group == above || strings.HasPrefix(group, above+"/")
}

// Cgroups returns the paths of the control groups that process pid is in, of both
// versions; none if it has ended. In a cgroup namespace they begin with "/.." where
// the process is outside of it.
func Cgroups(pid int) []string {
	var paths []string
	for _, in := range cgroups(pid) {
		paths = append(paths, in.path)
	}
	return paths
}

// A membership is that of a process in a hierarchy of control groups.
type membership struct {
	unified bool // of version 2
	path    string
}

// cgroups reads the control groups of process pid: "ID:CONTROLLERS:PATH" in each line,
// "0::PATH" of version 2 (cgroups(7)).
func cgroups(pid int) []membership {
	f, err := os.Open(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		return nil // the process has ended
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxStatus))
	if err != nil {
		return nil
	}
	var all []membership
	for line := range strings.Lines(string(text)) {
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(parts) == 3 {
			all = append(all, membership{parts[0] == "0" && parts[1] == "", parts[2]})
		}
	}
	return all
}
