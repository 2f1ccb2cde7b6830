package core

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"ustack/symbolize/process"
)

const (
	maxVDSO       = 1 << 16 // bytes of the code that the kernel maps into every process; it has some 8 KB
	maxRetries    = 1 << 6  // of a call that a stop cut short
	sysinfoHeader = 33      // AT_SYSINFO_EHDR: the entry of the auxiliary vector that has the vdso's address
	userCode      = 0x33    // the code segment of a 64 bit program
	noCall        = ^uint64(0)

	// What the kernel tells a tracer of a call that will be made anew, by the
	// names in linux/errno.h.
	restartSys   = unix.Errno(512)
	restartBlock = unix.Errno(516)
)

// A borrowed thread makes system calls for us, in its process. It was stopped
// before and is again when it was given back, as if nothing had been.
type borrowed struct {
	tracer  *tracer
	tid     int
	options int    // of ptrace
	site    uint64 // of a syscall instruction
	saved   unix.PtraceRegs
	mask    uint64
	cloned  int // the process that the last call made, as we count
}

// borrow makes the stopped thread tid of target ready for calls. Until it is
// given back it takes no signal but SIGKILL and SIGSTOP: one that came between
// two calls would see registers that are not the thread's own. The calls are
// exempt from the process's seccomp filters, which might kill it.
//
// Calls are made step by step with PTRACE_SYSCALL, which unlike PTRACE_SINGLESTEP
// sends no SIGTRAP: the kernel would undo what the process had set for that.
func borrow(tracer *tracer, tid int, target *process.Process) (*borrowed, error) {
	b := &borrowed{tracer: tracer, tid: tid, options: unix.PTRACE_O_TRACESYSGOOD}
	if err := unix.PtraceGetRegs(tid, &b.saved); err != nil {
		return nil, err
	}
	if b.saved.Cs != userCode {
		return nil, errors.New("it is no 64 bit program")
	}
	var err error
	if b.mask, err = readMask(tid); err != nil {
		return nil, err
	}
	if b.site, err = findSyscall(target); err != nil {
		return nil, err
	}
	status, err := readStatus(target.PID(), tid)
	if err != nil {
		return nil, unix.ESRCH
	}
	if filters := status["Seccomp"]; filters != "" && filters != "0" {
		b.options |= unix.PTRACE_O_SUSPEND_SECCOMP
	}
	err = unix.PtraceSetOptions(tid, b.options|unix.PTRACE_O_TRACECLONE)
	if err != nil && b.options&unix.PTRACE_O_SUSPEND_SECCOMP != 0 {
		return nil, fmt.Errorf("suspend its seccomp filter: %w (needs CAP_SYS_ADMIN)", err)
	}
	if err != nil {
		return nil, err
	}
	return b, setMask(tid, ^uint64(0))
}

// adopt waits until the process that the last call made stands still, before its
// first instruction, and has it die with us. It is never given back.
func (b *borrowed) adopt() (*borrowed, error) {
	child := *b
	child.tid, child.cloned = b.cloned, 0
	if _, err := b.tracer.awaitStop(child.tid, time.Time{}); err != nil {
		return nil, err
	}
	return &child, unix.PtraceSetOptions(child.tid, child.options|unix.PTRACE_O_EXITKILL)
}

// call makes a system call. The error is the call's own, or ECHILD or ESRCH if
// the thread was killed. It waits as long as the call takes: only then has the
// thread its own registers back.
func (b *borrowed) call(number uint64, args ...uint64) (int, error) {
	var all [6]uint64
	copy(all[:], args)
	for range maxRetries {
		regs := b.saved
		regs.Rip, regs.Rax, regs.Orig_rax = b.site, number, noCall
		regs.Rdi, regs.Rsi, regs.Rdx, regs.R10, regs.R8, regs.R9 = all[0], all[1], all[2], all[3], all[4], all[5]
		if err := unix.PtraceSetRegs(b.tid, &regs); err != nil {
			return 0, err
		}
		if err := b.step(); err != nil { // into the call
			return 0, err
		}
		if err := b.step(); err != nil { // out of it
			return 0, err
		}
		if err := unix.PtraceGetRegs(b.tid, &regs); err != nil {
			return 0, err
		}
		result := int64(regs.Rax)
		if result >= 0 || result < -4095 {
			return int(result), nil
		}
		if errno := unix.Errno(-result); errno < restartSys || errno > restartBlock {
			return 0, errno
		}
	}
	return 0, unix.EINTR
}

// step lets the thread run until it enters or leaves a system call. Should it be
// told to stop by a signal meanwhile, it is, but does what we ask all the same.
func (b *borrowed) step() error {
	signal := unix.Signal(0)
	for {
		if err := ptrace(unix.PTRACE_SYSCALL, b.tid, 0, uintptr(signal)); err != nil {
			return err
		}
		s, err := b.tracer.await(b.tid, time.Time{})
		if err != nil {
			return err
		}
		signal = 0
		switch {
		case s.event == unix.PTRACE_EVENT_CLONE:
			child, err := unix.PtraceGetEventMsg(b.tid)
			if err != nil {
				return err
			}
			b.cloned = int(child)
		case s.event == 0 && s.signal == unix.SIGTRAP|0x80: // as PTRACE_O_TRACESYSGOOD marks it
			return nil
		case s.event == 0:
			signal = s.signal
		}
	}
}

// giveBack gives the thread its registers and signals back and leaves it stopped
// where it was before. An interrupted system call is made anew from there.
func (b *borrowed) giveBack() error {
	err := errors.Join(
		unix.PtraceSetRegs(b.tid, &b.saved),
		setMask(b.tid, b.mask),
		ptrace(unix.PTRACE_INTERRUPT, b.tid, 0, 0),
		ptrace(unix.PTRACE_CONT, b.tid, 0, 0),
	)
	if err == nil {
		_, err = b.tracer.awaitStop(b.tid, time.Time{})
	}
	return err
}

// findSyscall returns the address of a syscall instruction in the code that the
// kernel maps into the process.
func findSyscall(target *process.Process) (uint64, error) {
	auxv, err := os.ReadFile(fmt.Sprintf("/proc/%d/auxv", target.PID()))
	if err != nil {
		return 0, err
	}
	for pair := range slices.Chunk(auxv, 16) {
		if len(pair) < 16 || binary.LittleEndian.Uint64(pair) != sysinfoHeader {
			continue
		}
		address := binary.LittleEndian.Uint64(pair[8:])
		code := make([]byte, maxVDSO)
		n, _ := target.ReadAt(code, address) // it is shorter
		if at := bytes.Index(code[:n], []byte{0x0f, 0x05}); at >= 0 {
			return address + uint64(at), nil
		}
	}
	return 0, errors.New("find a syscall instruction in its vdso: there is none")
}

// setMask sets which signals a stopped thread blocks.
func setMask(tid int, mask uint64) error {
	return ptraceMemory(unix.PTRACE_SETSIGMASK, tid, unsafe.Sizeof(mask), unsafe.Pointer(&mask))
}
