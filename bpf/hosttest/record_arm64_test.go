package hosttest

import "golang.org/x/sys/unix"

func framePointer(r *unix.PtraceRegs) uint64 { return r.Regs[29] }
