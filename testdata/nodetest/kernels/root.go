package kernels

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A Root is a folder that becomes the virtual machine's file system. Files are where they
// are on this machine: tests look for programs where they were compiled.
type Root struct{ dir string }

// programs are what tests start, besides Node.js and busybox's.
var programs = []string{"busybox", "bash", "cc", "strip", "unshare"}

// packages have what gcc needs to compile C.
var packages = []string{
	"gcc", "cpp", "gcc-" + compilerMajor, "cpp-" + compilerMajor, "libgcc-" + compilerMajor + "-dev", "libc6-dev", "linux-libc-dev",
	"binutils", "binutils-common", "binutils-x86-64-linux-gnu",
}

const compilerMajor = "12" // in Debian 12

// leftOut are files of those packages that C needs not.
var leftOut = regexp.MustCompile(`^/usr/share/|/(cc1plus|lto1|lto-wrapper|lto-dump-[0-9]+|gold|dwp)$|lib[atl]san|ubsan|/usr/lib/debug/`)

// program adds a program and the libraries that it needs.
func (r Root) program(ctx context.Context, path string) error {
	files := []string{path}
	// It fails for what has no libraries, and says so.
	if out, err := exec.CommandContext(ctx, "ldd", path).Output(); err == nil {
		files = append(files, libraryPath.FindAllString(string(out), -1)...)
	}
	for _, file := range files {
		if err := r.file(file); err != nil {
			return err
		}
	}
	return nil
}

var libraryPath = regexp.MustCompile(`/\S+`)

// file adds a file, unless it is there.
func (r Root) file(path string) error {
	to := filepath.Join(r.dir, path)
	if _, err := os.Lstat(to); err == nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return err
	}
	info, err := os.Stat(real)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return os.MkdirAll(to, 0o755)
	}
	// A link costs nothing where both are on one file system.
	if err := os.Link(real, to); err == nil {
		return nil
	}
	b, err := os.ReadFile(real)
	if err != nil {
		return err
	}
	return os.WriteFile(to, b, info.Mode().Perm())
}

// folder adds what is in a folder.
func (r Root) folder(dir string) error {
	return filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		return errors.Join(err, r.file(path))
	})
}

// compiler adds gcc.
func (r Root) compiler(ctx context.Context) error {
	out, err := exec.CommandContext(ctx, "dpkg", append([]string{"--listfiles"}, packages...)...).Output()
	if err != nil {
		return fmt.Errorf("list the files of %s: %w", strings.Join(packages, ", "), err)
	}
	for _, path := range strings.Fields(string(out)) {
		info, err := os.Stat(path)
		if err != nil || leftOut.MatchString(path) { // an entry of dpkg's may be a note about diversions
			continue
		}
		add := r.file
		if info.Mode().IsRegular() && info.Mode()&0o100 != 0 {
			add = func(path string) error { return r.program(ctx, path) }
		}
		if err := add(path); err != nil {
			return err
		}
	}
	return nil
}

// tests adds a package's tests, compiled, and the data they read.
func (r Root) tests(ctx context.Context, module, name string) error {
	to := filepath.Join(r.dir, module, name)
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	build := exec.CommandContext(ctx, "go", "test", "-c", "-o", filepath.Join(to, "run.test"), "./"+name)
	build.Dir, build.Env = module, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("compile the tests of %s: %w\n%s", name, err, out)
	}
	data := filepath.Join(module, name, "testdata")
	if _, err := os.Stat(data); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return r.folder(data)
}

// groups writes each group as the shell commands that init reads.
func (r Root) groups(module, cache string) error {
	dir := filepath.Join(r.dir, "groups")
	errs := []error{os.Mkdir(dir, 0o755)}
	for i, g := range Groups {
		before := g.Before
		if before == "" {
			before = ":"
		}
		text := fmt.Sprintf("export USTACK_CACHE=%s\ngroup %d %s %s %s\n",
			quote(cache), i, quote(filepath.Join(module, g.Package)), quote(g.Run), quote(before))
		errs = append(errs, os.WriteFile(filepath.Join(dir, strconv.Itoa(i)), []byte(text), 0o644))
	}
	return errors.Join(errs...)
}

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// archive packs the root as the kernel unpacks it.
func (r Root) archive(ctx context.Context, path string) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer file.Close()
	cmd := exec.CommandContext(ctx, "sh", "-c", "find . | busybox cpio -o -H newc")
	var said bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr = r.dir, file, &said
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("pack %s: %w: %s", r.dir, err, said.Bytes())
	}
	return file.Close()
}

// Options say what a Root is filled with.
type Options struct {
	Module string   // the folder of the sources
	Cache  string   // nodetest's
	Files  []string // and folders, that the tests need
	Nodes  []string // paths of Node.js
}

// Fill fills an empty folder with all that the groups need.
func Fill(ctx context.Context, dir string, init []byte, o Options) (Root, error) {
	r := Root{dir}
	if err := r.system(init); err != nil {
		return r, err
	}
	all := o.Nodes
	for _, name := range programs {
		path, err := exec.LookPath(name)
		if err != nil {
			return r, err
		}
		all = append(all, path)
	}
	for _, path := range all {
		if err := r.program(ctx, path); err != nil {
			return r, err
		}
	}
	if err := os.Symlink(o.Nodes[0], filepath.Join(dir, "usr/bin/node")); err != nil {
		return r, err
	}
	if err := r.compiler(ctx); err != nil {
		return r, err
	}
	for _, name := range append(o.Files, filepath.Join(o.Module, "testdata")) {
		if err := r.folder(name); err != nil {
			return r, err
		}
	}
	var names []string
	for _, g := range Groups {
		names = append(names, g.Package)
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if err := r.tests(ctx, o.Module, name); err != nil {
			return r, err
		}
	}
	return r, r.groups(o.Module, o.Cache)
}

// system adds init and what every system has.
func (r Root) system(init []byte) error {
	var errs []error
	for _, name := range []string{"proc", "sys", "dev", "tmp", "etc", "root", "run", "var/tmp", "usr/bin", "usr/sbin", "usr/lib", "usr/lib64"} {
		errs = append(errs, os.MkdirAll(filepath.Join(r.dir, name), 0o755))
	}
	for _, name := range []string{"bin", "sbin", "lib", "lib64"} {
		errs = append(errs, os.Symlink("usr/"+name, filepath.Join(r.dir, name)))
	}
	for name, text := range map[string]string{
		"etc/hosts":    "127.0.0.1 localhost\n",
		"etc/hostname": "guest\n",
		"etc/passwd":   "root:x:0:0:root:/tmp:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n",
		"etc/group":    "root:x:0:\nnogroup:x:65534:\n",
	} {
		errs = append(errs, os.WriteFile(filepath.Join(r.dir, name), []byte(text), 0o644))
	}
	return errors.Join(append(errs, os.WriteFile(filepath.Join(r.dir, "init"), init, 0o755))...)
}
