package space

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// withoutPages is the memory of a process in which the pages at some addresses are not known.
type withoutPages struct {
	*running
	starts map[uint64]bool
}

func (w withoutPages) ReadAt(p []byte, address uint64) (int, error) {
	if w.starts[address&^0xfff] {
		return 0, ErrLeftOut
	}
	return w.running.ReadAt(p, address)
}

// TestFilesAreFoundBelowARoot has the program's file in folders that stand for another machine's
// root: as it was, by links within the folder, and by links that would lead out of it.
func TestFilesAreFoundBelowARoot(t *testing.T) {
	r := start(t)
	program := r.open(t, r, Finder{Process: r.Process}).Modules()[0]
	content, err := os.ReadFile(program.Path)
	if err != nil {
		t.Fatal(err)
	}
	outside := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(outside, content, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name  string
		place func(root, path string) error // at the program's path below the root
		want  string                        // in the error
	}{
		{"file", func(_, path string) error { return os.WriteFile(path, content, 0o600) }, ""},
		{"absolute link within", func(root, path string) error {
			if err := os.WriteFile(filepath.Join(root, "real"), content, 0o600); err != nil {
				return err
			}
			return os.Symlink("/real", path)
		}, ""},
		{"link out", func(_, path string) error { return os.Symlink(outside, path) }, "not found"},
		{"climbing link", func(_, path string) error { return os.Symlink(strings.Repeat("../", 40)+outside, path) }, "not found"},
		{"another build", func(_, path string) error {
			libc, err := os.ReadFile(module(t, r.open(t, r, Finder{Process: r.Process}), "libc.so").Path)
			if err != nil {
				return err
			}
			return os.WriteFile(path, libc, 0o600)
		}, "has the build ID"},
		{"nothing", func(string, string) error { return nil }, "not found"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			folder := t.TempDir()
			path := filepath.Join(folder, program.Path)
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := tt.place(folder, path); err != nil {
				t.Fatal(err)
			}
			root, err := os.OpenFile(folder, unix.O_PATH|unix.O_DIRECTORY, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer root.Close()
			m := r.open(t, r, Finder{Root: root}).Modules()[0]
			if tt.want == "" && (m.Err != nil || m.ELF.BuildID() != program.ELF.BuildID()) {
				t.Errorf("module = %+v, want the program's file", m)
			}
			if tt.want != "" && (m.Err == nil || !strings.Contains(m.Err.Error(), tt.want) || m.ELF != nil) {
				t.Errorf("module = %+v, want an error with %q", m, tt.want)
			}
		})
	}
}

// TestFilesWithoutBuildIDAreDoubted leaves the program's first page out of the memory.
func TestFilesWithoutBuildIDAreDoubted(t *testing.T) {
	r := start(t)
	whole := r.open(t, r, Finder{})
	source := withoutPages{r, map[uint64]bool{whole.Modules()[0].mappings[0].Start: true}}
	for i, m := range r.open(t, source, Finder{}).Modules() {
		if m.Err == nil && m.IsUnverified() != (i == 0) {
			t.Errorf("%s is unverified: %v, want only the program", m.Path, m.IsUnverified())
		}
	}
	if m := r.open(t, source, Finder{Process: r.Process}).Modules()[0]; m.IsUnverified() {
		t.Error("the process's own file is unverified")
	}
}
