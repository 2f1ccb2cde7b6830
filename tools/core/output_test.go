package core

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"ustack/testdata/nodetest"
	"ustack/tools/outfile"
)

func TestFileHasNoNameUntilItIsWhole(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "core")
	for _, commit := range []bool{false, true} { // in this order: a core replaces no file
		o, err := create(path, os.Getpid())
		if err != nil {
			t.Fatal(err)
		}
		if err := o.put(0, []byte("whole")); err != nil {
			t.Fatal(err)
		}
		checkOnly(t, dir)
		if commit {
			if _, err := o.commit(5); err != nil {
				t.Error(err)
			}
		}
		if err := o.discard(); err != nil {
			t.Error(err)
		}
		if !commit {
			checkOnly(t, dir)
		} else if got, err := os.ReadFile(path); string(got) != "whole" {
			t.Errorf("the file holds %q, %v", got, err)
		}
	}
}

// TestPartialFile is what is done where a file must have a name.
func TestPartialFile(t *testing.T) {
	dir := t.TempDir()
	newOutput := func() *output {
		path := filepath.Join(dir, "core")
		folder, name, err := outfile.Locate(path)
		if err != nil {
			t.Fatal(err)
		}
		return &output{path: path, folder: folder, name: name}
	}
	o, other := newOutput(), newOutput()
	var err error
	if o.file, err = o.createPartial(); err != nil {
		t.Fatal(err)
	}
	checkOnly(t, dir, "core.partial")
	if _, err := other.createPartial(); !errors.Is(err, fs.ErrExist) || !strings.Contains(err.Error(), "core.partial") {
		t.Errorf("a second one: %v, want %v", err, fs.ErrExist)
	}
	if err := other.discard(); err != nil {
		t.Error(err)
	}
	checkOnly(t, dir, "core.partial") // it is not the other's
	if _, err := o.commit(0); err != nil {
		t.Error(err)
	}
	if err := o.discard(); err != nil {
		t.Error(err)
	}
	checkOnly(t, dir, "core")

	if o = newOutput(); true {
		o.file, err = o.createPartial()
	}
	if _, commitErr := o.commit(0); err != nil || !errors.Is(commitErr, fs.ErrExist) {
		t.Errorf("commit beside a core = %v, %v, want %v", err, commitErr, fs.ErrExist)
	}
	if err := o.discard(); err != nil {
		t.Error(err)
	}
	checkOnly(t, dir, "core")
}

func TestTemporaryFileHasNoName(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	o, err := createTemporary()
	if err != nil {
		t.Fatal(err)
	}
	checkOnly(t, dir)
	if err := o.put(0, []byte("x")); err != nil {
		t.Error(err)
	}
	if disk, err := o.commit(1); disk == 0 || err != nil {
		t.Errorf("commit = %d, %v, want some bytes", disk, err)
	}
	if err := o.discard(); err != nil {
		t.Error(err)
	}
	checkOnly(t, dir)
}

// TestChaosPlantedPlaces has paths that another user may have made to lead elsewhere.
func TestChaosPlantedPlaces(t *testing.T) {
	nodetest.Root(t)
	dir := t.TempDir()
	in := func(names ...string) string { return filepath.Join(append([]string{dir}, names...)...) }
	const nobody = 65534
	fatal := func(errs ...error) {
		t.Helper()
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
	}
	fatal(
		os.Mkdir(in("own"), 0o755), os.Mkdir(in("target"), 0o755), os.Mkdir(in("foreign"), 0o755), os.Mkdir(in("sticky"), 0o755),
		os.Chown(in("foreign"), nobody, nobody), os.Chmod(in("sticky"), 0o1777|os.ModeSticky),
		os.Symlink("../target", in("own", "link")), os.Symlink(in("own", "link"), in("own", "again")),
		os.Symlink(in("target"), in("foreign", "link")), os.Symlink(in("target"), in("sticky", "link")),
		os.Symlink(in("sticky", "link"), in("own", "indirect")), os.Symlink("loop", in("own", "loop")),
		os.Symlink("/etc/nowhere", in("sticky", "core")), unix.Mkfifo(in("sticky", "fifo"), 0o600),
	)
	for _, test := range []struct{ path, want string }{
		{in("own", "link", "core"), ""},
		{in("own", "again") + "/../target/core", ""},
		{in("foreign", "core"), ""},
		{in("sticky", "file"), ""},
		{in("foreign", "link", "core"), "link in a directory where others can write"},
		{in("sticky", "link", "core"), "link in a directory where others can write"},
		{in("own", "indirect", "core"), "link in a directory where others can write"},
		{in("own", "loop", "core"), unix.ELOOP.Error()},
		{in("sticky", "core"), "link in a directory where others can write"},
		{in("sticky", "fifo"), "no regular file"},
		{in("none", "core"), "no such file or directory"},
		{"/dev/null", "no regular file"},
		{"/dev/null/core", "not a directory"},
	} {
		o, err := create(test.path, os.Getpid())
		if err == nil {
			_, err = o.commit(0)
			err = errors.Join(err, o.discard(), os.Remove(test.path))
		}
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("create %s = %v, want %q", test.path, err, test.want)
		}
	}
	if left, err := filepath.Glob(in("*", "*core*")); fmt.Sprint(left) != fmt.Sprint([]string{in("sticky", "core")}) {
		t.Errorf("files = %q, %v, want none but the link", left, err)
	}
	checkOnly(t, in("target"))
}
