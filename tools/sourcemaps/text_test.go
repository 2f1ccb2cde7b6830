package sourcemaps

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"ustack/symbolize/sourcemap"
	"ustack/testdata/nodetest"
)

// TestSourcesBelowTheRootAreRead reads the files that maps name: as a program's user may,
// and only below its root.
func TestSourcesBelowTheRootAreRead(t *testing.T) {
	nodetest.Root(t)
	const text, secret = "let x\n", "nobody may read this\n"
	folder, root := place(t, map[string]string{"src/own.ts": text, "src/all.ts": text, "src/private.ts": secret})
	const user = 4242
	src := filepath.Join(folder, "src")
	outside := filepath.Join(t.TempDir(), "outside.ts")
	err := errors.Join(
		os.Chown(filepath.Join(src, "own.ts"), user, user), os.Chmod(filepath.Join(src, "all.ts"), 0o644),
		os.WriteFile(outside, []byte(secret), 0o644), os.Chmod(outside, 0o644),
		os.Symlink(outside, filepath.Join(src, "link.ts")), os.Symlink("../../../../../.."+outside, filepath.Join(src, "up.ts")),
		os.Symlink("/src/all.ts", filepath.Join(src, "inside.ts")), unix.Mkfifo(filepath.Join(src, "fifo.ts"), 0o666),
		os.WriteFile(filepath.Join(src, "huge.ts"), nil, 0o644), os.Truncate(filepath.Join(src, "huge.ts"), sourcemap.MaxBytes+1))
	if err != nil {
		t.Fatal(err)
	}
	f := finder(t, Options{})
	for source, want := range map[string]string{
		"/src/own.ts": "", "/src/all.ts": "", "file:///src/own.ts": "", "/src/inside.ts": "", "/../../src/own.ts": "",
		"/src/private.ts":      ErrNotReadable.Error(),
		"/src/link.ts":         "no such file",
		"/src/up.ts":           "no such file",
		"/src/fifo.ts":         "not a regular file",
		"/src/huge.ts":         "it has 67108865 bytes",
		"/src":                 "not a regular file",
		"/src/none.ts":         "no such file",
		"webpack://x/./own.ts": "its name is no path",
		"src/own.ts":           "its name is no path",
	} {
		got, err := f.Text(root, source, user)
		if want == "" && (err != nil || got != text) || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("text of %s = %q, error %v, want an error with %q", source, got, err, want)
		}
	}
	if _, err := f.Text(nil, "/src/own.ts", user); !errors.Is(err, ErrNotRead) {
		t.Errorf("error without a root = %v, want %v", err, ErrNotRead)
	}
}

// TestTextsInMapsAreKeptOnRequest has a map with its source's text.
func TestTextsInMapsAreKeptOnRequest(t *testing.T) {
	const text = `data:,{"version":3,"sources":["a.ts"],"sourcesContent":["let x\n"],"names":[],"mappings":"AAAA"}`
	for _, wanted := range []bool{false, true} {
		m, err := finder(t, Options{Content: wanted}).Find(Script{Name: "/srv/x.js", URL: text})
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := m.Content("/srv/a.ts"); ok != wanted || ok && got != "let x\n" {
			t.Errorf("text = %q, %t, want it: %t", got, ok, wanted)
		}
	}
}
