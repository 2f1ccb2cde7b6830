package core

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"

	"ustack/tools/outfile"
)

const (
	partial    = ".partial" // ends the name until the core is complete, where unnamed files are not supported
	compressed = ".zst"     // ends the path of a compressed core
	mode       = 0o600
)

// An output is the file that a core is written to, from start to end. Its holes
// take no space. The file has no name until the core is complete, so that
// nothing is left of it if this process dies. On file systems without unnamed
// files (no O_TMPFILE) it is named path and ".partial" until then.
type output struct {
	path   string   // for messages
	folder *os.File // directory in which the file gets its name; nil if it gets none
	name   string
	file   *os.File
	named  bool          // as the partial file
	at     uint64        // how far the core is written
	zstd   *zstd.Encoder // nil if it is not compressed
}

// create opens a file for a core of the process pid; commit names it path. Only
// the process's owner can read it.
func create(path string, pid int) (*output, error) {
	folder, name, err := outfile.Locate(path)
	if err != nil {
		return nil, fmt.Errorf("write core %s: %w", path, err)
	}
	o := &output{path: path, folder: folder, name: name}
	err = o.open(pid)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("write core %s: %w", path, err), o.discard())
	}
	return o, nil
}

// open creates the file.
func (o *output) open(pid int) error {
	var there unix.Stat_t
	err := unix.Fstatat(o.in(), o.name, &there, unix.AT_SYMLINK_NOFOLLOW)
	switch {
	case err == nil && there.Mode&unix.S_IFMT != unix.S_IFREG:
		return fmt.Errorf("%w, and is no regular file (give another name)", fs.ErrExist)
	case err == nil:
		return fmt.Errorf("%w (remove it, or give another name)", fs.ErrExist)
	case !errors.Is(err, unix.ENOENT):
		return err
	}
	o.file, err = createWithoutName(o.in(), 0)
	if errors.Is(err, errNoTmpfile) {
		o.file, err = o.createPartial()
	}
	if err != nil {
		return err
	}
	if err := o.give(pid); err != nil {
		return err
	}
	if strings.HasSuffix(o.path, compressed) {
		o.zstd, err = zstd.NewWriter(o.file, zstd.WithEncoderLevel(zstd.SpeedFastest))
	}
	return err
}

// createTemporary opens a file that never has a name, in the directory for
// temporary files.
func createTemporary() (*output, error) {
	path := os.TempDir()
	folder, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer folder.Close()
	file, err := createWithoutName(int(folder.Fd()), unix.O_EXCL)
	if errors.Is(err, errNoTmpfile) {
		if file, err = os.CreateTemp(path, "core-*"); err == nil {
			err = os.Remove(file.Name())
		}
	}
	if err != nil {
		return nil, fmt.Errorf("create a temporary file in %s: %w", path, err)
	}
	return &output{path: path, file: file}, nil
}

var errNoTmpfile = errors.New("the file system has no files without a name")

// createWithoutName opens a new unnamed file in the directory; with O_EXCL it
// cannot be given a name later.
func createWithoutName(folder, exclusive int) (*os.File, error) {
	fd, err := unix.Openat(folder, ".", unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC|exclusive, mode)
	switch {
	case errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.EISDIR), errors.Is(err, unix.EINVAL):
		return nil, errNoTmpfile
	case err != nil:
		return nil, err
	}
	return os.NewFile(uintptr(fd), "core"), nil
}

// createPartial opens the file under a name that marks it as incomplete.
func (o *output) createPartial() (*os.File, error) {
	const flags = unix.O_RDWR | unix.O_CREAT | unix.O_EXCL | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := unix.Openat(o.in(), o.name+partial, flags, mode)
	if errors.Is(err, unix.EEXIST) {
		return nil, fmt.Errorf("%s%s: %w (is another being written? if not, remove it)", o.path, partial, err)
	}
	if err != nil {
		return nil, err
	}
	o.named = true
	return os.NewFile(uintptr(fd), "core"), nil
}

func (o *output) in() int { return int(o.folder.Fd()) }

// give makes the process's owner the owner of the file. That is root for a
// process that has secrets from its user, such as a set-user-ID program.
func (o *output) give(pid int) error {
	if os.Geteuid() != 0 {
		return nil
	}
	var of unix.Stat_t
	if err := unix.Stat(fmt.Sprintf("/proc/%d", pid), &of); err != nil {
		return fault(pid, "find the owner of", err)
	}
	return errors.Join(o.file.Chown(int(of.Uid), int(of.Gid)), o.file.Chmod(0o600))
}

// room returns an error if the file system lacks room for size more bytes.
func (o *output) room(size uint64) error {
	var fs unix.Statfs_t
	if err := unix.Fstatfs(int(o.file.Fd()), &fs); err != nil {
		return fmt.Errorf("find the free space for %s: %w", o.path, err)
	}
	free := fs.Bavail * uint64(fs.Bsize)
	if o.zstd == nil && size > free {
		return fmt.Errorf("write core %s: %w: %d MiB needed, %d MiB free (free some, or compress: name it *%s)",
			o.path, unix.ENOSPC, size>>20, free>>20, compressed)
	}
	return nil
}

// put writes b at offset, which is not below the end of what has been written.
func (o *output) put(offset uint64, b []byte) error {
	var err error
	if o.zstd == nil {
		_, err = o.file.WriteAt(b, int64(offset))
	} else {
		err = o.pad(offset)
		if err == nil {
			_, err = o.zstd.Write(b)
		}
	}
	o.at = offset + uint64(len(b))
	if err != nil {
		return fmt.Errorf("write core: %w", err)
	}
	return nil
}

// pad writes zeros up to offset.
func (o *output) pad(offset uint64) error {
	_, err := io.CopyN(o.zstd, zeros{}, int64(offset-o.at))
	o.at = offset
	return err
}

// zeros reads as an endless stream of zeros.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// rewind empties the file, once everything written has reached the disk.
func (o *output) rewind() error {
	var err error
	if o.zstd != nil {
		err = o.zstd.Flush()
	}
	err = errors.Join(err, unix.Fdatasync(int(o.file.Fd())), o.file.Truncate(0))
	if _, seekErr := o.file.Seek(0, io.SeekStart); err == nil {
		err = seekErr
	}
	if o.zstd != nil {
		o.zstd.Reset(o.file)
	}
	o.at = 0
	if err != nil {
		return fmt.Errorf("write core %s: %w", o.path, err)
	}
	return nil
}

// commit ends the file at size and gives it its name, if it is to have one. It
// returns how many bytes the file takes on disk.
func (o *output) commit(size uint64) (disk int64, err error) {
	if o.zstd == nil {
		err = o.file.Truncate(int64(size))
	} else {
		err = errors.Join(o.pad(size), o.zstd.Close())
		o.zstd = nil
	}
	var stat unix.Stat_t
	err = errors.Join(err, unix.Fstat(int(o.file.Fd()), &stat))
	if err == nil && o.folder != nil {
		err = o.link()
	}
	if err != nil {
		return 0, fmt.Errorf("write core %s: %w", o.path, err)
	}
	const block = 512
	return stat.Blocks * block, nil
}

// link gives the file a name that does not exist yet.
func (o *output) link() error {
	if !o.named {
		return unix.Linkat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", o.file.Fd()), o.in(), o.name, unix.AT_SYMLINK_FOLLOW)
	}
	from := o.name + partial
	err := unix.Renameat2(o.in(), from, o.in(), o.name, unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) { // not every file system supports the flag
		if err = unix.Linkat(o.in(), from, o.in(), o.name, 0); err == nil {
			err = unix.Unlinkat(o.in(), from, 0)
		}
	}
	o.named = err != nil
	return err
}

// discard closes the file, and removes it unless it was committed.
func (o *output) discard() error {
	var err error
	if o.zstd != nil {
		_ = o.zstd.Close() // its error is about the file being discarded
	}
	if o.file != nil {
		err = o.file.Close()
	}
	if o.named {
		err = errors.Join(err, unix.Unlinkat(o.in(), o.name+partial, 0))
	}
	if o.folder != nil {
		err = errors.Join(err, o.folder.Close())
	}
	return err
}
