package check

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestMachineDescribesItself hides what a machine may lack, or looks as from a container.
func TestMachineDescribesItself(t *testing.T) {
	for name, tt := range map[string]struct {
		job        job
		attributes *syscall.SysProcAttr
		tool       string
		check      string
		ok, works  bool
		detail     string // part of it
	}{
		"as it is":          {job{}, apart(), "jsprof", "BTF", true, true, "describes its types"},
		"without BTF":       {job{Empty: []string{"/sys/kernel/btf"}}, apart(), "jsprof", "BTF", false, false, "the kernel needs CONFIG_DEBUG_INFO_BTF"},
		"without lockdown":  {job{Empty: []string{"/sys/kernel/security"}}, apart(), "stopon", "lockdown", true, true, "not known"},
		"without tracefs":   {job{Empty: []string{"/sys/kernel/tracing"}}, apart(), "addonlat", "tracefs", true, true, "not mounted, and not used"},
		"without symbols":   {job{Null: []string{"/proc/kallsyms"}}, apart(), "jsprof", "kernel symbols", false, true, "/proc/kallsyms lists no functions"},
		"of another /proc":  {job{}, &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID}, "jscore", "pid namespace", false, false, "mount -t proc proc /proc"},
		"a container's PID": {job{Proc: true}, &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID, Unshareflags: unix.CLONE_NEWNS}, "jsprof", "pid namespace", true, true, "only its own processes are seen"},
		"a user's own":      {job{}, userNamespaceOf(0), "jsprof", "user namespace", false, false, "not of a rootless container"},
		"a user's core":     {job{}, userNamespaceOf(0), "jscore", "user namespace", false, true, "not of a rootless container"},
	} {
		t.Run(name, func(t *testing.T) {
			tt.job.Tools = []string{tt.tool}
			a := run(t, tt.job, tt.attributes)
			r := a.result(t, tt.tool, tt.check)
			if r.OK != tt.ok || !strings.Contains(r.Detail, tt.detail) {
				t.Errorf("%s = %+v, want ok = %t and %q", tt.check, r, tt.ok, tt.detail)
			}
			if got := a.Reports[tt.tool].Works; got != tt.works {
				t.Errorf("works = %t, want %t: %+v", got, tt.works, a.Reports[tt.tool].Checks)
			}
		})
	}
}

func userNamespaceOf(id int) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: id, Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: id, Size: 1}},
	}
}

func TestContainersAreKnownByTheirFiles(t *testing.T) {
	for want, files := range map[string]map[string]string{
		"in none":                   {"proc/1/environ": "PATH=/bin\x00HOME=/"},
		"in a container":            {"proc/1/environ": "PATH=/bin\x00container=lxc\x00"},
		"in a container of Docker:": {".dockerenv": "", "proc/1/environ": "container=oci"},
		"in a container of Podman:": {"run/.containerenv": ""},
	} {
		root := t.TempDir()
		for name, text := range files {
			path := filepath.Join(root, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got := containerOf(root); !strings.HasPrefix(got, want) || want == "in a container" && got != want {
			t.Errorf("with %v: %q, want %q", files, got, want)
		}
	}
}

func TestSysctlsThatAreNotThereAreSaid(t *testing.T) {
	if got := sysctl("kernel/ostype"); got != "Linux" {
		t.Errorf("kernel.ostype = %q, want Linux", got)
	}
	if got := sysctl("kernel/no_such_name"); got != "not there" {
		t.Errorf("a sysctl that does not exist = %q, want that it is not there", got)
	}
}

func TestEntryIsWhereAProgramBegins(t *testing.T) {
	offset, err := entry("/proc/self/exe")
	if err != nil || offset == 0 {
		t.Fatalf("entry of this program = %#x, %v, want a place", offset, err)
	}
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{text, text + ".gone"} {
		if _, err := entry(path); err == nil || !strings.HasPrefix(err.Error(), "read our own executable: ") {
			t.Errorf("entry of %s: error = %v, want one", path, err)
		}
	}
}
