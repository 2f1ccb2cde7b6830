// Package outfile opens the files that users name for results. The tools run as
// root, often in directories where others can write: no link and no file that
// somebody else put there can redirect or damage the output.
package outfile

import (
	"bufio"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

const bufferSize = 1 << 16 // bytes

// Options say how to write. The zero value is useful.
type Options struct {
	Private bool // only the user may read it: mode 0600; else 0644 less the umask
}

// A File is a destination for results.
type File struct {
	path    string   // as the user named it
	stream  *os.File // a pipe, a device or an inherited descriptor; nil for a regular file
	dir     *os.File // of a regular file
	name    string   // in dir
	private bool
}

// Open checks that path can be written, before there is anything to write. No file
// is there yet when it returns. The last part of path may be
//
//	nothing             a file will be created
//	a regular file      it will be replaced; the user's own keeps its mode
//	a link              what it leads to counts, see locate
//	a pipe or a device  opened now; a pipe that nobody reads is an error
//
// /dev/stdout, /dev/stderr and /dev/fd/N are the descriptors that we have. In a
// directory where others can write, a file or a pipe of theirs is refused, as
// fs.protected_regular and fs.protected_fifos would. The caller must close File.
func Open(path string, o Options) (*File, error) {
	f := &File{path: path, private: o.Private}
	fd, ok, err := descriptor(path)
	switch {
	case err != nil:
		return nil, f.explain(err)
	case ok:
		f.stream = os.NewFile(uintptr(fd), path)
		return f, nil
	}
	dir, name, err := locate(path)
	if err != nil {
		return nil, f.explain(err)
	}
	f.dir, f.name = os.NewFile(uintptr(dir), path), name
	if err := f.prepare(); err != nil {
		return nil, errors.Join(f.explain(err), f.Close())
	}
	return f, nil
}

// prepare opens a destination that is not a regular file, and otherwise checks
// that the file can be created.
func (f *File) prepare() error {
	old, err := f.inspect()
	if err != nil {
		return err
	}
	if old != nil && old.Mode&unix.S_IFMT != unix.S_IFREG {
		f.stream, err = openStream(f.fd(), f.name)
		return err
	}
	file, temporary, err := f.create()
	if err != nil {
		return err
	}
	err = file.Close()
	if temporary != "" {
		err = errors.Join(err, unix.Unlinkat(f.fd(), temporary, 0))
	}
	return err
}

// inspect returns what has f's name now, nil for nothing, if we may write there.
func (f *File) inspect() (*unix.Stat_t, error) {
	var dir, old unix.Stat_t
	if err := unix.Fstat(f.fd(), &dir); err != nil {
		return nil, err
	}
	err := unix.Fstatat(f.fd(), f.name, &old, unix.AT_SYMLINK_NOFOLLOW)
	switch {
	case errors.Is(err, unix.ENOENT):
		return nil, nil
	case err != nil:
		return nil, err
	case old.Mode&unix.S_IFMT == unix.S_IFDIR:
		return nil, unix.EISDIR
	case shared(&dir) && int(old.Uid) != os.Geteuid() && old.Uid != dir.Uid:
		return nil, errForeign
	}
	return &old, nil
}

func (f *File) fd() int { return int(f.dir.Fd()) }

// Write writes the file, whose contents fill writes, completely or not at all.
// Until it is complete it has no name, or on file systems without O_TMPFILE a
// hidden random one that ends in ".partial". If anything fails, an existing
// file is left unchanged. A stream gets everything that fill writes.
func (f *File) Write(fill func(io.Writer) error) error {
	var err error
	if f.stream != nil {
		err = buffered(f.stream, fill)
	} else {
		err = f.replace(fill)
	}
	return f.explain(err)
}

// Close closes the destination; what was written stays.
func (f *File) Close() error {
	var errs []error
	for _, file := range []*os.File{f.stream, f.dir} {
		if file != nil {
			errs = append(errs, file.Close())
		}
	}
	return errors.Join(errs...)
}

func (f *File) replace(fill func(io.Writer) error) (err error) {
	old, err := f.inspect()
	if err != nil {
		return err
	}
	file, temporary, err := f.create()
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, file.Close())
		if err != nil && temporary != "" {
			err = errors.Join(err, unix.Unlinkat(f.fd(), temporary, 0))
		}
	}()
	if err := buffered(file, fill); err != nil {
		return err
	}
	if old != nil && int(old.Uid) == os.Geteuid() {
		if err := file.Chmod(fs.FileMode(old.Mode&0o777) & f.most()); err != nil {
			return err
		}
	}
	if err := file.Sync(); err != nil { // some file systems report only now that they are full
		return err
	}
	if temporary == "" {
		if temporary, err = f.link(file, old != nil); err != nil || temporary == "" {
			return err
		}
	}
	if err := unix.Renameat(f.fd(), temporary, f.fd(), f.name); err != nil {
		return err
	}
	temporary = ""
	return nil
}

// most returns the widest mode that the file may have.
func (f *File) most() fs.FileMode {
	if f.private {
		return 0o600
	}
	return 0o777
}

// create returns a new file, either unnamed or with the returned name.
func (f *File) create() (file *os.File, name string, err error) {
	mode := uint32(f.most() & 0o644)
	fd, err := unix.Openat(f.fd(), ".", unix.O_TMPFILE|unix.O_WRONLY|unix.O_CLOEXEC, mode)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EISDIR) { // as older file systems or kernels report
		name = f.temporary()
		fd, err = unix.Openat(f.fd(), name, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, mode)
	}
	if err != nil {
		return nil, "", err
	}
	return os.NewFile(uintptr(fd), f.path), name, nil
}

// link gives file its name or, if that is taken, a temporary one, which it
// returns.
func (f *File) link(file *os.File, taken bool) (temporary string, err error) {
	self := fmt.Sprintf("/proc/self/fd/%d", file.Fd())
	if !taken {
		err := unix.Linkat(unix.AT_FDCWD, self, f.fd(), f.name, unix.AT_SYMLINK_FOLLOW)
		if !errors.Is(err, unix.EEXIST) {
			return "", err
		}
	}
	temporary = f.temporary()
	if err := unix.Linkat(unix.AT_FDCWD, self, f.fd(), temporary, unix.AT_SYMLINK_FOLLOW); err != nil {
		return "", err
	}
	return temporary, nil
}

// temporary returns an unpredictable name in the same directory, similar to
// f's.
func (f *File) temporary() string {
	const room = 200 // bytes; names have 255 at most
	return "." + f.name[:min(len(f.name), room)] + "." + rand.Text() + ".partial"
}

func buffered(w io.Writer, fill func(io.Writer) error) error {
	b := bufio.NewWriterSize(w, bufferSize)
	if err := fill(b); err != nil {
		return err
	}
	return b.Flush()
}

// explain names the file as the user did, and suggests a remedy.
func (f *File) explain(err error) error {
	if err == nil {
		return nil
	}
	var inner *fs.PathError
	if errors.As(err, &inner) {
		err = inner.Err
	}
	remedy := ""
	switch {
	case errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT):
		remedy = " (nothing was written; free space or name another place)"
	case errors.Is(err, unix.ENXIO):
		err = errNoReader
	}
	return fmt.Errorf("write %s: %w%s", f.path, err, remedy)
}
