package process

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// ReadAt fills b with the process's memory at address. The count is below len(b)
// only with an error, which says where the memory ended. The process keeps
// running, so the bytes are not a consistent snapshot. After an exec they are the
// new program's.
func (p *Process) ReadAt(b []byte, address uint64) (int, error) {
	done := 0
	var err error
	for done < len(b) && err == nil {
		var n int
		n, err = p.readSome(b[done:], address+uint64(done))
		done += n
	}
	// The memory was selected by PID only; it was the process's if it still has
	// that PID.
	if !p.exists() {
		done, err = 0, unix.ESRCH
	}
	if errors.Is(err, unix.EFAULT) {
		return done, fmt.Errorf("read %d bytes of process %d: nothing to read at %#x", len(b), p.pid, address+uint64(done))
	}
	if err != nil {
		return done, p.fault(fmt.Sprintf("read %d bytes at %#x of", len(b), address), err)
	}
	return done, nil
}

// readSome reads up to the first page that cannot be read. It reads at least one
// byte or returns an error.
func (p *Process) readSome(b []byte, address uint64) (int, error) {
	local := []unix.Iovec{{Base: &b[0]}}
	local[0].SetLen(len(b))
	remote := []unix.RemoteIovec{{Base: uintptr(address), Len: len(b)}}
	n, err := unix.ProcessVMReadv(p.pid, local, remote, 0)
	if err == nil && n == 0 {
		err = unix.EFAULT
	}
	return max(n, 0), err
}
