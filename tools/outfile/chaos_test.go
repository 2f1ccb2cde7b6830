package outfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"ustack/testdata/nodetest"
)

const (
	attacker  = 65534 // user and group
	untouched = "as it was"
)

// A field is where root and an attacker meet: folders of all sorts, and a file of
// root's that the attacker wants written.
type field struct {
	t                     *testing.T
	own, sticky, open, hs string // folders: root's, sticky, for all to write, and the attacker's
	victim                string // in own/etc
}

func newField(t *testing.T) *field {
	t.Helper()
	nodetest.Root(t)
	own := t.TempDir()
	f := &field{
		t: t, own: own, sticky: filepath.Join(own, "sticky"), open: filepath.Join(own, "open"), hs: filepath.Join(own, "his"),
		victim: filepath.Join(own, "etc", "victim"),
	}
	err := errors.Join(
		os.Chmod(own, 0o755), os.Chmod(filepath.Dir(own), 0o755), // for the attacker to get there
		os.Mkdir(f.sticky, 0o700), os.Chmod(f.sticky, 0o777|os.ModeSticky),
		os.Mkdir(f.open, 0o700), os.Chmod(f.open, 0o777),
		os.Mkdir(f.hs, 0o755), os.Chown(f.hs, attacker, attacker),
		os.Mkdir(filepath.Dir(f.victim), 0o755), os.WriteFile(f.victim, []byte(untouched), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// plant makes the attacker's link.
func (f *field) plant(target, link string) string {
	f.t.Helper()
	if err := errors.Join(os.Symlink(target, link), os.Lchown(link, attacker, attacker)); err != nil {
		f.t.Fatal(err)
	}
	return link
}

// unharmed fails the test if anything of root's was written.
func (f *field) unharmed() {
	f.t.Helper()
	if got := contents(f.t, f.victim); got != untouched {
		f.t.Fatalf("victim = %q, want it as it was", got)
	}
	if got := names(f.t, filepath.Dir(f.victim)); len(got) != 1 {
		f.t.Fatalf("files beside the victim = %q, want none", got)
	}
}

func TestChaosPlantedLinksAreNotFollowed(t *testing.T) {
	f := newField(t)
	inner := f.plant(f.victim, filepath.Join(f.sticky, "inner"))
	outer := filepath.Join(f.own, "outer") // root's own link, to the attacker's
	mine := filepath.Join(f.sticky, "mine")
	if err := errors.Join(os.Symlink(inner, outer), os.Symlink(f.victim, mine)); err != nil {
		t.Fatal(err)
	}
	self := fmt.Sprintf("/proc/%d/root", os.Getpid())
	for name, path := range map[string]string{
		"in a sticky folder":           inner,
		"of root's, in a sticky one":   mine,
		"in a folder for all":          f.plant(f.victim, filepath.Join(f.open, "link")),
		"in the attacker's folder":     f.plant(f.victim, filepath.Join(f.hs, "link")),
		"relative":                     f.plant("../etc/victim", filepath.Join(f.hs, "relative")),
		"to a folder":                  f.plant(filepath.Dir(f.victim), filepath.Join(f.sticky, "folder")) + "/victim",
		"to a folder, for a new file":  filepath.Join(f.sticky, "folder", "new"),
		"to a folder, dots":            filepath.Join(f.sticky, "folder") + "/./../etc/new",
		"to nothing":                   f.plant(filepath.Dir(f.victim)+"/new", filepath.Join(f.sticky, "dangling")),
		"behind root's own":            outer,
		"of a process's root":          self + inner,
		"to itself":                    f.plant("self", filepath.Join(f.hs, "self")),
		"of root's, in another's root": self + outer,
	} {
		if err := writeFile(path, text("x")); !errors.Is(err, errLink) {
			t.Errorf("link %s: error = %v, want %v", name, err, errLink)
		}
		f.unharmed()
	}
	if err := writeFile(self+filepath.Join(f.own, "new"), text("x")); err != nil {
		t.Errorf("a file in a process's root: %v", err)
	}
}

func TestChaosFilesAndPipesOfOthersAreNotWritten(t *testing.T) {
	f := newField(t)
	for _, dir := range []string{f.sticky, f.open} {
		file, pipe := filepath.Join(dir, "file"), filepath.Join(dir, "pipe")
		err := errors.Join(os.WriteFile(file, []byte(untouched), 0o600), os.Chmod(file, 0o666), os.Chown(file, attacker, attacker),
			unix.Mkfifo(pipe, 0o600), os.Chown(pipe, attacker, attacker))
		if err != nil {
			t.Fatal(err)
		}
		startReader(t, pipe)
		for _, path := range []string{file, pipe} {
			if err := writeFile(path, text("x")); !errors.Is(err, errForeign) {
				t.Errorf("%s: error = %v, want %v", path, err, errForeign)
			}
		}
		if got := contents(t, file); got != untouched {
			t.Errorf("the attacker's file = %q, want it as it was", got)
		}
	}
}

func TestChaosFileOfAnotherUserLeavesItsModeBehind(t *testing.T) {
	f := newField(t)
	path, hard := filepath.Join(f.hs, "out"), filepath.Join(f.sticky, "hard")
	err := errors.Join(os.WriteFile(path, nil, 0o600), os.Chmod(path, 0o666), os.Chown(path, attacker, attacker), os.Link(f.victim, hard))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(writeFile(path, text("x")), writeFile(hard, text("x"))); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	owner := info.Sys().(*syscall.Stat_t).Uid
	if got, want := info.Mode().Perm(), fs.FileMode(0o644); got != want || owner != 0 {
		t.Errorf("mode = %v of %d, want %v of root", got, owner, want)
	}
	f.unharmed() // by the hard link
}

// TestChaosOutputRacesWithPlantedFiles writes while an attacker exchanges, as fast
// as a shell can, what is at the name for a link, a file, a pipe and nothing, and
// the folder on the way for a link.
func TestChaosOutputRacesWithPlantedFiles(t *testing.T) {
	f := newField(t)
	const script = `while :; do
		ln -s "$1" out; rm -f out; : >out; rm -f out; mkfifo out; rm -f out; mkdir out; rmdir out
		mkdir dir; mv -T dir gone; ln -s "$2" dir; rm -f dir; rm -rf gone
	done 2>/dev/null`
	for _, dir := range []string{f.sticky, f.open, f.hs} {
		cmd := exec.Command("/bin/sh", "-c", script, "sh", f.victim, filepath.Dir(f.victim))
		cmd.Dir = dir
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Credential: &syscall.Credential{Uid: attacker, Gid: attacker}, Pdeathsig: syscall.SIGKILL, Setpgid: true,
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		for range nodetest.Rounds(300, 100_000) {
			for _, name := range []string{"out", "dir/new"} {
				_ = writeFile(filepath.Join(dir, name), text("x")) // whether it is refused depends on the moment
			}
			f.unharmed()
		}
		if err := errors.Join(syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL), ignoreKilled(cmd.Wait())); err != nil {
			t.Fatal(err)
		}
		for _, name := range names(t, dir) {
			if strings.HasSuffix(name, ".partial") {
				t.Errorf("%s was left in %s", name, dir)
			}
		}
	}
}

// ignoreKilled returns err unless it says that the process was killed.
func ignoreKilled(err error) error {
	if errors.As(err, new(*exec.ExitError)) {
		return nil
	}
	return err
}
