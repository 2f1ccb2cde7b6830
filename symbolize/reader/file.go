package reader

import (
	"errors"
	"fmt"
	"io"
	"net/rpc"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// blockSize is the number of bytes to read for a short read, and maxBlocks the
// number of such blocks that a File caches: reads of a file's strings are
// scattered.
const (
	blockSize = 64 << 10
	maxBlocks = 64
)

// A File is a file that the helper has open. Its methods may be called concurrently.
type File struct {
	reader *Reader
	name   string
	id     int // its descriptor in the helper; that of direct if direct is set
	device uint64
	owner  int // a user's number
	mode   os.FileMode
	direct *os.File // the file itself, if it is local

	mutex  sync.Mutex
	failed bool             // it did not answer and is not read again
	blocks map[int64][]byte // by offset; the last may be short
	order  []int64          // offsets of blocks, oldest first
}

// openDirect opens the file itself. If that fails, the helper still has it.
func (f *File) openDirect() {
	direct, err := os.Open(f.Path())
	if err != nil {
		return
	}
	f.closeHelpers()
	f.direct, f.id = direct, int(direct.Fd())
}

// ReadAt reads from offset. Short reads may be served from the cache.
func (f *File) ReadAt(p []byte, offset int64) (int, error) {
	if f.direct != nil {
		return f.direct.ReadAt(p, offset)
	}
	done := 0
	for done < len(p) {
		at := offset + int64(done)
		if at < 0 {
			return done, fmt.Errorf("read %s at %d: no such offset", f.name, at)
		}
		n, err := f.readSome(p[done:], at)
		done += n
		if err != nil {
			return done, err
		}
	}
	return done, nil
}

// readSome reads at least one byte, or fails. Reads longer than a block, such as
// a symbol table, are not cached.
func (f *File) readSome(p []byte, at int64) (int, error) {
	if len(p) > blockSize {
		return f.ReadNew(p, at)
	}
	block, err := f.block(at &^ (blockSize - 1))
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", f.name, err)
	}
	within := int(at & (blockSize - 1))
	if within >= len(block) {
		return 0, io.EOF
	}
	return copy(p, block[within:]), nil
}

// block returns the block at an offset; it is shorter if the file ends in it.
func (f *File) block(at int64) ([]byte, error) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if block, ok := f.blocks[at]; ok {
		return block, nil
	}
	block, err := f.read(at, blockSize)
	if err != nil {
		return nil, err
	}
	if f.blocks == nil {
		f.blocks = make(map[int64][]byte)
	}
	if len(f.order) == maxBlocks {
		delete(f.blocks, f.order[0])
		f.order = f.order[1:]
	}
	f.blocks[at] = block
	f.order = append(f.order, at)
	return block, nil
}

// ReadNew is ReadAt without the cache, for a file that may have been written to
// meanwhile.
func (f *File) ReadNew(p []byte, offset int64) (int, error) {
	if f.direct != nil {
		return f.direct.ReadAt(p, offset)
	}
	f.mutex.Lock()
	defer f.mutex.Unlock()
	data, err := f.read(offset, min(len(p), maxRead))
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", f.name, err)
	}
	n := copy(p, data)
	if n == 0 && len(p) > 0 {
		return 0, io.EOF
	}
	return n, nil
}

func (f *File) read(at int64, length int) ([]byte, error) {
	if f.failed {
		return nil, ErrUnresponsive
	}
	var part Part
	err := f.reader.call("Files.Read", Range{ID: f.id, Offset: at, Length: length}, &part, f.device, nil)
	if err != nil {
		f.failed = errors.Is(err, ErrUnresponsive)
		return nil, err
	}
	return part.Data, part.error()
}

// Size returns the current length of the file.
func (f *File) Size() (int64, error) {
	if f.direct != nil {
		info, err := f.direct.Stat()
		if err != nil {
			return 0, err
		}
		return info.Size(), nil
	}
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if f.failed {
		return 0, ErrUnresponsive
	}
	var size Size
	if err := f.reader.call("Files.Size", f.id, &size, f.device, nil); err != nil {
		f.failed = errors.Is(err, ErrUnresponsive)
		return 0, err
	}
	return size.Bytes, size.error()
}

// ReadableBy reports whether a user, by number, may read the file, so far as its owner and
// its mode say when it is opened: as the owner, or as anybody.
func (f *File) ReadableBy(user int) bool {
	const byOwner, byAll = 0o400, 0o004
	if f.owner == user {
		return f.mode&byOwner != 0
	}
	return f.mode&byAll != 0
}

// Alive returns an error if the file's server does not answer now, even if the
// kernel still caches earlier reads.
func (f *File) Alive() error {
	if f.direct != nil {
		return nil
	}
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if f.failed {
		return ErrUnresponsive
	}
	var reply Outcome
	if err := f.reader.call("Files.Reopen", f.id, &reply, f.device, nil); err != nil {
		f.failed = errors.Is(err, ErrUnresponsive)
		return err
	}
	return reply.error()
}

// Path is a path by which the kernel finds the file until it is closed, without
// contacting its file system.
func (f *File) Path() string {
	pid := f.reader.pid
	if f.direct != nil {
		pid = os.Getpid()
	}
	return fmt.Sprintf("/proc/%d/fd/%d", pid, f.id)
}

// Identity returns the file's device, as unix.Mkdev makes it, and inode. It is not known of a file whose
// file system may not answer.
func (f *File) Identity() (device, inode uint64, ok bool) {
	var stat unix.Stat_t
	if f.direct == nil || unix.Fstat(f.id, &stat) != nil {
		return 0, 0, false
	}
	return stat.Dev, stat.Ino, true
}

// Close closes the file, or has the helper close it. It does not wait for the
// helper, which may hang forever.
func (f *File) Close() error {
	switch {
	case f == nil:
		return nil
	case f.direct != nil:
		return f.direct.Close()
	}
	f.closeHelpers()
	return nil
}

func (f *File) closeHelpers() {
	f.reader.client.Go("Files.Close", f.id, new(struct{}), make(chan *rpc.Call, 1))
}
