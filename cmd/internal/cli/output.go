package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

const outputBuffer = 1 << 16 // bytes

// WriteFile makes the file path of what write writes: whole, or not at all.
// Until it is whole it has a name of its own, which ends in ".partial"; a file
// that was there stays as it was when anything fails, and keeps its mode. What
// is no regular file, such as a pipe or a terminal, is written to directly.
func WriteFile(path string, write func(io.Writer) error) error {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real // the link stays one
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return replace(path, nil, write)
	case err != nil:
		return explain(path, err)
	case info.IsDir():
		return fmt.Errorf("write %s: it is a folder", path)
	case !info.Mode().IsRegular():
		return overwrite(path, write)
	}
	return replace(path, info, write)
}

// replace makes a new file and puts it in the place of the old one, if any.
func replace(path string, old fs.FileInfo, write func(io.Writer) error) (err error) {
	name := fmt.Sprintf("%s.%d.partial", path, os.Getpid())
	partial, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return explain(path, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(explain(path, err), os.Remove(name))
		}
	}()
	err = fill(partial, write)
	if err == nil && old != nil {
		err = partial.Chmod(old.Mode().Perm())
	}
	if err == nil {
		err = partial.Sync() // some file systems find only now that there is no room
	}
	if err := errors.Join(err, partial.Close()); err != nil {
		return err
	}
	return os.Rename(name, path)
}

func overwrite(path string, write func(io.Writer) error) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return explain(path, err)
	}
	if err := errors.Join(fill(f, write), f.Close()); err != nil {
		return explain(path, err)
	}
	return nil
}

func fill(w io.Writer, write func(io.Writer) error) error {
	buffered := bufio.NewWriterSize(w, outputBuffer)
	if err := write(buffered); err != nil {
		return err
	}
	return buffered.Flush()
}

// explain names the file that was asked for, not the one that stands in for it.
func explain(path string, err error) error {
	var inner *fs.PathError
	if errors.As(err, &inner) {
		err = inner.Err
	}
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		return fmt.Errorf("write %s: %w (nothing was written; free space or name another place)", path, err)
	}
	return fmt.Errorf("write %s: %w", path, err)
}
