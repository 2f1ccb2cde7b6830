package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"ustack/testdata/nodetest"
)

func TestIdentity(t *testing.T) {
	p, err := Open(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	comm, err := p.Comm()
	if want := filepath.Base(os.Args[0]); err != nil || comm != want[:min(len(want), 15)] {
		t.Errorf("Comm = %q, %v, want %q", comm, err, want)
	}
	exe, err := p.Exe()
	if want, _ := os.Executable(); err != nil || exe != want {
		t.Errorf("Exe = %q, %v, want %q", exe, err, want)
	}
	if uid, err := p.UID(); err != nil || uid != os.Geteuid() {
		t.Errorf("UID = %d, %v, want %d", uid, err, os.Geteuid())
	}
	if parent, err := p.Parent(); err != nil || parent != os.Getppid() {
		t.Errorf("Parent = %d, %v, want %d", parent, err, os.Getppid())
	}
	if p.IsKernel() {
		t.Error("it is one of the kernel's own")
	}
	if n, err := p.NamespacePID(); err != nil || n != os.Getpid() {
		t.Errorf("NamespacePID = %d, %v, want %d", n, err, os.Getpid())
	}
	if n := p.Inside(); n != 0 {
		t.Errorf("PID inside = %d, want 0: it is the same", n)
	}
	if !p.Alive() || p.PID() != os.Getpid() {
		t.Errorf("alive %v, PID %d, want true, %d", p.Alive(), p.PID(), os.Getpid())
	}
	listed, err := List()
	if err != nil || !slices.Contains(listed, Listed{os.Getpid(), comm}) {
		t.Errorf("List = %v, %v, want us in it", listed, err)
	}
}

// TestSecondCloseClosesNothing opens files between the two, which get the descriptors' numbers.
func TestSecondCloseClosesNothing(t *testing.T) {
	p, err := Open(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	others := make([]*os.File, 4)
	for i := range others {
		if others[i], err = os.Open(os.DevNull); err != nil {
			t.Fatal(err)
		}
		defer others[i].Close()
	}
	if err := p.Close(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("second Close = %v, want %v", err, os.ErrClosed)
	}
	for _, f := range others {
		if _, err := f.Stat(); err != nil {
			t.Errorf("a file opened since: %v", err)
		}
	}
}

func TestOpenRefusesAThread(t *testing.T) {
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(threads, func(e os.DirEntry) bool { return e.Name() != strconv.Itoa(os.Getpid()) })
	if at < 0 {
		t.Fatal("no thread besides the first")
	}
	tid, err := strconv.Atoi(threads[at].Name())
	if err != nil {
		t.Fatal(err)
	}
	_, err = Open(tid)
	if want := fmt.Sprintf("its process is %d", os.Getpid()); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("Open of a thread: %v, want %q in it", err, want)
	}
}

func TestReadAt(t *testing.T) {
	target := start(t, nil, "memory")
	p, address := target.open(t), target.address(t)
	got := make([]byte, len(secret))
	if n, err := p.ReadAt(got, address); n != len(got) || err != nil || string(got) != secret {
		t.Errorf("ReadAt = %d, %v, %q, want %q", n, err, got, secret)
	}
	end := address + uint64(len(secret))
	n, err := p.ReadAt(make([]byte, 100), address)
	if want := fmt.Sprintf("%#x", end); n != len(secret) || err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("ReadAt over the end = %d, %v, want %d and an error that names %s", n, err, len(secret), want)
	}
	for _, bad := range []uint64{0, end, 1 << 63, ^uint64(0)} {
		if n, err := p.ReadAt(make([]byte, 8), bad); n != 0 || err == nil {
			t.Errorf("ReadAt(%#x) = %d, %v, want an error", bad, n, err)
		}
	}
	if n, err := p.ReadAt(nil, 0); n != 0 || err != nil {
		t.Errorf("ReadAt of nothing = %d, %v", n, err)
	}
}

func TestWaitReturnsWhenTheProcessExits(t *testing.T) {
	target := start(t, nil, "memory")
	p := target.open(t)
	ctx, cancel := context.WithCancel(t.Context())
	waiting := make(chan error)
	go func() { waiting <- p.Wait(ctx) }()
	exited := make(chan error)
	go func() { exited <- p.Wait(t.Context()) }()
	cancel() // one wait is canceled, the other continues
	if err := <-waiting; !errors.Is(err, context.Canceled) {
		t.Errorf("Wait = %v, want %v", err, context.Canceled)
	}
	if err := target.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := <-exited; err != nil {
		t.Errorf("Wait = %v, want nil", err)
	}
	if p.Alive() {
		t.Error("alive, although Wait returned")
	}
	if err := p.Wait(ctx); err != nil {
		t.Errorf("Wait for a process that exited = %v, want nil", err)
	}
}

// checkGone calls every method on a process that has exited.
func checkGone(t *testing.T, p *Process, address uint64) {
	t.Helper()
	_, maps := p.Maps()
	_, comm := p.Comm()
	_, status := p.NamespacePID()
	_, exe := p.Exe()
	_, root := p.Root()
	_, memory := p.ReadAt(make([]byte, 8), address)
	_, file := p.OpenFile(Mapping{Start: address, End: address + 1, Inode: 1, Path: "/bin/sh"})
	for i, err := range []error{maps, comm, status, exe, root, memory, file} {
		if !errors.Is(err, ErrGone) {
			t.Errorf("error %d = %v, want %v", i, err, ErrGone)
		}
	}
	if p.Alive() {
		t.Error("alive")
	}
}

func TestGone(t *testing.T) {
	target := start(t, nil, "memory")
	p := target.open(t)
	target.stop()
	checkGone(t, p, target.address(t))
	_, err := Open(target.pid())
	if want := fmt.Sprintf("process %d: no such process", target.pid()); err == nil || err.Error() != want {
		t.Errorf("Open = %v, want %q", err, want)
	}
}

func TestExitedButNotWaitedFor(t *testing.T) {
	target := start(t, nil, "memory")
	p := target.open(t)
	if err := target.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := p.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Maps(); !errors.Is(err, ErrGone) {
		t.Errorf("Maps = %v, want %v", err, ErrGone)
	}
	if _, err := Open(target.pid()); !errors.Is(err, ErrGone) {
		t.Errorf("Open = %v, want %v", err, ErrGone)
	}
}

// TestReusedPID makes the kernel assign a target's PID to another process.
func TestReusedPID(t *testing.T) {
	nodetest.Root(t)
	const attempts = 50 // others start processes too
	for range attempts {
		target := start(t, nil, "memory")
		p := target.open(t)
		target.stop()
		last := strconv.Itoa(target.pid() - 1)
		if err := os.WriteFile("/proc/sys/kernel/ns_last_pid", []byte(last), 0); err != nil {
			nodetest.MustRun(t, err.Error())
		}
		other := exec.Command("cat")
		stdin, err := other.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := other.Start(); err != nil {
			t.Fatal(err)
		}
		reused := other.Process.Pid == target.pid()
		if reused {
			checkGone(t, p, target.address(t))
		}
		stdin.Close()
		if err := other.Wait(); err != nil {
			t.Error(err)
		}
		if reused {
			return
		}
	}
	t.Errorf("the number was never reused in %d attempts", attempts)
}

func TestOpenFile(t *testing.T) {
	nodetest.Root(t)
	tests := []struct {
		role, name, fate string
		byPath           bool // it can also be opened by path
	}{
		{"file", "a file\nof two lines", "kept", true},
		{"file", "file", "removed", false},
		{"file", "file", "replaced", false},
		{"file", "not (deleted)", "kept", false}, // the name cannot be distinguished from a removed "not"
		{"mount", "file", "kept", true},
		{"mount", "file", "removed", false},
		{"overlay", "file", "kept", true}, // where stat and the list of mappings differ
		{"overlay", "file", "removed", false},
	}
	for _, tt := range tests {
		t.Run(tt.role+" "+tt.name+" "+tt.fate, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), tt.name)
			var attr *syscall.SysProcAttr
			if tt.role == "file" {
				if err := os.WriteFile(path, []byte(secret), 0o600); err != nil {
					t.Fatal(err)
				}
			} else {
				attr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWPID}
			}
			target := start(t, attr, tt.role, path, tt.fate)
			p := target.open(t)
			m := mapping(t, p, target.address(t))
			if tt.fate != "kept" && (m.Path != path || !m.Deleted) {
				t.Errorf("mapping of %q, deleted %v, want %q, true", m.Path, m.Deleted, path)
			}
			f, err := p.OpenFile(m)
			checkContent(t, f, err)
			f, err = p.openPath(m) // as without the capability to open by mapping
			if tt.byPath {
				checkContent(t, f, err)
			} else if err == nil {
				t.Errorf("%s was opened by path", f.Name())
			}
			target.stop()
			f, err = p.OpenFile(m)
			if tt.byPath && attr == nil { // then our own root has it, too
				checkContent(t, f, err)
			} else if !errors.Is(err, ErrGone) {
				t.Errorf("OpenFile once the process has ended = %v, want %v", err, ErrGone)
			}
		})
	}
}

// mapping returns the process's mapping at address.
func mapping(t *testing.T, p *Process, address uint64) Mapping {
	t.Helper()
	maps, err := p.Maps()
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(maps, func(m Mapping) bool { return m.Start == address })
	if i < 0 {
		t.Fatalf("no mapping at %#x in %v", address, maps)
	}
	return maps[i]
}

func checkContent(t *testing.T, f *os.File, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
		return
	}
	defer f.Close()
	if got, err := io.ReadAll(f); err != nil || string(got) != secret {
		t.Errorf("content = %q, %v, want %q", got, err, secret)
	}
}

func TestNamespaces(t *testing.T) {
	nodetest.Root(t)
	path := filepath.Join(t.TempDir(), "file")
	target := start(t, &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWPID}, "mount", path, "kept")
	p := target.open(t)
	if n, err := p.NamespacePID(); err != nil || n != 1 {
		t.Errorf("NamespacePID = %d, %v, want 1", n, err)
	}
	if got, want := p.Title(), fmt.Sprintf(" %d (1 inside)", p.PID()); p.Inside() != 1 || !strings.Contains(got, want) {
		t.Errorf("PID inside = %d, title = %q, want 1 and %q", p.Inside(), got, want)
	}
	root, err := p.Root()
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	var stat unix.Stat_t
	if err := unix.Fstatat(int(root.Fd()), path[1:], &stat, 0); err != nil || stat.Size != int64(len(secret)) {
		t.Errorf("%s below the root: %d bytes, %v, want %d", path, stat.Size, err, len(secret))
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s: %v, want it to be there for the target alone", path, err)
	}
}

func TestOpenFileWithoutFile(t *testing.T) {
	p, err := Open(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if f, err := p.OpenFile(Mapping{Start: 1 << 20, End: 2 << 20}); err == nil {
		t.Errorf("OpenFile of anonymous memory = %v, want an error", f.Name())
	}
	_, err = p.OpenFile(Mapping{Start: 1, End: 2, Inode: 1, Path: "/dev/null"})
	if err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("OpenFile of a device = %v, want it refused", err)
	}
}

func TestPermission(t *testing.T) {
	nodetest.Root(t)
	const nobody = 65534
	attr := &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	target := start(t, attr, "unentitled", strconv.Itoa(os.Getpid()))
	if target.fact != "true" {
		t.Error("another user's process was read, or the error is not ErrPermission")
	}
	p := target.open(t)
	if uid, err := p.UID(); err != nil || uid != nobody {
		t.Errorf("UID = %d, %v, want %d", uid, err, nobody)
	}
}

func BenchmarkReadAt(b *testing.B) {
	p, err := Open(os.Getpid())
	if err != nil {
		b.Fatal(err)
	}
	defer p.Close()
	source, got := []byte(secret), make([]byte, 8)
	for b.Loop() {
		if _, err := p.ReadAt(got, uint64(uintptr(pointer(source)))); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkMaps(b *testing.B) {
	p, err := Open(os.Getpid())
	if err != nil {
		b.Fatal(err)
	}
	defer p.Close()
	for b.Loop() {
		if _, err := p.Maps(); err != nil {
			b.Fatal(err)
		}
	}
}

// TestKernelThreadsAreRecognized has the parent of all of them, and a child of it.
func TestKernelThreadsAreRecognized(t *testing.T) {
	all, err := List()
	if err != nil {
		t.Fatal(err)
	}
	for _, listed := range all {
		if listed.Comm != "kthreadd" && !strings.HasPrefix(listed.Comm, "kworker/") {
			continue
		}
		p, err := Open(listed.PID)
		if err != nil {
			continue // it has ended
		}
		if !p.IsKernel() && p.Alive() {
			t.Errorf("%s is not one of the kernel's own", listed.Comm)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
}
