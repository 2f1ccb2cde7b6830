package core

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// copyPiece is how much one read copies. Between two reads the copier checks
// whether to give up. The pieces are divided among the CPUs.
const copyPiece = 1 << 20

// copyThreads bounds the CPUs used to copy: more would only wait for memory.
const copyThreads = 8

// A copier copies pages out of a stopped process. It reads /proc/PID/mem, which
// unlike process_vm_readv does not pin the pages: since Linux 5.19, pinning a page
// that the process shares copy-on-write with another copies it first, charged to
// the process's cgroup. Pages that cannot be shared are read by process_vm_readv,
// which takes half to two thirds of the time.
type copier struct {
	pid    int
	memory *os.File // /proc/PID/mem: also reads what the process itself may not
	tracer *tracer  // which has stopped the process; nil if nothing has
}

func openCopier(pid int) (*copier, error) {
	memory, err := openProc(pid, "mem")
	if err != nil {
		return nil, err
	}
	return &copier{pid: pid, memory: memory}, nil
}

func (c *copier) Close() error { return c.memory.Close() }

// A piece is memory to copy, and where to.
type piece struct {
	address uint64
	dst     []byte
	pin     bool // the pages may be pinned: no other process can share them
}

// divide returns the pieces that fill dst with the pages of a span.
func divide(dst []byte, s span, pin bool) []piece {
	var all []piece
	for s.size() > 0 {
		n := min(s.size(), copyPiece)
		all = append(all, piece{s.start, dst[:n], pin})
		dst, s.start = dst[n:], s.start+n
	}
	return all
}

// copy copies the pieces, on several CPUs. It returns how many pages could not be read;
// they are zero.
func (c *copier) copy(ctx context.Context, pieces []piece) (unread int, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next, lost atomic.Int64
	var group sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), copyThreads, len(pieces)) {
		group.Go(func() {
			h := startHurry()
			defer h.end()
			for ctx.Err() == nil {
				h.check()
				i := next.Add(1) - 1
				if i >= int64(len(pieces)) {
					return
				}
				n, err := c.copyPiece(pieces[i])
				lost.Add(int64(n))
				if err != nil {
					cancel(err)
				}
			}
		})
	}
	group.Wait()
	return int(lost.Load()), context.Cause(ctx)
}

// copyPiece copies a piece and returns how many pages could not be read.
func (c *copier) copyPiece(p piece) (unread int, err error) {
	if p.pin {
		n := c.copyPinned(p)
		p.address, p.dst = p.address+uint64(n), p.dst[n:]
	}
	for len(p.dst) > 0 {
		n, err := unix.Pread(int(c.memory.Fd()), p.dst, int64(p.address))
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EIO), errors.Is(err, unix.EFAULT):
			n = int(pageSize() - p.address%pageSize())
			if !c.copyAsTracer(p.dst[:n], p.address) {
				clear(p.dst[:n])
				unread++
			}
		case err != nil:
			return unread, fault(c.pid, fmt.Sprintf("read memory at %#x of", p.address), err)
		case n == 0: // the process's memory is gone
			return unread, fault(c.pid, "read memory of", unix.ESRCH)
		}
		p.address, p.dst = p.address+uint64(n), p.dst[n:]
	}
	return unread, nil
}

// copyAsTracer copies a page, and reports whether it could. Since Linux 6.12, a kernel may let a
// process's tracer alone read what the process itself may not (CONFIG_PROC_MEM_FORCE_PTRACE). No more
// than the page is read at once: the tracer is to resume the process in time.
func (c *copier) copyAsTracer(dst []byte, address uint64) (copied bool) {
	if c.tracer == nil {
		return false
	}
	_ = c.tracer.do(func() error { // what cannot be read is counted
		n, err := unix.Pread(int(c.memory.Fd()), dst, int64(address))
		copied = n == len(dst)
		return err
	})
	return copied
}

// copyPinned copies up to the first page that process_vm_readv cannot read,
// such as one that the process itself may not read, and returns how many bytes
// it copied.
func (c *copier) copyPinned(p piece) int {
	local := []unix.Iovec{{Base: &p.dst[0]}}
	local[0].SetLen(len(p.dst))
	remote := []unix.RemoteIovec{{Base: uintptr(p.address), Len: len(p.dst)}}
	n, err := unix.ProcessVMReadv(c.pid, local, remote, 0)
	if err != nil {
		return 0
	}
	return n &^ int(pageSize()-1)
}
