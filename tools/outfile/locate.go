package outfile

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Why a place is refused. The remedy is in the text.
var (
	errForeign  = errors.New("it belongs to another user, in a directory where others can write (remove it, or name another place)")
	errLink     = errors.New("a symbolic link in a directory where others can write is not followed (name the file that it leads to)")
	errNoReader = errors.New("nothing reads from it (start the reader first)")
	errSocket   = errors.New("it is a socket")
	errMoved    = errors.New("it was replaced while it was being opened")
)

// descriptor returns a duplicate of the descriptor that path stands for, if it
// stands for one of ours: opening it by name would truncate a file that is there,
// and fail on some pipes.
func descriptor(path string) (fd int, ok bool, err error) {
	number := -1
	switch path {
	case "/dev/stdout":
		number = unix.Stdout
	case "/dev/stderr":
		number = unix.Stderr
	default:
		for _, folder := range []string{"/dev/fd/", "/proc/self/fd/"} {
			if rest, found := strings.CutPrefix(path, folder); found {
				if number, err = strconv.Atoi(rest); err != nil {
					return -1, false, unix.ENOENT
				}
			}
		}
	}
	if number < 0 {
		return -1, false, nil
	}
	flags, err := unix.FcntlInt(uintptr(number), unix.F_GETFL, 0)
	if err == nil && flags&unix.O_ACCMODE == unix.O_RDONLY {
		err = unix.EBADF
	}
	if err == nil {
		fd, err = unix.FcntlInt(uintptr(number), unix.F_DUPFD_CLOEXEC, 0)
	}
	return fd, err == nil, err
}

// openStream opens a pipe or a device for writing. A pipe without a reader is
// ENXIO, for otherwise opening it would wait for one.
func openStream(dir int, name string) (*os.File, error) {
	// By two steps, for to open a file that somebody has put in its place since it
	// was looked at would be to write into that.
	at, err := unix.Openat(dir, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(at)
	var stat unix.Stat_t
	if err := unix.Fstat(at, &stat); err != nil {
		return nil, err
	}
	switch stat.Mode & unix.S_IFMT {
	case unix.S_IFIFO, unix.S_IFCHR, unix.S_IFBLK:
	case unix.S_IFSOCK:
		return nil, errSocket
	default:
		return nil, errMoved
	}
	fd, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", at), unix.O_WRONLY|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	if err := unix.SetNonblock(fd, false); err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	return os.NewFile(uintptr(fd), name), nil
}

// shared says whether others than us and root can write in a directory.
func shared(dir *unix.Stat_t) bool {
	switch {
	case dir.Uid != 0 && int(dir.Uid) != os.Geteuid(), dir.Mode&unix.S_IWOTH != 0:
		return true
	}
	return dir.Mode&unix.S_IWGRP != 0 && dir.Gid != 0 && int(dir.Gid) != os.Getegid()
}

const maxLinks = 40 // on the way, as the kernel has it

// A walk goes down a path, a directory at a time, so that nobody can exchange what
// has been checked.
type walk struct {
	dir    int      // a descriptor, for the path only
	parts  []string // still to go, without empty ones and "."
	links  int      // followed
	within bool     // another process's root or folder, whose links mean other places
}

// Locate returns the directory that the last part of path is in, and that part. It
// follows links, but none in a directory where others can write. The caller closes
// the directory.
func Locate(path string) (dir *os.File, name string, err error) {
	fd, name, err := locate(path)
	if err != nil {
		return nil, "", err
	}
	return os.NewFile(uintptr(fd), path), name, nil
}

// locate returns the directory that path's last part is in, open, and that part.
// It follows links, but none in a directory where others can write.
func locate(path string) (dir int, name string, err error) {
	w := &walk{dir: -1}
	defer func() {
		if err != nil && w.dir >= 0 {
			_ = unix.Close(w.dir)
		}
	}()
	if err := w.enter(unix.AT_FDCWD, ".", unix.O_NOFOLLOW); err != nil {
		return -1, "", err
	}
	if err := w.push(path); err != nil {
		return -1, "", err
	}
	for {
		if len(w.parts) == 0 || w.parts[len(w.parts)-1] == ".." {
			return -1, "", unix.EISDIR
		}
		part := w.parts[0]
		linked, err := w.isLink(part)
		switch {
		case err == nil && linked:
			err = w.follow(part)
		case len(w.parts) == 1 && (err == nil || errors.Is(err, unix.ENOENT)):
			return w.dir, part, nil
		case err == nil:
			err = w.enter(w.dir, part, unix.O_NOFOLLOW)
			w.parts = w.parts[1:]
		}
		if err != nil {
			return -1, "", err
		}
	}
}

// push puts the parts of path before those still to go.
func (w *walk) push(path string) error {
	if path == "" {
		return unix.ENOENT
	}
	if path[0] == '/' {
		if err := w.enter(unix.AT_FDCWD, "/", 0); err != nil {
			return err
		}
	}
	var parts []string
	for _, part := range strings.Split(path, "/") {
		if part != "" && part != "." {
			parts = append(parts, part)
		}
	}
	// A path that ends in a slash, or the like, is a directory's.
	if last := path[strings.LastIndexByte(path, '/')+1:]; len(w.parts) == 0 && (last == "" || last == ".") {
		parts = append(parts, "..")
	}
	w.parts = append(parts, w.parts...)
	return nil
}

// enter makes a directory the one that the walk is in.
func (w *walk) enter(at int, name string, flags int) error {
	dir, err := unix.Openat(at, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC|flags, 0)
	if err != nil {
		return err
	}
	if w.dir >= 0 {
		_ = unix.Close(w.dir) // it was for the path only
	}
	w.dir = dir
	return nil
}

func (w *walk) isLink(part string) (bool, error) {
	var stat unix.Stat_t
	err := unix.Fstatat(w.dir, part, &stat, unix.AT_SYMLINK_NOFOLLOW)
	return stat.Mode&unix.S_IFMT == unix.S_IFLNK, err
}

// follow replaces the next part, a link, by what it leads to.
func (w *walk) follow(part string) error {
	if w.links++; w.links > maxLinks {
		return unix.ELOOP
	}
	var system unix.Statfs_t
	var dir unix.Stat_t
	if err := errors.Join(unix.Fstatfs(w.dir, &system), unix.Fstat(w.dir, &dir)); err != nil {
		return err
	}
	w.parts = w.parts[1:]
	if system.Type == unix.PROC_SUPER_MAGIC && len(w.parts) > 0 { // such as /proc/42/root, which only the kernel can follow
		w.within = true
		return w.enter(w.dir, part, 0)
	}
	if w.within || shared(&dir) {
		return errLink
	}
	buffer := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(w.dir, part, buffer)
	if err != nil {
		return err
	}
	return w.push(string(buffer[:n]))
}
