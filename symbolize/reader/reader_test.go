package reader

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ustack/symbolize/process"
	"ustack/testdata/nodetest"
)

// TestMain makes the test binary a helper when it is started as one.
func TestMain(m *testing.M) {
	Serve()
	os.Exit(m.Run())
}

// reading returns a Reader that is closed when the test ends.
func reading(t *testing.T) *Reader {
	t.Helper()
	r := new(Reader)
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// exe returns the mapping of our own program's code, and our process.
func exe(t *testing.T) (*process.Process, process.Mapping) {
	t.Helper()
	p, err := process.Open(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	all, err := p.Maps()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range all {
		if m.Perms.Exec() && m.File() {
			return p, m
		}
	}
	t.Fatal("our program has no mapping")
	return nil, process.Mapping{}
}

func TestFilesAreReadAsTheyAre(t *testing.T) {
	want, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	r := reading(t)
	f, err := r.Mapped(exe(t))
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(io.NewSectionReader(f, 0, 1<<40))
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("file = %d bytes, %v, want the %d of our program", len(got), err, len(want))
	}
	for _, part := range []struct{ at, length int }{{0, 1}, {blockSize - 3, 7}, {len(want) - 5, 5}, {blockSize, blockSize}} {
		p := make([]byte, part.length)
		if n, err := f.ReadAt(p, int64(part.at)); n != part.length || !bytes.Equal(p, want[part.at:part.at+part.length]) {
			t.Errorf("%d bytes at %d = %d, %v, want them all as they are", part.length, part.at, n, err)
		}
	}
	if n, err := f.ReadAt(make([]byte, 9), int64(len(want)-4)); n != 4 || err != io.EOF {
		t.Errorf("9 bytes at 4 before the end = %d, %v, want 4 and the end", n, err)
	}
	if size, err := f.Size(); size != int64(len(want)) || err != nil {
		t.Errorf("size = %d, %v, want %d", size, err, len(want))
	}
	through, err := os.ReadFile(f.Path())
	if err != nil || !bytes.Equal(through, want) || r.pid == os.Getpid() {
		t.Errorf("by %s: %d bytes, %v, want the file, open in another process", f.Path(), len(through), err)
	}
}

func TestCausesAreKnown(t *testing.T) {
	r := reading(t)
	if _, err := r.Open(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error = %v, want that it does not exist", err)
	}
	p, m := exe(t)
	m.Inode++
	if _, err := r.Mapped(p, m); err == nil || !strings.Contains(err.Error(), "another file is there") {
		t.Errorf("error = %v, want that it is another file", err)
	}
	if _, err := r.PerfMap(p); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error = %v, want that there is no perf map", err)
	}
}

// TestChaosPipeIsNotOpened opens a FIFO, which would make its reader wait for a
// writer.
func TestChaosPipeIsNotOpened(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := reading(t).Open(path); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("error = %v, want that it is no regular file", err)
	}
}

// TestChaosDeadFileServer reads from a server before and after it dies: in normal
// operation, and while shutting down.
func TestChaosDeadFileServer(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, interrupted := range []bool{false, true} {
		server := nodetest.ServeFile(t, path)
		ctx, interrupt := context.WithCancel(t.Context())
		defer interrupt()
		r := reading(t)
		r.Hurry(ctx)
		f, err := r.Open(server.Path)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := f.ReadAt(make([]byte, 9), 0); n != 9 || err != nil {
			t.Fatalf("read = %d, %v, want 9 bytes", n, err)
		}
		server.Drop()
		server.Die()
		if interrupted {
			interrupt()
		}
		if _, err := f.ReadAt(make([]byte, 9), 1<<19); !errors.Is(err, ErrUnresponsive) {
			t.Errorf("interrupted %v: error = %v, want ErrUnresponsive", interrupted, err)
		}
		if err := f.Alive(); !errors.Is(err, ErrUnresponsive) {
			t.Errorf("interrupted %v: alive = %v, want ErrUnresponsive", interrupted, err)
		}
		if n, err := f.ReadAt(make([]byte, 9), 3); n != 9 || err != nil {
			t.Errorf("interrupted %v: read again = %d, %v, want 9 bytes", interrupted, n, err)
		}
		if _, err := r.Mapped(exe(t)); err != nil {
			t.Errorf("interrupted %v: another file: %v", interrupted, err)
		}
	}
}

// TestChaosDeadPerfMap opens the perf map of a process whose file server has died.
func TestChaosDeadPerfMap(t *testing.T) {
	for _, interrupted := range []bool{false, true} {
		server, target := servePerfMap(t)
		server.Die()
		ctx, interrupt := context.WithCancel(t.Context())
		defer interrupt()
		r := reading(t)
		r.Hurry(ctx)
		if interrupted {
			interrupt()
		}
		p, err := process.Open(target.PID)
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		begun := time.Now()
		if _, err := r.PerfMap(p); !errors.Is(err, ErrUnresponsive) {
			t.Errorf("interrupted %v: error = %v, want ErrUnresponsive", interrupted, err)
		}
		if took := time.Since(begun); interrupted && took >= patience {
			t.Errorf("interrupted, it was given up after %v", took)
		}
	}
}

// servePerfMap starts a program whose perf map is served by a file system of its
// own, mounted only in its mount namespace so that no other process blocks.
func servePerfMap(t *testing.T) (*nodetest.FileServer, *nodetest.Target) {
	t.Helper()
	dir := t.TempDir()
	program, perfMap := filepath.Join(dir, "unshared"), filepath.Join(dir, "perf.map")
	script := fmt.Sprintf("#!/bin/sh\nexec unshare --mount %s \"$@\"\n", nodetest.Node(t, "24.21.0"))
	if err := os.WriteFile(program, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(perfMap, []byte("1000 10 nothing\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	server := nodetest.ServeFile(t, perfMap)
	target := nodetest.Start(t, program, nodetest.Options{Script: "work.js", MayFail: true})
	mount := fmt.Sprintf("exec 3<%s; mount -t tmpfs tmpfs /tmp && touch /tmp/perf-%d.map && mount --bind /proc/self/fd/3 /tmp/perf-%[2]d.map",
		server.Path, target.PID)
	cmd := exec.Command("nsenter", "--mount", "--target", strconv.Itoa(target.PID), "sh", "-c", mount)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("mount the perf map: %v\n%s", err, out)
	}
	return server, target
}

// TestChaosManyDeadFileServers opens a file on each of more dead servers than the
// reader may wait for.
func TestChaosManyDeadFileServers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte("content"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	r := reading(t)
	r.Hurry(ctx)
	for range maxLast + 2 {
		server := nodetest.ServeFile(t, path)
		server.Hang()
		if _, err := r.Open(server.Path); !errors.Is(err, ErrUnresponsive) {
			t.Errorf("error = %v, want ErrUnresponsive", err)
		}
	}
	if r.stuck != maxLast {
		t.Errorf("answers that are waited for = %d, want %d", r.stuck, maxLast)
	}
}
