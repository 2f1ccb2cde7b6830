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

// descriptor returns a duplicate of the descriptor that path refers to, if it
// refers to one of this process: opening it by name would truncate an existing
// file, and fail on some pipes.
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

// openStream opens a pipe or a device for writing. It returns ENXIO for a pipe
// without a reader, because opening it would otherwise wait for one.
func openStream(dir int, name string) (*os.File, error) {
	// In two steps: opening by name would write into any file that somebody has
	// put in its place since it was checked.
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

// shared reports whether anybody but this user and root can write in a
// directory.
func shared(dir *unix.Stat_t) bool {
	switch {
	case dir.Uid != 0 && int(dir.Uid) != os.Geteuid(), dir.Mode&unix.S_IWOTH != 0:
		return true
	}
	return dir.Mode&unix.S_IWGRP != 0 && dir.Gid != 0 && int(dir.Gid) != os.Getegid()
}

const maxLinks = 40 // to follow, as in the kernel

// A walk follows a path, a directory at a time, so that nobody can replace what
// has been checked.
type walk struct {
	dir    int      // a descriptor, opened with O_PATH
	parts  []string // still to follow, without empty ones and "."
	links  int      // followed so far
	within bool     // inside another process's root or working directory, where links mean other places
}

// Locate returns the directory that contains the last element of path, and that
// element. It follows links, but none in a directory where others can write.
// The caller closes the directory.
func Locate(path string) (dir *os.File, name string, err error) {
	fd, name, err := locate(path)
	if err != nil {
		return nil, "", err
	}
	return os.NewFile(uintptr(fd), path), name, nil
}

// locate returns the open directory that contains the last element of path, and
// that element. It follows links, but none in a directory where others can
// write.
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

// push inserts the elements of path before those still to follow.
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
	// A path that ends in a slash or "." names a directory.
	if last := path[strings.LastIndexByte(path, '/')+1:]; len(w.parts) == 0 && (last == "" || last == ".") {
		parts = append(parts, "..")
	}
	w.parts = append(parts, w.parts...)
	return nil
}

// enter makes a directory the current one of the walk.
func (w *walk) enter(at int, name string, flags int) error {
	dir, err := unix.Openat(at, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC|flags, 0)
	if err != nil {
		return err
	}
	if w.dir >= 0 {
		_ = unix.Close(w.dir) // was opened with O_PATH
	}
	w.dir = dir
	return nil
}

func (w *walk) isLink(part string) (bool, error) {
	var stat unix.Stat_t
	err := unix.Fstatat(w.dir, part, &stat, unix.AT_SYMLINK_NOFOLLOW)
	return stat.Mode&unix.S_IFMT == unix.S_IFLNK, err
}

// follow replaces the next element, a link, by its target.
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
