package v8

import "golang.org/x/sys/unix"

// readThreadPointer returns the thread pointer of a thread that is traced and stopped.
func readThreadPointer(tid int) (uint64, error) {
	var regs unix.PtraceRegs
	err := unix.PtraceGetRegs(tid, &regs)
	return regs.Fs_base, err
}
