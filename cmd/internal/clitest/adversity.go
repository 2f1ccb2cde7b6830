package clitest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"ustack/testdata/nodetest"
)

// CheckFullDisk checks that a command, run with --output FILE on a full disk,
// fails and says so, and neither leaves a partial file nor changes an existing
// one. The name's extension is the file's.
func CheckFullDisk(t testing.TB, name string, command ...string) {
	t.Helper()
	dir := fullDisk(t, "old-"+name)
	old := filepath.Join(dir, "old-"+name)
	before := names(t, dir)
	for _, path := range []string{filepath.Join(dir, name), old} {
		cmd := exec.Command(command[0], append(command[1:len(command):len(command)], "--output", path)...)
		Fails(t, cmd, fmt.Sprintf("write %s: no space left on device (nothing was written", path))
	}
	if got, err := os.ReadFile(old); err != nil || string(got) != asItWas {
		t.Errorf("old file = %q, %v, want it as it was", got, err)
	}
	if diff := cmp.Diff(before, names(t, dir)); diff != "" {
		t.Errorf("files (-before +after):\n%s", diff)
	}
}

const asItWas = "as it was"

// fullDisk returns the root of a file system with no room beyond a small file.
func fullDisk(t testing.TB, name string) string {
	t.Helper()
	dir := t.TempDir()
	page := os.Getpagesize()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d,nr_inodes=8", 2*page)); err != nil {
		nodetest.MustRun(t, "no small file system: "+err.Error())
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	err := errors.Join(
		os.WriteFile(filepath.Join(dir, name), []byte(asItWas), 0o600),
		os.WriteFile(filepath.Join(dir, "filler"), make([]byte, page), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// CheckOutputPlaces checks that a command refuses at once to write, with
// --output FILE, where it cannot or must not: it fails without waiting for a
// duration or the end of its target. The name's extension is the file's.
func CheckOutputPlaces(t testing.TB, name string, command ...string) {
	t.Helper()
	dir := t.TempDir()
	shared, victim, pipe := filepath.Join(dir, "shared"), filepath.Join(dir, "victim"), filepath.Join(dir, "pipe-"+name)
	planted := filepath.Join(shared, name)
	err := errors.Join(
		os.WriteFile(victim, []byte(asItWas), 0o600), unix.Mkfifo(pipe, 0o600), os.Mkdir(filepath.Join(dir, name), 0o700),
		os.Mkdir(shared, 0o700), os.Chmod(shared, 0o777|os.ModeSticky),
		os.Symlink(victim, planted), os.Lchown(planted, nobodyID, nobodyID))
	if err != nil {
		t.Fatal(err)
	}
	for _, place := range []struct{ path, why string }{
		{filepath.Join(dir, name), "is a directory"},
		{filepath.Join(dir, "none", name), "no such file or directory"},
		{filepath.Join("/proc", name), "no such file or directory"},
		{pipe, "nothing reads from it"},
		{planted, "a symbolic link in a directory where others can write"},
	} {
		cmd := exec.CommandContext(t.Context(), command[0], append(command[1:len(command):len(command)], "--output", place.path)...)
		Fails(t, cmd, fmt.Sprintf("write %s: %s", place.path, place.why))
	}
	if got, err := os.ReadFile(victim); err != nil || string(got) != asItWas {
		t.Errorf("the file that a planted link leads to = %q, %v, want it as it was", got, err)
	}
}

func names(t testing.TB, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

const nobodyID = 65534 // the user and the group

// nobody returns the attributes of a process without privileges.
func nobody() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobodyID, Gid: nobodyID}, Pdeathsig: syscall.SIGKILL}
}

// CheckUnprivileged checks that a command, run with --pid by a user without
// privileges, fails and names the remedy: for root's process pid, and for a
// process of the user.
func CheckUnprivileged(t testing.TB, pid int, command ...string) {
	t.Helper()
	path := copyForAll(t, command[0])
	own := exec.Command("sleep", "60") // refused before it matters what the process is
	own.SysProcAttr = nobody()
	if err := own.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = own.Process.Kill() // it runs until then
		_ = own.Wait()
	}()
	for _, pid := range []int{pid, own.Process.Pid} {
		cmd := exec.Command(path, append(command[1:len(command):len(command)], "--pid", strconv.Itoa(pid))...)
		cmd.SysProcAttr, cmd.Dir = nobody(), "/"
		Fails(t, cmd, "(run as root, or with CAP_BPF and CAP_PERFMON)")
	}
}

// copyForAll returns a copy of a command's binary that every user can run:
// other users cannot read t.TempDir.
func copyForAll(t testing.TB, name string) string {
	t.Helper()
	dir, err := os.MkdirTemp("", name+"-*")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	source, err := exec.LookPath(name)
	if err != nil {
		t.Fatal(err)
	}
	binary, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, name)
	if err := errors.Join(os.WriteFile(path, binary, 0o600), os.Chmod(path, 0o755), os.Chmod(dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	return path
}
