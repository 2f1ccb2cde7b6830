package nodetest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
)

// containers counts those of this process, so that each gets an ID of its own.
var containers atomic.Uint32

// Contain puts running processes into a control group such as Docker makes, beside one without
// V8, and returns the ID of the container that they seem to be in. It works with version 1
// and 2 of control groups. When the test ends, before the processes do, they are moved back.
func Contain(t testing.TB, pids ...int) (id string) {
	t.Helper()
	mount := cgroupMount()
	if mount == "" {
		MustRun(t, "no control groups are mounted")
	}
	id = fmt.Sprintf("%06x%06x%052x", os.Getpid(), containers.Add(1), 0)
	above := filepath.Join(mount, "docker")
	folder := filepath.Join(above, id)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		MustRun(t, "no control group can be made: "+err.Error())
	}
	t.Cleanup(func() {
		if err := move(mount, members(folder)); err != nil {
			t.Error(err)
		}
		if err := os.Remove(folder); err != nil {
			t.Error(err)
		}
		_ = os.Remove(above) // another test's container may be in it
	})
	if err := move(folder, append(pids, withoutV8(t))); err != nil {
		t.Fatal(err)
	}
	return id
}

// Cgroup puts running processes into a control group of version 2 of their own, and returns
// its path as --cgroup takes it. When the test ends, before the processes do, they are
// moved back.
func Cgroup(t testing.TB, pids ...int) (name string) {
	t.Helper()
	mount := cgroup2Mount(t)
	name = fmt.Sprintf("/ustack-test-%d-%d", os.Getpid(), containers.Add(1))
	folder := filepath.Join(mount, name)
	if err := os.Mkdir(folder, 0o755); err != nil {
		MustRun(t, "no control group can be made: "+err.Error())
	}
	t.Cleanup(func() {
		if err := errors.Join(move(mount, members(folder)), os.Remove(folder)); err != nil {
			t.Error(err)
		}
	})
	if err := move(folder, pids); err != nil {
		t.Fatal(err)
	}
	return name
}

// cgroup2Mount returns where control groups of version 2 are mounted.
func cgroup2Mount(t testing.TB) string {
	t.Helper()
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		if fields := strings.Fields(line); len(fields) > 2 && fields[2] == "cgroup2" {
			return fields[1]
		}
	}
	MustRun(t, "no cgroup2 is mounted")
	return ""
}

// cgroupMount returns where a hierarchy of control groups is mounted: version 1 of those that
// limit the number of processes, or version 2.
func cgroupMount() string {
	for _, mount := range []string{"/sys/fs/cgroup/pids", "/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
		if _, err := os.Stat(filepath.Join(mount, "cgroup.procs")); err == nil {
			return mount
		}
	}
	return ""
}

// withoutV8 starts a process that has no V8, until the test ends.
func withoutV8(t testing.TB) int {
	t.Helper()
	cmd := exec.Command("cat")
	stdin, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(stdin.Close(), cmd.Wait()); err != nil {
			t.Error(err)
		}
	})
	return cmd.Process.Pid
}

// members returns the processes in a control group.
func members(folder string) (pids []int) {
	text, _ := os.ReadFile(filepath.Join(folder, "cgroup.procs")) // removing the group says what is wrong
	for word := range strings.FieldsSeq(string(text)) {
		pid, _ := strconv.Atoi(word)
		pids = append(pids, pid)
	}
	return pids
}

// move moves processes into a control group. One that has ended is in none.
func move(folder string, pids []int) error {
	for _, pid := range pids {
		err := os.WriteFile(filepath.Join(folder, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0)
		if err != nil && !errors.Is(err, unix.ESRCH) {
			return err
		}
	}
	return nil
}
