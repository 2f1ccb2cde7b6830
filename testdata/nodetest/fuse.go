package nodetest

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// A FileServer is a FUSE file system with one file.
type FileServer struct {
	Path string // of the file in it

	t   testing.TB
	cmd *exec.Cmd
}

// ServeFile serves a file by FUSE until the test ends. Then the file system is
// aborted, so that nobody waits for it any longer.
func ServeFile(t testing.TB, path string) *FileServer {
	t.Helper()
	Root(t)
	if _, err := os.Stat("/dev/fuse"); err != nil {
		MustRun(t, "no FUSE: "+err.Error())
	}
	dir := t.TempDir()
	program, mount := filepath.Join(dir, "fusefile"), filepath.Join(dir, "mount")
	if out, err := exec.Command("gcc", "-O1", "-Wall", "-o", program, Program("fusefile.c")).CombinedOutput(); err != nil {
		t.Fatalf("compile fusefile.c: %v\n%s", err, out)
	}
	if err := os.Mkdir(mount, 0o700); err != nil {
		t.Fatal(err)
	}
	s := &FileServer{Path: filepath.Join(mount, filepath.Base(path)), t: t, cmd: exec.Command(program, mount, path)}
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	s.cmd.Stderr = os.Stderr
	stdout, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.abort(mount) })
	if line, err := bufio.NewReader(stdout).ReadString('\n'); err != nil || strings.TrimSpace(line) != "ready" {
		t.Fatalf("first line of fusefile = %q, %v, want ready", line, err)
	}
	return s
}

// abort ends the server, and with it every pending request.
func (s *FileServer) abort(mount string) {
	_ = s.cmd.Process.Kill() // closes /dev/fuse
	_ = s.cmd.Wait()         // by that signal
	if err := unix.Unmount(mount, unix.MNT_DETACH); err != nil {
		s.t.Errorf("unmount %s: %v", mount, err)
	}
}

// Die makes the server take requests and answer none.
func (s *FileServer) Die() {
	s.t.Helper()
	if err := s.cmd.Process.Signal(syscall.SIGUSR1); err != nil {
		s.t.Fatal(err)
	}
}

// Hang stops the server, so that it does not even take requests.
func (s *FileServer) Hang() {
	s.t.Helper()
	if err := s.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		s.t.Fatal(err)
	}
	if err := waitStopped(s.cmd.Process.Pid); err != nil {
		s.t.Fatal(err)
	}
}

func waitStopped(pid int) error {
	for {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return err
		}
		_, state, _ := strings.Cut(string(stat), ") ")
		if strings.HasPrefix(state, "T") {
			return nil
		}
	}
}

// Drop makes the kernel drop its cache of the file, so that it requests the
// file from the server again. Pages that are mapped and in use stay.
func (s *FileServer) Drop() {
	s.t.Helper()
	f, err := os.Open(s.Path)
	if err != nil {
		s.t.Fatal(err)
	}
	defer f.Close()
	if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
		s.t.Fatal(err)
	}
}
