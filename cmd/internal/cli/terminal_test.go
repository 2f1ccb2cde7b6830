package cli

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"

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

func contents(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
