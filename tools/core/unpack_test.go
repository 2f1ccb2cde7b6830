package core

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"golang.org/x/sys/unix"
)

// packers compress as systemd-coredump and others do.
var packers = map[string]func(t testing.TB, data []byte) []byte{
	"zst": by(func(w io.Writer) (io.WriteCloser, error) { return zstd.NewWriter(w) }),
	"lz4": by(func(w io.Writer) (io.WriteCloser, error) { return lz4.NewWriter(w), nil }),
	"gz":  by(func(w io.Writer) (io.WriteCloser, error) { return gzip.NewWriter(w), nil }),
	"xz": func(t testing.TB, data []byte) []byte {
		cmd := exec.Command("xz", "-0", "-c")
		cmd.Stdin = bytes.NewReader(data)
		out, err := cmd.Output()
		if err != nil {
			t.Skipf("xz: %v", err)
		}
		return out
	},
}

func by(writer func(io.Writer) (io.WriteCloser, error)) func(testing.TB, []byte) []byte {
	return func(t testing.TB, data []byte) []byte {
		var out bytes.Buffer
		w, err := writer(&out)
		if err == nil {
			_, err = w.Write(data)
		}
		if err = errors.Join(err, w.Close()); err != nil {
			t.Fatal(err)
		}
		return out.Bytes()
	}
}

// packed returns a file of a core that is larger than a batch, mostly of zeros, compressed.
func packed(t testing.TB, pack func(testing.TB, []byte) []byte) (path string, core []byte) {
	t.Helper()
	core = append(made(t, sample()), make([]byte, 3*unpackBatch)...)
	core = append(core, "the end"...)
	path = filepath.Join(t.TempDir(), "core")
	if err := os.WriteFile(path, pack(t, core), 0o600); err != nil {
		t.Fatal(err)
	}
	return path, core
}

func TestCompressedCoreIsUnpacked(t *testing.T) {
	for name, pack := range packers {
		t.Run(name, func(t *testing.T) {
			path, core := packed(t, pack)
			temp := t.TempDir()
			t.Setenv("TMPDIR", temp)
			last, size := uint64(0), uint64(0)
			f, err := Open(t.Context(), path, OpenOptions{Progress: func(done, total uint64) { last, size = done, total }})
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if !bytes.Equal(f.data, core) || f.Damage() != nil {
				t.Errorf("what was unpacked is not what was packed, damage %v", f.Damage())
			}
			if last == 0 || last > size {
				t.Errorf("progress = %d of %d, want some", last, size)
			}
			stored := uint64(0)
			for _, e := range f.extents {
				stored += e.size()
			}
			if stored > uint64(len(core))-2*unpackBatch {
				t.Errorf("%d of %d bytes are stored, want zeros to be holes", stored, len(core))
			}
			if left, err := os.ReadDir(temp); len(left) > 0 || err != nil {
				t.Errorf("left in the temporary folder: %v, %v", left, err)
			}
		})
	}
}

// TestDamagedCompressedCoreIsReadAsFarAsItGoes cuts the file short, as a full disk does.
func TestDamagedCompressedCoreIsReadAsFarAsItGoes(t *testing.T) {
	for name, pack := range packers {
		t.Run(name, func(t *testing.T) {
			noise := make([]byte, 12*unpackBatch) // more than three blocks of lz4
			for i, x := 0, uint32(1); i < len(noise); i++ {
				x ^= x << 13
				x ^= x >> 17
				x ^= x << 5
				noise[i] = byte(x)
			}
			path := filepath.Join(t.TempDir(), "core")
			whole := pack(t, append(made(t, sample()), noise...))
			if err := os.WriteFile(path, whole[:len(whole)*2/3], 0o600); err != nil {
				t.Fatal(err)
			}
			f, err := Open(t.Context(), path, OpenOptions{})
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if f.Damage() == nil || len(f.segments) == 0 {
				t.Errorf("damage = %v, %d segments, want a damage and segments", f.Damage(), len(f.segments))
			}
		})
	}
}

func TestUnpackingEndsWithItsContext(t *testing.T) {
	for name, pack := range packers {
		path, _ := packed(t, pack)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if f, err := Open(ctx, path, OpenOptions{}); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: Open = %v, %v, want %v", name, f, err, context.Canceled)
		}
	}
}

// TestUnpackingLeavesRoomOnTheDisk has a small file system.
func TestUnpackingLeavesRoomOnTheDisk(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("none", dir, "tmpfs", 0, "size=80m"); err != nil {
		t.Skipf("mount: %v", err)
	}
	defer unix.Unmount(dir, unix.MNT_DETACH)
	noise := bytes.Repeat([]byte("x"), 70<<20)
	path := filepath.Join(t.TempDir(), "core")
	if err := os.WriteFile(path, packers["zst"](t, append(made(t, sample()), noise...)), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", dir)
	if f, err := Open(t.Context(), path, OpenOptions{}); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("Open = %v, %v, want %v", f, err, unix.ENOSPC)
	}
}

func FuzzUnpack(f *testing.F) {
	for _, pack := range packers {
		f.Add(pack(f, made(f, sample())))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(t.TempDir(), "core")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		file, err := Open(t.Context(), path, OpenOptions{})
		if err != nil {
			return
		}
		if err := file.Close(); err != nil {
			t.Error(err)
		}
	})
}
