package core

import (
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

const (
	copyRuns  = 512     // spans copied by one call of the kernel, which takes 1024
	copyBytes = 8 << 20 // bytes copied by one call; between two it is seen whether to give up
)

// A copier copies pages out of a process that does not run meanwhile.
type copier struct {
	pid    int
	memory *os.File // /proc/PID/mem: reads also what the process itself may not
}

func openCopier(pid int) (*copier, error) {
	memory, err := openProc(pid, "mem")
	if err != nil {
		return nil, err
	}
	return &copier{pid, memory}, nil
}

func (c *copier) Close() error { return c.memory.Close() }

// copy fills dst with the pages of spans, one after the other, and changes
// spans. It returns how many pages could not be read; they are zero. One CPU is
// enough: two were measured to be no faster.
func (c *copier) copy(ctx context.Context, dst []byte, spans []span) (unread int, err error) {
	for len(dst) > 0 {
		if ctx.Err() != nil {
			return unread, context.Cause(ctx)
		}
		n, err := c.copySome(dst, spans)
		if err != nil {
			return unread, err
		}
		if n == 0 {
			n = int(pageSize())
			read, err := c.copyPage(dst[:n], spans[0].start)
			if err != nil {
				return unread, err
			}
			if !read {
				unread++
			}
		}
		dst, spans = dst[n:], skip(spans, uint64(n))
	}
	return unread, nil
}

// copySome copies up to the first page that cannot be read, and returns the
// number of bytes, in whole pages.
func (c *copier) copySome(dst []byte, spans []span) (int, error) {
	dst = dst[:min(len(dst), copyBytes)]
	remote := make([]unix.RemoteIovec, 0, min(len(spans), copyRuns))
	for left := uint64(len(dst)); left > 0 && len(remote) < cap(remote); {
		s := spans[len(remote)]
		n := min(s.size(), left)
		remote = append(remote, unix.RemoteIovec{Base: uintptr(s.start), Len: int(n)})
		left -= n
	}
	local := []unix.Iovec{{Base: &dst[0]}}
	local[0].SetLen(len(dst))
	n, err := unix.ProcessVMReadv(c.pid, local, remote, 0)
	switch {
	case errors.Is(err, unix.EFAULT):
		return 0, nil
	case err != nil:
		return 0, fault(c.pid, "read memory of", err)
	}
	return n &^ int(pageSize()-1), nil
}

// copyPage copies a page that the process itself may be kept from reading.
func (c *copier) copyPage(dst []byte, address uint64) (bool, error) {
	_, err := c.memory.ReadAt(dst, int64(address))
	if errors.Is(err, unix.EIO) || errors.Is(err, unix.EFAULT) {
		clear(dst)
		return false, nil
	}
	if err != nil {
		return false, fault(c.pid, fmt.Sprintf("read memory at %#x of", address), err)
	}
	return true, nil
}
