package check

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"ustack/loader"
	"ustack/symbolize/kallsyms"
	"ustack/symbolize/process"
)

// architecture checks that the tools support the machine's architecture.
func architecture() (string, error) {
	switch runtime.GOARCH {
	case "amd64":
		return "x86-64", nil
	case "arm64":
		return "arm64", nil
	}
	return "", missing(runtime.GOARCH, "only x86-64 and arm64 are supported")
}

// kernel checks that the kernel has what the programs need.
func kernel() (string, error) {
	if err := loader.Supported(); err != nil {
		return "", err
	}
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return "", err
	}
	return "Linux " + unix.ByteSliceToString(name.Release[:]), nil
}

// container says in which kind of container this process runs, if any.
func container() (string, error) { return containerOf("/"), nil }

// containerOf says in which kind of container processes with this root directory run.
func containerOf(root string) string {
	for _, kind := range []struct{ name, file string }{{"Docker", ".dockerenv"}, {"Podman", "run/.containerenv"}} {
		if _, err := os.Stat(filepath.Join(root, kind.file)); err == nil {
			return "in a container of " + kind.name + ": files of processes outside it are found by /proc"
		}
	}
	text, _ := os.ReadFile(filepath.Join(root, "proc/1/environ")) // readable only by root
	if strings.Contains(string(text), "container=") {
		return "in a container"
	}
	return "in none"
}

func userNamespace() (string, error) {
	if !firstUserNamespace() {
		return "", missing("not the one that the machine started with, so capabilities do not count",
			"run as root of the machine itself, not of a rootless container")
	}
	return "the one that the machine started with", nil
}

// pidNamespace checks that /proc shows this process's pid namespace.
func pidNamespace() (string, error) {
	self, err := os.Readlink("/proc/self")
	if err != nil {
		return "", missing("/proc cannot be read", "mount -t proc proc /proc")
	}
	if self != strconv.Itoa(os.Getpid()) {
		return "", missing("/proc is another PID namespace's", "mount -t proc proc /proc in this one")
	}
	inode, err := loader.PIDNamespace()
	if err != nil {
		return "", err
	}
	if inode != 0 {
		return "a container's: only its own processes are seen (run outside it, or with --pid=host, for others)", nil
	}
	return "the one that the machine started with", nil
}

// ptraceChild stops a child at its first instruction and reads its memory, as
// for a core.
func ptraceChild() (detail string, err error) {
	runtime.LockOSThread() // ptrace needs the same thread each time
	defer runtime.UnlockOSThread()
	cmd := exec.Command("/proc/self/exe", "--version")
	cmd.SysProcAttr = &unix.SysProcAttr{Ptrace: true}
	const remedy = "is kernel.yama.ptrace_scope 3, or does the container's seccomp profile forbid ptrace?"
	if err := cmd.Start(); err != nil {
		return "", fmt.Errorf("trace a child: %w (%s)", err, remedy)
	}
	defer func() {
		_ = cmd.Process.Kill() // still stopped
		_ = cmd.Wait()
	}()
	var status unix.WaitStatus
	if _, err := unix.Wait4(cmd.Process.Pid, &status, 0, nil); err != nil || !status.Stopped() {
		return "", fmt.Errorf("trace a child: %w (%s)", errors.Join(err, errors.New("it did not stop")), remedy)
	}
	if err := Process(cmd.Process.Pid, Dump); err != nil {
		return "", err
	}
	return "a child was stopped and its memory opened; kernel.yama.ptrace_scope is " + sysctl("kernel/yama/ptrace_scope"), nil
}

func controlGroups() (string, error) {
	mount, err := process.CgroupMount()
	if err != nil {
		return "", err
	}
	return "version 2 in " + mount, nil
}

func kernelSymbols() (string, error) {
	if _, err := kallsyms.Open(); err != nil {
		return "", err
	}
	return "readable; kernel.kptr_restrict is " + sysctl("kernel/kptr_restrict"), nil
}

// sysctl returns the value of a sysctl, named by its path in /proc/sys.
func sysctl(path string) string {
	text, err := os.ReadFile("/proc/sys/" + path)
	if err != nil {
		return "not there"
	}
	return strings.TrimSpace(string(text))
}
