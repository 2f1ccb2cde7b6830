package reader

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// remote opens a file that is read by the helper only, as on a file server.
func remote(t *testing.T, r *Reader, content []byte) (f *File, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	var opened Opened
	if err := r.call("Files.Open", Request{Path: path}, &opened, 0, nil); err != nil {
		t.Fatal(err)
	}
	if err := opened.error(); err != nil {
		t.Fatal(err)
	}
	f = &File{reader: r, name: path, id: opened.ID}
	t.Cleanup(func() { f.Close() })
	return f, path
}

// TestRemoteFileIsReadAsItIs reads random parts, short and long, from several
// goroutines.
func TestRemoteFileIsReadAsItIs(t *testing.T) {
	want := make([]byte, 3*blockSize+1234)
	random := rand.New(rand.NewPCG(1, 2))
	for i := range want {
		want[i] = byte(random.Uint32())
	}
	f, _ := remote(t, reading(t), want)
	if size, err := f.Size(); size != int64(len(want)) || err != nil {
		t.Errorf("size = %d, %v, want %d", size, err, len(want))
	}
	var done sync.WaitGroup
	for seed := range uint64(4) {
		done.Go(func() {
			random := rand.New(rand.NewPCG(seed, 0))
			for range 50 {
				at := random.IntN(len(want))
				p := make([]byte, 1+random.IntN(2*blockSize))
				n, err := f.ReadAt(p, int64(at))
				if whole := at+len(p) <= len(want); whole && err != nil || !whole && err != io.EOF || n != min(len(p), len(want)-at) {
					t.Errorf("%d bytes at %d = %d, %v", len(p), at, n, err)
				}
				if !bytes.Equal(p[:n], want[at:at+n]) {
					t.Errorf("%d bytes at %d are not those of the file", n, at)
				}
			}
		})
	}
	done.Wait()
	if n, err := f.ReadAt(make([]byte, 1), int64(len(want))); n != 0 || err != io.EOF {
		t.Errorf("a byte at the end = %d, %v, want the end", n, err)
	}
	if n, err := f.ReadAt(make([]byte, 1), -1); n != 0 || err == nil {
		t.Errorf("a byte before the start = %d, %v, want an error", n, err)
	}
}

// TestCacheIsBounded reads more blocks than are cached: the oldest make room.
func TestCacheIsBounded(t *testing.T) {
	content := make([]byte, (maxBlocks+3)*blockSize)
	f, _ := remote(t, reading(t), content)
	for at := 0; at < len(content); at += blockSize {
		if _, err := f.ReadAt(make([]byte, 1), int64(at)); err != nil {
			t.Fatal(err)
		}
	}
	if len(f.blocks) != maxBlocks || len(f.order) != maxBlocks || f.blocks[0] != nil {
		t.Errorf("%d blocks are cached in the order of %d, the first: %t; want %d without it",
			len(f.blocks), len(f.order), f.blocks[0] != nil, maxBlocks)
	}
}

// TestNewContentIsReadPastTheCache appends to a file and changes it.
func TestNewContentIsReadPastTheCache(t *testing.T) {
	f, path := remote(t, reading(t), []byte("before"))
	read := func(name string, readAt func([]byte, int64) (int, error), want string) {
		t.Helper()
		p := make([]byte, len(want))
		if n, err := readAt(p, 0); string(p[:n]) != want || err != nil {
			t.Errorf("%s = %q, %v, want %q", name, p[:n], err, want)
		}
	}
	read("content", f.ReadAt, "before")
	if err := os.WriteFile(path, []byte("after it"), 0o600); err != nil {
		t.Fatal(err)
	}
	read("cached content", f.ReadAt, "before")
	read("new content", f.ReadNew, "after it")
	if size, err := f.Size(); size != 8 || err != nil {
		t.Errorf("size = %d, %v, want 8", size, err)
	}
	if n, err := f.ReadNew(make([]byte, 1), 8); n != 0 || err != io.EOF {
		t.Errorf("new content at the end = %d, %v, want the end", n, err)
	}
}

// TestLinksDoNotLeadOutOfARoot opens files below a root folder by links.
func TestLinksDoNotLeadOutOfARoot(t *testing.T) {
	dir := t.TempDir()
	secret := filepath.Join(dir, "secret")
	root := filepath.Join(dir, "root")
	if err := errors.Join(
		os.Mkdir(root, 0o700), os.WriteFile(secret, []byte("secret"), 0o600),
		os.WriteFile(filepath.Join(root, "file"), []byte("file"), 0o600),
		os.Symlink("../secret", filepath.Join(root, "up")), os.Symlink(secret, filepath.Join(root, "absolute")),
		os.Symlink("file", filepath.Join(root, "inside")), os.Symlink("loop", filepath.Join(root, "loop")),
	); err != nil {
		t.Fatal(err)
	}
	folder, err := os.Open(root)
	if err != nil {
		t.Fatal(err)
	}
	defer folder.Close()
	r := reading(t)
	for path, want := range map[string]string{
		"file": "file", "/file": "file", "inside": "file", "../../../../file": "file",
		"up": "", "absolute": "", "loop": "", "../secret": "", secret: "", "": "", "missing": "",
	} {
		f, err := r.Below(folder, path)
		if want == "" {
			if err == nil {
				t.Errorf("%q below the root is opened", path)
				f.Close()
			}
			continue
		}
		if err != nil {
			t.Errorf("%q below the root: %v", path, err)
			continue
		}
		got, err := io.ReadAll(io.NewSectionReader(f, 0, 1<<20))
		if string(got) != want || err != nil {
			t.Errorf("%q below the root = %q, %v, want %q", path, got, err, want)
		}
		f.Close()
	}
}

// TestClosedReaderAnswers asks a reader after it was closed, and one that was never
// used.
func TestClosedReaderAnswers(t *testing.T) {
	for _, used := range []bool{false, true} {
		t.Run(fmt.Sprint(used), func(t *testing.T) {
			r := new(Reader)
			if used {
				f, _ := remote(t, r, []byte("content"))
				if err := f.Alive(); err != nil {
					t.Errorf("an open file is not alive: %v", err)
				}
			}
			for range 2 {
				if err := r.Close(); err != nil {
					t.Errorf("close: %v", err)
				}
			}
			if _, err := r.Open("/etc/passwd"); err == nil {
				t.Error("a closed reader opens a file")
			}
		})
	}
}
