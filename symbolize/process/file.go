package process

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// OpenFile opens for reading the file that m maps, even if it was removed or
// exists only in the process's mount namespace. If the kernel does not open it
// through the mapping (that needs CAP_CHECKPOINT_RESTORE or CAP_SYS_ADMIN),
// OpenFile opens it by its path below the process's root, or below our own root
// once the process has ended, provided it is still the same file; a file in
// memory (memfd_create), by a descriptor that the process has of it. Otherwise it
// fails, with ErrGone if the process has ended.
func (p *Process) OpenFile(m Mapping) (*os.File, error) {
	if !m.File() {
		return nil, fmt.Errorf("open mapping %#x of process %d: no file is behind it", m.Start, p.pid)
	}
	f, err := p.openMapped(m)
	if err == nil {
		return f, nil
	}
	open := p.openPath
	if strings.HasPrefix(m.Path, inMemory) {
		open = p.openDescriptor
	}
	f, pathErr := open(m)
	switch {
	case pathErr == nil:
		return f, nil
	case errors.Is(err, unix.ESRCH) || errors.Is(pathErr, ErrGone) || !p.Alive():
		return nil, p.fault("open", unix.ESRCH)
	}
	return nil, p.fault("open "+m.Path+" of", errors.Join(pathErr, fmt.Errorf("by its mapping: %w", err)))
}

// openMapped opens m's file through the mapping.
func (p *Process) openMapped(m Mapping) (*os.File, error) {
	fd, err := unix.Openat(p.dir, fmt.Sprintf("map_files/%x-%x", m.Start, m.End), unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return openSame(fd, m)
}

// openPath opens m's file by its path. An exiting process releases its root
// before it is seen to have ended; then the file may be below our root.
func (p *Process) openPath(m Mapping) (*os.File, error) {
	root, err := p.open("root", unix.O_PATH|unix.O_DIRECTORY)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ESRCH) {
		err = p.fault("open", unix.ESRCH)
		if own, ownErr := os.OpenFile("/", unix.O_PATH|unix.O_DIRECTORY, 0); ownErr == nil {
			defer own.Close()
			if f, ownErr := openBelow(own, m); ownErr == nil {
				return f, nil
			}
		}
	}
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return openBelow(root, m)
}

// OpenBelow opens the regular file at path below the folder root. Symbolic links,
// which a process may have made, cannot lead out of root.
func OpenBelow(root, path string) (*os.File, error) {
	folder, err := os.OpenFile(root, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	defer folder.Close()
	fd, err := findBelow(folder, path)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	f, _, err := openRegular(fd, path)
	return f, err
}

// OpenFolderBelow opens the folder at path below the folder root, as OpenBelow does.
func OpenFolderBelow(root, path string) (*os.File, error) {
	folder, err := os.OpenFile(root, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	defer folder.Close()
	fd, err := unix.Openat2(int(folder.Fd()), path, &unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS,
	})
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

// inMemory begins the kernel's name for a file in memory, which is in no folder.
const inMemory = "/memfd:"

// maxDescriptors bounds the descriptors that openDescriptor checks.
const maxDescriptors = 1 << 14

// openDescriptor opens m's file, which is in memory, by a descriptor that the process has of it.
func (p *Process) openDescriptor(m Mapping) (*os.File, error) {
	folder, err := p.open("fd", unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	defer folder.Close()
	names, err := folder.Readdirnames(maxDescriptors)
	if err != nil {
		return nil, err
	}
	buffer := make([]byte, unix.PathMax)
	for _, name := range names {
		n, err := unix.Readlinkat(int(folder.Fd()), name, buffer)
		if err != nil || strings.TrimSuffix(string(buffer[:n]), deleted) != m.Path {
			continue
		}
		fd, err := unix.Openat(int(folder.Fd()), name, unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			continue
		}
		if f, err := openSame(fd, m); err == nil {
			return f, nil
		}
	}
	return nil, errors.New("the process has no descriptor of it")
}

// openBelow opens m's file by its path below root.
func openBelow(root *os.File, m Mapping) (*os.File, error) {
	fd, err := findBelow(root, m.Path)
	if err != nil {
		return nil, err
	}
	return openSame(fd, m)
}

// findBelow returns an O_PATH descriptor of the file at path below root.
func findBelow(root *os.File, path string) (fd int, err error) {
	return unix.Openat2(int(root.Fd()), path, &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS,
	})
}

// openRegular turns the O_PATH descriptor fd into a file for reading. It opens
// only regular files: opening a device may have side effects.
func openRegular(fd int, path string) (*os.File, unix.Stat_t, error) {
	defer unix.Close(fd)
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return nil, stat, err
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, stat, errors.New("not a regular file")
	}
	opened, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", fd), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, stat, err
	}
	return os.NewFile(uintptr(opened), path), stat, nil
}

// openSame is openRegular for a file that must be the one m maps.
func openSame(fd int, m Mapping) (*os.File, error) {
	f, stat, err := openRegular(fd, m.Path)
	if err != nil {
		return nil, err
	}
	if stat.Dev == m.Dev && stat.Ino == m.Inode {
		return f, nil
	}
	dev, inode, err := shown(int(f.Fd()))
	if err == nil && (dev != m.Dev || inode != m.Inode) {
		err = errors.New("another file is there now")
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// shown returns the device and inode that a list of mappings shows for the file
// fd. On overlayfs and btrfs they differ from those of stat, so shown maps the
// file and reads our own list.
func shown(fd int) (dev, inode uint64, err error) {
	page, err := unix.Mmap(fd, 0, os.Getpagesize(), unix.PROT_READ, unix.MAP_PRIVATE)
	if err != nil {
		return 0, 0, fmt.Errorf("map it: %w", err)
	}
	defer unix.Munmap(page)
	text, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return 0, 0, err
	}
	own, err := parseMaps(text)
	if err != nil {
		return 0, 0, err
	}
	at := uint64(uintptr(unsafe.Pointer(&page[0])))
	for _, m := range own {
		if at >= m.Start && at < m.End {
			return m.Dev, m.Inode, nil
		}
	}
	return 0, 0, errors.New("map it: our own list does not have it")
}
