package clitest

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ustack/testdata/nodetest"
)

func TestFails(t *testing.T) {
	for _, tt := range []struct {
		name string
		args []string
		want int // complaints
	}{
		{"as it should", []string{"-p", "1", "--duration", "1", "--output", "/none/out"}, 0},
		{"another reason", []string{"-p", "1", "--duration", "1", "--output", "/"}, 1},
		{"usage", nil, 2},
		{"success", []string{"-p", "1", "--duration", "1"}, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			nodetest.Root(t)
			got := &complaints{TB: t}
			out := Fails(got, exec.Command("small", tt.args...), "write /none/out: no such file")
			if got.errors != tt.want || out == "" {
				t.Errorf("complaints = %d, want %d about %q", got.errors, tt.want, out)
			}
		})
	}
}

func TestFullDisk(t *testing.T) {
	nodetest.Root(t)
	for _, tt := range []struct {
		name    string
		command []string
		want    int
	}{
		{"whole or not at all", []string{"small", "--all", "--duration", "1"}, 0},
		// The new file is there, empty, and why is half said; the old one has room for
		// the new text, so that there is no failure, no reason, and no old text.
		{"careless", []string{"small", "--all", "--duration", "1", "--careless"}, 5},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := &complaints{TB: t}
			CheckFullDisk(got, "out.txt", tt.command...)
			if got.errors != tt.want {
				t.Errorf("complaints = %d, want %d", got.errors, tt.want)
			}
		})
	}
}

func TestOutputPlaces(t *testing.T) {
	nodetest.Root(t)
	for _, tt := range []struct {
		name    string
		command []string
		want    int
	}{
		{"refused", []string{"small", "--all"}, 0},
		// It follows the link, and is refused the others by the kernel, in other words.
		{"careless", []string{"small", "--all", "--duration", "1", "--careless"}, 7},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := &complaints{TB: t}
			CheckOutputPlaces(got, "out.txt", tt.command...)
			if got.errors != tt.want {
				t.Errorf("complaints = %d, want %d", got.errors, tt.want)
			}
		})
	}
}

func TestUnprivileged(t *testing.T) {
	nodetest.Root(t)
	for _, tt := range []struct {
		name    string
		command []string
		want    int
	}{
		{"said", []string{"small", "--duration", "1"}, 0},
		{"not said", []string{"small", "--duration", "1", "--silent"}, 4},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := &complaints{TB: t}
			CheckUnprivileged(got, os.Getpid(), tt.command...)
			if got.errors != tt.want {
				t.Errorf("complaints = %d, want %d", got.errors, tt.want)
			}
		})
	}
}

func TestKernelsThatLackSomething(t *testing.T) {
	nodetest.Root(t)
	for name, command := range map[string][]string{
		"said":     {"small", "--duration", "1"},
		"not said": {"small", "--duration", "1", "--silent"},
	} {
		got := &complaints{TB: t}
		CheckKernels(got, os.Getpid(), command...)
		if (got.errors > 0) != (name == "not said") {
			t.Errorf("%s: complaints = %d", name, got.errors)
		}
	}
}

func TestCopyForAll(t *testing.T) {
	var path string
	t.Run("test", func(t *testing.T) {
		path = copyForAll(t, "sleep")
		for _, name := range []string{path, filepath.Dir(path)} {
			if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o755 {
				t.Errorf("%s: %v, %v, want what every user can use", name, info, err)
			}
		}
		source, err := exec.LookPath("sleep")
		if err != nil {
			t.Fatal(err)
		}
		want, err := os.ReadFile(source)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
			t.Errorf("copy of %d bytes, %v, want the %d of %s", len(got), err, len(want), source)
		}
	})
	if _, err := os.Stat(filepath.Dir(path)); !os.IsNotExist(err) {
		t.Errorf("directory of the copy after the test: %v, want none", err)
	}
	if got := fatal(t, func(t testing.TB) { copyForAll(t, "no-such-command") }); !strings.Contains(got, "executable file not found") {
		t.Errorf("copy of no command: %q, want that it is not found", got)
	}
}

func TestNames(t *testing.T) {
	dir := t.TempDir()
	if got := names(t, dir); len(got) != 0 {
		t.Errorf("names in an empty directory = %q", got)
	}
	for _, name := range []string{"b", "a", ".c"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := names(t, dir), []string{".c", "a", "b"}; !slices.Equal(got, want) {
		t.Errorf("names = %q, want %q", got, want)
	}
	if got := fatal(t, func(t testing.TB) { names(t, filepath.Join(dir, "none")) }); !strings.Contains(got, "no such file") {
		t.Errorf("names in no directory: %q, want none", got)
	}
}
