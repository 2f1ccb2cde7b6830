package core

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMemoryGroups(t *testing.T) {
	const two = "29 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
	const one = "33 29 0:30 / /sys/fs/cgroup/memory rw shared:9 - cgroup cgroup rw,memory\n" +
		"34 29 0:31 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
	const docker = "33 29 0:30 /docker/1 /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n"
	for _, test := range []struct {
		mounts, groups string
		want           []string
	}{
		{two, "0::/a/b\n", []string{"/sys/fs/cgroup/a/b", "/sys/fs/cgroup/a", "/sys/fs/cgroup"}},
		{two, "0::/\n", []string{"/sys/fs/cgroup"}},
		{two, "0::/../outside\n", []string{"/sys/fs/cgroup"}},
		{one, "5:memory:/a\n4:cpu,cpuacct:/b\n", []string{"/sys/fs/cgroup/memory/a", "/sys/fs/cgroup/memory"}},
		{docker, "5:memory:/docker/1\n", []string{"/sys/fs/cgroup/memory"}},
		{docker, "5:memory:/docker/1/x:y\n", []string{"/sys/fs/cgroup/memory/x:y", "/sys/fs/cgroup/memory"}},
		{one, "4:cpu,cpuacct:/b\n", nil},
		{"bad line\n", "bad line\n", nil},
	} {
		if diff := cmp.Diff(test.want, memoryGroups(test.mounts, test.groups)); diff != "" {
			t.Errorf("%s in %s (-want +got):\n%s", test.groups, test.mounts, diff)
		}
	}
}

func TestWhatAGroupHasLeft(t *testing.T) {
	const mib = 1 << 20
	for name, test := range map[string]struct {
		files map[string]string
		want  uint64
		ok    bool
	}{
		"no limit": {map[string]string{"memory.max": "max", "memory.high": "max", "memory.current": "5"}, 0, false},
		"version 2": {map[string]string{
			"memory.max": fmt.Sprint(500 * mib), "memory.high": fmt.Sprint(400 * mib), "memory.current": fmt.Sprint(300 * mib),
			"memory.stat": fmt.Sprintf("anon 7\ninactive_file %d\n", 50*mib),
		}, 150*mib - leaveGroup, true},
		"version 1": {map[string]string{
			"memory.limit_in_bytes": fmt.Sprint(400 * mib), "memory.usage_in_bytes": fmt.Sprint(300 * mib),
			"memory.stat": fmt.Sprintf("inactive_file 1\ntotal_inactive_file %d\n", 50*mib),
		}, 150*mib - leaveGroup, true},
		"full":      {map[string]string{"memory.max": fmt.Sprint(mib), "memory.current": fmt.Sprint(mib)}, 0, true},
		"the first": {map[string]string{"memory.stat": "anon 7\n"}, 0, false},
	} {
		folder := t.TempDir()
		for file, text := range test.files {
			if err := os.WriteFile(filepath.Join(folder, file), []byte(text+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if got, ok := groupLeft(folder); got != test.want || ok != test.ok {
			t.Errorf("%s: left = %d, %v, want %d, %v", name, got, ok, test.want, test.ok)
		}
	}
}

// TestTooLittleMemoryForACopy runs this very test in a control group that has no room
// for a copy of the process: the core is written while it is stopped.
func TestTooLittleMemoryForACopy(t *testing.T) {
	const variable = "USTACK_CORE_DIRECT"
	if text := os.Getenv(variable); text != "" {
		var pid int
		var path string
		if _, err := fmt.Sscan(text, &pid, &path); err != nil {
			t.Fatal(err)
		}
		result, err := Write(context.Background(), pid, path, Options{MaxStop: 60e9})
		if err != nil || !result.Direct {
			t.Errorf("Write = %+v, %v, want a core that is written directly", result, err)
		}
		_, err = Write(context.Background(), pid, path+"2", Options{MaxStop: 1e6})
		if err == nil || !strings.Contains(err.Error(), "in control group") || !strings.Contains(err.Error(), "may take") {
			t.Errorf("Write within 1 ms = %v, want an error that says why not", err)
		}
		return
	}
	g := newGroup(t)
	g.set(g.limit, 120<<20)
	h, dir := startHeap(t, oneVersion, "100"), t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(g.program(self), "-test.run=^TestTooLittleMemoryForACopy$")
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d %s", variable, h.PID, filepath.Join(dir, "core")))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("in the group: %v\n%s", err, out)
	}
	checkOnly(t, dir, "core")
	open(t, filepath.Join(dir, "core"))
	h.checkRunsOn(t)
}
