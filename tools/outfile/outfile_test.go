package outfile

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"ustack/testdata/nodetest"
)

func writeFile(path string, fill func(io.Writer) error) error {
	f, err := Open(path, Options{})
	if err != nil {
		return err
	}
	return errors.Join(f.Write(fill), f.Close())
}

func text(s string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, s)
		return err
	}
}

func contents(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// names returns what is in dir.
func names(t *testing.T, dir string) []string {
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

func TestFileIsReplacedAndKeepsItsMode(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "out")
	for _, want := range []string{"first", "second"} {
		if err := writeFile(path, text(want)); err != nil {
			t.Fatal(err)
		}
		if got := contents(t, path); got != want {
			t.Errorf("contents = %q, want %q", got, want)
		}
		if err := os.Chmod(path, 0o640); err != nil {
			t.Fatal(err)
		}
	}
	if err := writeFile(path, text("third")); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := info.Mode().Perm(), fs.FileMode(0o640); got != want {
		t.Errorf("mode = %v, want %v", got, want)
	}
	if diff := cmp.Diff([]string{"out"}, names(t, dir)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

func TestFailureLeavesTheOldFileAndNoOther(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "out")
	if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken")
	err := writeFile(path, func(w io.Writer) error {
		w.Write(bytes.Repeat([]byte("new"), bufferSize))
		return broken
	})
	if !errors.Is(err, broken) {
		t.Errorf("error = %v, want it to wrap %v", err, broken)
	}
	if got, want := contents(t, path), "old"; got != want {
		t.Errorf("contents = %q, want %q", got, want)
	}
	if diff := cmp.Diff([]string{"out"}, names(t, dir)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

func TestFullDiskLeavesNoHalfFile(t *testing.T) {
	nodetest.Root(t)
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		nodetest.MustRun(t, "no small file system: "+err.Error())
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	path := filepath.Join(dir, "out.svg")
	err := writeFile(path, text(strings.Repeat("x", 1<<20)))
	if !errors.Is(err, unix.ENOSPC) {
		t.Errorf("error = %v, want it to wrap %v", err, unix.ENOSPC)
	}
	want := "write " + path + ": no space left on device (nothing was written; free space or name another place)"
	if err == nil || err.Error() != want {
		t.Errorf("error = %q, want %q", err, want)
	}
	if got := names(t, dir); got != nil {
		t.Errorf("files = %v, want none", got)
	}
}

func TestLinkStaysALink(t *testing.T) {
	dir := t.TempDir()
	target := filepath.Join(dir, "target")
	link := filepath.Join(dir, "link")
	if err := errors.Join(os.WriteFile(target, nil, 0o600), os.Symlink("target", link)); err != nil {
		t.Fatal(err)
	}
	if err := writeFile(link, text("new")); err != nil {
		t.Fatal(err)
	}
	if got, err := os.Readlink(link); got != "target" {
		t.Errorf("link = %q (%v), want target", got, err)
	}
	if got := contents(t, target); got != "new" {
		t.Errorf("contents = %q, want new", got)
	}
}

// startReader opens a pipe for reading, and returns what gives all that comes out.
func startReader(t *testing.T, path string) (read func() string) {
	t.Helper()
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	pipe := os.NewFile(uintptr(fd), path)
	t.Cleanup(func() { pipe.Close() })
	return func() string {
		b, err := io.ReadAll(pipe)
		if err != nil {
			t.Error(err)
		}
		return string(b)
	}
}

func TestPipeIsWrittenTo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	err := writeFile(path, text("lost"))
	if want := "write " + path + ": nothing reads from it (start the reader first)"; err == nil || err.Error() != want {
		t.Errorf("error = %v, want %s", err, want)
	}
	read := startReader(t, path)
	if err := writeFile(path, text("through")); err != nil {
		t.Fatal(err)
	}
	if got := read(); got != "through" {
		t.Errorf("contents = %q, want through", got)
	}
}

func TestDescriptorsOfOursAreWrittenTo(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for _, folder := range []string{"/dev/fd/", "/proc/self/fd/"} { // twice: the second must not overwrite the first
		if err := writeFile(folder+strconv.Itoa(int(file.Fd())), text("more ")); err != nil {
			t.Error(err)
		}
	}
	if got, want := contents(t, file.Name()), "more more "; got != want {
		t.Errorf("contents = %q, want %q", got, want)
	}
	if err := writeFile("/dev/null", text("x")); err != nil {
		t.Error(err)
	}
}

func TestNewFilesAreNotForOthersToWrite(t *testing.T) {
	old := unix.Umask(0)
	defer unix.Umask(old)
	for _, tt := range []struct {
		options Options
		before  fs.FileMode // of the user's own; 0 for no file
		want    fs.FileMode
	}{{Options{}, 0, 0o644}, {Options{Private: true}, 0, 0o600}, {Options{}, 0o640, 0o640}, {Options{Private: true}, 0o644, 0o600}} {
		path := filepath.Join(t.TempDir(), "out")
		if tt.before != 0 {
			if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Chmod(path, tt.before)); err != nil {
				t.Fatal(err)
			}
		}
		f, err := Open(path, tt.options)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(f.Write(text("x")), f.Close()); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != tt.want {
			t.Errorf("%+v over %v: mode = %v, want %v", tt.options, tt.before, got, tt.want)
		}
	}
}

func TestPlacesThatCannotBeWritten(t *testing.T) {
	dir := t.TempDir()
	for path, want := range map[string]string{
		dir:                               "write " + dir + ": is a directory",
		filepath.Join(dir, "none", "out"): "write " + filepath.Join(dir, "none", "out") + ": no such file or directory",
		dir + "/":                         "write " + dir + "/: is a directory",
		"":                                "write : no such file or directory",
		"/dev/fd/1000":                    "write /dev/fd/1000: bad file descriptor",
		"/dev/full":                       "write /dev/full: no space left on device (nothing was written; free space or name another place)",
	} {
		err := writeFile(path, text("x"))
		if err == nil || err.Error() != want {
			t.Errorf("error = %q, want %q", err, want)
		}
	}
}
