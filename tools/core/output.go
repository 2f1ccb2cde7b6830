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
)

const (
	partial    = ".partial" // ends the path until the core is whole
	compressed = ".zst"     // ends the path of a core that is compressed
)

// An output is the file that a core is written to, from its start to its end.
// Holes cost it nothing.
type output struct {
	path string
	file *os.File
	at   uint64        // how far the core is written
	zstd *zstd.Encoder // nil if it is not compressed
}

// create opens path's partial file for a core of the process pid, readable by
// the process's owner alone.
func create(path string, pid int) (out *output, err error) {
	if _, err := os.Lstat(path); err == nil {
		return nil, fmt.Errorf("write core %s: %w (remove it, or give another name)", path, fs.ErrExist)
	}
	file, err := os.OpenFile(path+partial, os.O_RDWR|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("write core: %w (is another being written? if not, remove it)", err)
	}
	if err != nil {
		return nil, fmt.Errorf("write core: %w", err)
	}
	o := &output{path: path, file: file}
	defer func() {
		if err != nil {
			err = errors.Join(err, o.discard())
		}
	}()
	if err := o.give(pid); err != nil {
		return nil, fmt.Errorf("write core %s: %w", path, err)
	}
	if strings.HasSuffix(path, compressed) {
		o.zstd, err = zstd.NewWriter(file, zstd.WithEncoderLevel(zstd.SpeedFastest))
		if err != nil {
			return nil, fmt.Errorf("write core %s: %w", path, err)
		}
	}
	return o, nil
}

// give makes the file the process's owner's. That is root for a process that
// has secrets from its user, such as a set-user-ID program.
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

// room returns an error if the file system has none for size bytes more.
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

// put writes b at offset, which is not below the end of what was put before.
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

// zeros reads as zeros without end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// commit ends the file at size and gives it its name. It returns how many bytes
// the file takes on disk.
func (o *output) commit(size uint64) (disk int64, err error) {
	if o.zstd == nil {
		err = o.file.Truncate(int64(size))
	} else {
		err = errors.Join(o.pad(size), o.zstd.Close())
		o.zstd = nil
	}
	var stat unix.Stat_t
	err = errors.Join(err, unix.Fstat(int(o.file.Fd()), &stat), o.file.Close())
	if err == nil {
		err = rename(o.path+partial, o.path)
	}
	if err != nil {
		return 0, fmt.Errorf("write core %s: %w", o.path, err)
	}
	const block = 512
	return stat.Blocks * block, nil
}

// rename gives a file a name that no other has.
func rename(from, to string) error {
	err := unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) { // not every file system knows the flag
		if err = os.Link(from, to); err == nil {
			err = os.Remove(from)
		}
	}
	return err
}

// discard removes what was written, unless it was committed.
func (o *output) discard() error {
	if o.zstd != nil {
		_ = o.zstd.Close() // what it says is of the same file
	}
	err := o.file.Close()
	if errors.Is(err, fs.ErrClosed) {
		err = nil
	}
	return errors.Join(err, os.Remove(o.path+partial))
}
