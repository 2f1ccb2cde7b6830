package process

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCgroupMountIsFoundBesideThoseOfVersion1(t *testing.T) {
	const beside = `30 29 0:26 / /sys/fs/cgroup ro shared:9 - tmpfs tmpfs ro,mode=755
31 30 0:27 / /sys/fs/cgroup/cpu rw shared:10 - cgroup cgroup rw,cpu
32 30 0:28 / /sys/fs/cgroup/unified rw shared:11 - cgroup2 cgroup2 rw
`
	if got, ok := cgroupMount(beside); !ok || got != "/sys/fs/cgroup/unified" {
		t.Errorf("mount = %q, %v, want /sys/fs/cgroup/unified", got, ok)
	}
	if got, ok := cgroupMount(strings.ReplaceAll(beside, "cgroup2", "other")); ok {
		t.Errorf("mount = %q, want none", got)
	}
}

func TestGroupThatIsNotThereIsAnError(t *testing.T) {
	mount, err := CgroupMount()
	if err != nil {
		t.Skip(err)
	}
	for group, want := range map[string]string{
		"/": "/", mount: "/", mount + "/": "/", "": "/",
		"/none": "", mount + "/none": "", "none/../none": "", "/cgroup.procs": "",
	} {
		got, err := FindCgroup(group)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("group of %q = %q, %v, want %q", group, got, err, want)
		}
	}
}

func TestProcessIsInItsGroupAndThoseAround(t *testing.T) {
	mount, err := CgroupMount()
	if err != nil {
		t.Skip(err)
	}
	dir, err := os.MkdirTemp(mount, "ustack-test-")
	if err != nil {
		t.Skip("no control group can be made: ", err)
	}
	t.Cleanup(func() { _ = os.Remove(dir) }) // a group that is empty again
	group, err := FindCgroup(dir)
	if err != nil {
		t.Fatal(err)
	}
	for group, want := range map[string]bool{"/": true, group: false, filepath.Dir(group): true} {
		if got := InCgroup(os.Getpid(), group); got != want {
			t.Errorf("InCgroup(%q) = %v, want %v", group, got, want)
		}
	}
}
