package cli

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"ustack/testdata/nodetest"
)

// lines reads what a command prints.
type lines struct {
	t       *testing.T
	scanner *bufio.Scanner
}

func newLines(t *testing.T, r io.Reader) *lines {
	return &lines{t: t, scanner: bufio.NewScanner(r)}
}

func (l *lines) want(want string) {
	l.t.Helper()
	if !l.scanner.Scan() || l.scanner.Text() != want {
		l.t.Fatalf("line = %q, want %q", l.scanner.Text(), want)
	}
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
		if err := WriteFile(path, text(want)); err != nil {
			t.Fatal(err)
		}
		if got := contents(t, path); got != want {
			t.Errorf("contents = %q, want %q", got, want)
		}
		if err := os.Chmod(path, 0o640); err != nil {
			t.Fatal(err)
		}
	}
	if err := WriteFile(path, text("third")); err != nil {
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
	err := WriteFile(path, func(w io.Writer) error {
		w.Write(bytes.Repeat([]byte("new"), outputBuffer))
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
	err := WriteFile(path, text(strings.Repeat("x", 1<<20)))
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
	if err := WriteFile(link, text("new")); err != nil {
		t.Fatal(err)
	}
	if got, err := os.Readlink(link); got != "target" {
		t.Errorf("link = %q (%v), want target", got, err)
	}
	if got := contents(t, target); got != "new" {
		t.Errorf("contents = %q, want new", got)
	}
}

func TestPipeIsWrittenTo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	read := make(chan string)
	go func() {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Error(err)
		}
		read <- string(b)
	}()
	if err := WriteFile(path, text("through")); err != nil {
		t.Fatal(err)
	}
	if got := <-read; got != "through" {
		t.Errorf("contents = %q, want through", got)
	}
}

func TestPlacesThatCannotBeWritten(t *testing.T) {
	dir := t.TempDir()
	for path, want := range map[string]string{
		dir:                               "write " + dir + ": it is a folder",
		filepath.Join(dir, "none", "out"): "write " + filepath.Join(dir, "none", "out") + ": no such file or directory",
		"/dev/full":                       "write /dev/full: no space left on device (nothing was written; free space or name another place)",
	} {
		err := WriteFile(path, text("x"))
		if err == nil || err.Error() != want {
			t.Errorf("error = %q, want %q", err, want)
		}
	}
}

func TestNoColorWithoutATerminal(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if Color(file) || Color(new(bytes.Buffer)) {
		t.Error("color in a file, want none")
	}
}

func TestTerminalTakesColorUnlessToldNot(t *testing.T) {
	terminal := openTerminal(t)
	t.Setenv("TERM", "xterm")
	t.Setenv("NO_COLOR", "")
	if !Color(terminal) {
		t.Error("no color on a terminal, want some")
	}
	t.Setenv("NO_COLOR", "1")
	if Color(terminal) {
		t.Error("color in spite of NO_COLOR")
	}
	t.Setenv("NO_COLOR", "")
	t.Setenv("TERM", "dumb")
	if Color(terminal) {
		t.Error("color on a dumb terminal")
	}
}

// openTerminal returns the near end of a new pseudo-terminal.
func openTerminal(t *testing.T) *os.File {
	t.Helper()
	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		nodetest.MustRun(t, "no pseudo-terminal: "+err.Error())
	}
	t.Cleanup(func() { terminal.Close() })
	return terminal
}
