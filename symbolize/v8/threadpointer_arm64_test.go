package v8

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// readThreadPointer returns the thread pointer of a thread that is traced and stopped.
func readThreadPointer(tid int) (pointer uint64, err error) {
	const registers = 0x401 // NT_ARM_TLS
	to := unix.Iovec{Base: (*byte)(unsafe.Pointer(&pointer)), Len: 8}
	_, _, errno := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_GETREGSET, uintptr(tid), registers, uintptr(unsafe.Pointer(&to)), 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return pointer, nil
}
