package core

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ustack/symbolize/process"
	"ustack/testdata/nodetest"
)

const oneVersion = "22.23.3" // where the version makes no difference

// eachWay runs test as a subtest for either way, on a node of its own. The test
// ends with nothing but the files of the returned names in the folder.
func eachWay(t *testing.T, test func(t *testing.T, h heap, dir string, direct bool) []string) {
	t.Helper()
	nodetest.Root(t)
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			h, dir := startHeap(t, oneVersion, "20"), t.TempDir()
			want := test(t, h, dir, way.direct)
			checkOnly(t, dir, want...)
		})
	}
}

func TestExistingFileStays(t *testing.T) {
	eachWay(t, func(t *testing.T, h heap, dir string, direct bool) []string {
		path := filepath.Join(dir, "core")
		if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Write(t.Context(), h.PID, path, Options{direct: direct, MaxStop: 60e9}); !errors.Is(err, fs.ErrExist) {
			t.Errorf("Write = %v, want %v", err, fs.ErrExist)
		}
		if got, err := os.ReadFile(path); string(got) != "old" {
			t.Errorf("the file holds %q, %v", got, err)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		// One that comes while the core is being written.
		_, err := Write(t.Context(), h.PID, path, Options{direct: direct, Resumed: func() {
			if err := os.WriteFile(path, []byte("new"), 0o600); err != nil {
				t.Error(err)
			}
		}})
		if !errors.Is(err, fs.ErrExist) {
			t.Errorf("Write = %v, want %v", err, fs.ErrExist)
		}
		h.checkRunsOn(t)
		return []string{"core"}
	})
}

func TestCanceledCoreLeavesNothing(t *testing.T) {
	eachWay(t, func(t *testing.T, h heap, dir string, direct bool) []string {
		path := filepath.Join(dir, "core")
		for name, options := range map[string]func(cancel func()) Options{
			"at once":     func(cancel func()) Options { cancel(); return Options{} },
			"as it is on": func(cancel func()) Options { return Options{Resumed: cancel} },
			"as written":  func(cancel func()) Options { return Options{Progress: func(_, _ uint64) { cancel() }} },
		} {
			ctx, cancel := context.WithCancel(t.Context())
			o := options(cancel)
			o.direct = direct
			if _, err := Write(ctx, h.PID, path, o); !errors.Is(err, context.Canceled) {
				t.Errorf("canceled %s: %v, want %v", name, err, context.Canceled)
			}
			checkOnly(t, dir)
		}
		h.checkRunsOn(t)
		return nil
	})
}

func TestStopIsLimited(t *testing.T) {
	eachWay(t, func(t *testing.T, h heap, dir string, direct bool) []string {
		_, err := Write(t.Context(), h.PID, filepath.Join(dir, "core"), Options{direct: direct, MaxStop: 1})
		if !errors.Is(err, errTooLong) {
			t.Errorf("Write = %v, want %v", err, errTooLong)
		}
		h.checkRunsOn(t)
		return nil
	})
}

// TestProcessRunsOnWhenTheLimitIsOver holds up who should let go of it.
func TestProcessRunsOnWhenTheLimitIsOver(t *testing.T) {
	nodetest.Root(t)
	h := startHeap(t, oneVersion, "1")
	resumed := make(chan struct{})
	d := newDump(t, h.PID, Options{MaxStop: 50 * time.Millisecond, Resumed: func() { close(resumed) }})
	err := d.whileStopped(t.Context(), func(context.Context) error {
		<-resumed
		h.checkRunsOn(t)
		return nil
	})
	if !errors.Is(err, errTooLong) {
		t.Errorf("whileStopped = %v, want %v", err, errTooLong)
	}
}

// newDump returns a dump of a process into a folder of its own, until the test ends.
func newDump(t *testing.T, pid int, o Options) *dump {
	t.Helper()
	target, err := process.Open(pid)
	if err != nil {
		t.Fatal(err)
	}
	out, err := create(filepath.Join(t.TempDir(), "core"), pid)
	if err != nil {
		t.Fatal(err)
	}
	d := &dump{target: target, out: out, options: o}
	t.Cleanup(func() {
		if err := errors.Join(d.close(), target.Close(), out.discard()); err != nil {
			t.Error(err)
		}
	})
	return d
}

// TestDyingProcess kills the process at each stage. Once its memory is there
// the core is whole.
func TestDyingProcess(t *testing.T) {
	nodetest.Root(t)
	t.Run("before", func(t *testing.T) {
		h, dir := startHeap(t, oneVersion, "1"), t.TempDir()
		h.Stop()
		if _, err := Write(t.Context(), h.PID, filepath.Join(dir, "core"), Options{}); !errors.Is(err, process.ErrGone) {
			t.Errorf("Write = %v, want %v", err, process.ErrGone)
		}
		checkOnly(t, dir)
	})
	t.Run("while stopped", func(t *testing.T) {
		h := startHeap(t, oneVersion, "1")
		d := newDump(t, h.PID, Options{})
		if err := d.prepare(t.Context()); err != nil {
			t.Fatal(err)
		}
		from, err := openCopier(h.PID)
		if err != nil {
			t.Fatal(err)
		}
		defer from.Close()
		err = d.whileStopped(t.Context(), func(ctx context.Context) error {
			regions, err := d.planner.plan(d.mappings)
			if err != nil {
				return err
			}
			h.Signal(syscall.SIGKILL)
			d.regions = regions
			pieces := d.pieces(make([]byte, bytesHeld(regions)))
			for err == nil {
				_, err = from.copy(ctx, pieces)
			}
			return err
		})
		if !errors.Is(err, process.ErrGone) {
			t.Errorf("copy = %v, want %v", err, process.ErrGone)
		}
	})
	for _, way := range ways {
		t.Run("resumed/"+way.name, func(t *testing.T) {
			h, dir := startHeap(t, oneVersion, "20"), t.TempDir()
			result, err := Write(t.Context(), h.PID, filepath.Join(dir, "core"), Options{direct: way.direct, Resumed: h.Stop})
			if err != nil {
				t.Fatal(err)
			}
			checkOnly(t, dir, "core")
			if f := open(t, result.Path); f.Info().PID != h.PID || len(f.Threads()) != result.Threads {
				t.Errorf("core of %d with %d threads, want %d, %d", f.Info().PID, len(f.Threads()), h.PID, result.Threads)
			}
		})
	}
}

// TestFullDisk takes cores where there is no room: what is found first, and
// what only writing finds.
func TestFullDisk(t *testing.T) {
	eachWay(t, func(t *testing.T, h heap, _ string, direct bool) []string {
		small := filepath.Join(t.TempDir(), "small")
		if err := os.Mkdir(small, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := unix.Mount("small", small, "tmpfs", 0, "size=1m"); err != nil {
			nodetest.MustRun(t, fmt.Sprint("mount a file system: ", err))
		}
		defer func() {
			if err := unix.Unmount(small, 0); err != nil {
				t.Error(err)
			}
		}()
		stopped := false
		o := Options{direct: direct, Resumed: func() { stopped = true }}
		_, err := Write(t.Context(), h.PID, filepath.Join(small, "core"), o)
		if !errors.Is(err, unix.ENOSPC) || !strings.Contains(err.Error(), "1 MiB free") || stopped {
			t.Errorf("Write = %v, stopped %v, want %v, false", err, stopped, unix.ENOSPC)
		}
		if _, err := Write(t.Context(), h.PID, filepath.Join(small, "core.zst"), o); !errors.Is(err, unix.ENOSPC) {
			t.Errorf("Write, compressed = %v, want %v", err, unix.ENOSPC)
		}
		checkOnly(t, small)
		h.checkRunsOn(t)
		return nil
	})
}

func TestPlacesThatAreNone(t *testing.T) {
	for _, path := range []string{"/not/there/core", "/dev/null", t.TempDir(), "/proc/core"} {
		if _, err := Write(t.Context(), os.Getpid(), path, Options{}); err == nil {
			t.Errorf("wrote %s, want an error", path)
		}
	}
}

// TestNotPermitted runs this very test as nobody, who may not trace root's process.
func TestNotPermitted(t *testing.T) {
	const variable = "USTACK_CORE_OF"
	if text := os.Getenv(variable); text != "" {
		pid, dir, _ := strings.Cut(text, ":")
		number, err := strconv.Atoi(pid)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Write(t.Context(), number, filepath.Join(dir, "core"), Options{}); !errors.Is(err, process.ErrPermission) {
			t.Errorf("Write = %v, want %v", err, process.ErrPermission)
		}
		checkOnly(t, dir)
		return
	}
	nodetest.Root(t)
	const nobody = 65534
	dir, err := os.MkdirTemp("", "core-test-") // unlike t.TempDir's, nobody gets there
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.Chown(dir, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	h := startHeap(t, oneVersion, "1")
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestNotPermitted$")
	cmd.Dir = "/"
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d:%s", variable, h.PID, dir))
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("as nobody: %v\n%s", err, out)
	}
	h.checkRunsOn(t)
}

// TestOwnerGetsTheCore takes a core of nobody's process.
func TestOwnerGetsTheCore(t *testing.T) {
	nodetest.Root(t)
	const nobody = 65534
	cmd := exec.Command("cat")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer stdin.Close()
	result, err := Write(t.Context(), cmd.Process.Pid, filepath.Join(t.TempDir(), "core"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	var stat syscall.Stat_t
	if err := syscall.Stat(result.Path, &stat); err != nil || stat.Uid != nobody || stat.Gid != nobody || stat.Mode&0o777 != 0o600 {
		t.Errorf("the core is of %d:%d, mode %o, %v, want %d:%d, 600", stat.Uid, stat.Gid, stat.Mode&0o777, err, nobody, nobody)
	}
	if f := open(t, result.Path); f.Info().UID != nobody {
		t.Errorf("UID = %d, want %d", f.Info().UID, nobody)
	}
}

// TestTracedProcessIsLeftToItsTracer has gdb attached.
func TestTracedProcessIsLeftToItsTracer(t *testing.T) {
	eachWay(t, func(t *testing.T, h heap, dir string, direct bool) []string {
		gdb := exec.Command("gdb", "-nx", "-q", "-p", strconv.Itoa(h.PID), "-ex", "echo attached\\n")
		stdin, err := gdb.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		stdout, err := gdb.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := gdb.Start(); err != nil {
			t.Fatal(err)
		}
		var said bytes.Buffer
		for b := make([]byte, 1<<10); !strings.Contains(said.String(), "attached\n"); {
			n, err := stdout.Read(b)
			said.Write(b[:n])
			if err != nil {
				t.Fatalf("gdb: %v\n%s", err, said.String())
			}
		}
		_, err = Write(t.Context(), h.PID, filepath.Join(dir, "core"), Options{direct: direct, MaxStop: 60e9})
		if want := strconv.Itoa(gdb.Process.Pid); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Write = %v, want an error that names process %s", err, want)
		}
		stdin.Close() // gdb lets go as it ends
		if _, err := said.ReadFrom(stdout); err != nil {
			t.Error(err)
		}
		if err := gdb.Wait(); err != nil {
			t.Errorf("gdb: %v\n%s", err, said.String())
		}
		h.checkRunsOn(t)
		return nil
	})
}
