package process

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The test binary is its own target: with this variable in its environment it
// plays a role instead of running tests.
const roleVariable = "USTACK_TEST_ROLE"

const secret = "what the target holds"

func TestMain(m *testing.M) {
	roles := map[string]func(args []string) error{
		"memory":     holdMemory,
		"file":       mapFile,
		"mount":      mapFileOfMount,
		"overlay":    mapFileOfOverlay,
		"unentitled": lookAt,
	}
	role, ok := roles[os.Getenv(roleVariable)]
	if !ok {
		os.Exit(m.Run())
	}
	if err := role(os.Args[1:]); err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
}

// ready reports that setup is done, and waits until the test is done.
func ready(fact any) error {
	fmt.Println("ready", fact)
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}

// holdMemory reports where the secret is: at the very end of readable memory.
func holdMemory([]string) error {
	page := os.Getpagesize()
	memory, err := unix.Mmap(-1, 0, 2*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return err
	}
	if err := unix.Mprotect(memory[page:], unix.PROT_NONE); err != nil {
		return err
	}
	start := page - copy(memory[page-len(secret):], secret)
	defer runtime.KeepAlive(memory)
	return ready(uintptr(unsafe.Pointer(&memory[start])))
}

// mapFile maps the file args[0] and, if args[1] says so, removes or replaces it.
func mapFile(args []string) error {
	f, err := os.Open(args[0])
	if err != nil {
		return err
	}
	memory, err := unix.Mmap(int(f.Fd()), 0, len(secret), unix.PROT_READ, unix.MAP_PRIVATE)
	if err != nil {
		return err
	}
	defer runtime.KeepAlive(memory)
	switch args[1] {
	case "removed":
		err = os.Remove(args[0])
	case "replaced":
		err = errors.Join(os.Remove(args[0]), os.WriteFile(args[0], []byte("another"), 0o600))
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	return ready(uintptr(unsafe.Pointer(&memory[0])))
}

// mapFileOfMount does the same where only the target's mount namespace has the
// file.
func mapFileOfMount(args []string) error {
	if err := mountOwn(filepath.Dir(args[0])); err != nil {
		return err
	}
	if err := os.WriteFile(args[0], []byte(secret), 0o600); err != nil {
		return err
	}
	return mapFile(args)
}

// mapFileOfOverlay does the same on an overlay file system, as container runtimes
// use.
func mapFileOfOverlay(args []string) error {
	dir := filepath.Dir(args[0])
	if err := mountOwn(dir); err != nil {
		return err
	}
	lower, upper, work := filepath.Join(dir, "lower"), filepath.Join(dir, "upper"), filepath.Join(dir, "work")
	for _, d := range []string{lower, upper, work} {
		if err := os.Mkdir(d, 0o700); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(lower, filepath.Base(args[0])), []byte(secret), 0o600); err != nil {
		return err
	}
	layers := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", lower, upper, work)
	if err := unix.Mount("overlay", dir, "overlay", 0, layers); err != nil {
		return err
	}
	return mapFile(args)
}

// mountOwn mounts an empty file system on dir, for this process alone.
func mountOwn(dir string) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	return unix.Mount("own", dir, "tmpfs", 0, "")
}

// lookAt reports the result of inspecting the process args[0] as the current
// user.
func lookAt(args []string) error {
	pid, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	p, err := Open(pid)
	if err != nil {
		return err
	}
	defer p.Close()
	_, mapsErr := p.Maps()
	_, readErr := p.ReadAt(make([]byte, 8), 0x1000)
	return ready(errors.Is(mapsErr, ErrPermission) && errors.Is(readErr, ErrPermission))
}

// A target is a process in a role.
type target struct {
	cmd   *exec.Cmd
	stdin io.Closer
	fact  string // what it reported when it was ready
}

// start runs the test binary in a role until the test ends.
func start(t *testing.T, attr *syscall.SysProcAttr, role string, args ...string) *target {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Env = append(os.Environ(), roleVariable+"="+role)
	cmd.SysProcAttr = attr
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	target := &target{cmd: cmd, stdin: stdin}
	t.Cleanup(target.stop)
	line, err := bufio.NewReader(stdout).ReadString('\n')
	fact, ok := strings.CutPrefix(line, "ready ")
	if !ok {
		t.Fatalf("the target said %q, %v", line, err)
	}
	target.fact = strings.TrimSpace(fact)
	return target
}

// stop ends the target and waits until its PID is free.
func (x *target) stop() {
	x.stdin.Close()
	_ = x.cmd.Wait() // fails if called a second time
}

func (x *target) pid() int { return x.cmd.Process.Pid }

// address parses the fact of a target that reported an address.
func (x *target) address(t *testing.T) uint64 {
	t.Helper()
	address, err := strconv.ParseUint(x.fact, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return address
}

// open opens a target until the test ends.
func (x *target) open(t *testing.T) *Process {
	t.Helper()
	p, err := Open(x.pid())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}
