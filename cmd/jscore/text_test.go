package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ustack/tools/printable"
)

func TestHighlight(t *testing.T) {
	got := highlight(`3a1f00d2e9 JSObject "a\"b": <bad> 12 deadbeef`)
	want := "\x1b[36m3a1f00d2e9\x1b[0m JSObject \x1b[32m\"a\\\"b\"\x1b[0m: \x1b[33m<bad>\x1b[0m 12 deadbeef"
	if got != want {
		t.Errorf("line = %q, want %q", got, want)
	}
}

func TestLinesAreMarkedWhole(t *testing.T) {
	var out bytes.Buffer
	l := &lineWriter{w: &out, mark: func(line string) string { return "<" + line + ">" }}
	for _, part := range []string{"a", "b\nc\n\n", "d"} {
		if _, err := l.Write([]byte(part)); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.flush(); err != nil {
		t.Fatal(err)
	}
	if got, want := out.String(), "<ab>\n<c>\n<>\n<d>"; got != want {
		t.Errorf("text = %q, want %q", got, want)
	}
	broken := errors.New("broken")
	l = &lineWriter{w: failing{broken}, mark: printable.String}
	if _, err := l.Write([]byte("a\n")); !errors.Is(err, broken) {
		t.Errorf("error = %v, want %v", err, broken)
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

func TestPagerIsStartedForLongTextOnly(t *testing.T) {
	for lines, paged := range map[int]bool{3: false, 4: true, 1000: true} {
		path := filepath.Join(t.TempDir(), "paged")
		t.Setenv("PAGER", "tee "+path)
		var out bytes.Buffer
		p := &pager{output: &output{stdout: &out, stderr: &out}, ctx: t.Context(), room: 3}
		for range lines {
			if _, err := p.Write([]byte("line\n")); err != nil {
				t.Fatal(err)
			}
		}
		if err := p.close(); err != nil {
			t.Fatal(err)
		}
		if got := strings.Count(out.String(), "line\n"); got != lines {
			t.Errorf("lines = %d, want %d", got, lines)
		}
		if _, err := os.Stat(path); (err == nil) != paged {
			t.Errorf("%d lines are paged: %v, want %v", lines, err == nil, paged)
		}
	}
}
