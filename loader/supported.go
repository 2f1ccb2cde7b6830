package loader

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/features"
	"golang.org/x/sys/unix"
)

// newest are helpers of the programs that no kernel before Linux 5.15 has. Kernels of
// distributions may have them and say that they are older.
var newest = []asm.BuiltinFunc{asm.FnGetAttachCookie, asm.FnTaskPtRegs}

// Supported returns an error if the kernel lacks what all programs need. What this process
// may not find out is no error: to load a program says then why.
func Supported() error {
	for _, helper := range newest {
		if lacks(helper) {
			return fmt.Errorf("the kernel, %s, lacks %v (%s)", release(), helper, newer)
		}
	}
	if _, err := os.Stat("/sys/kernel/btf/vmlinux"); err != nil { // the library looks for files of the distribution, too
		if _, err := btf.LoadKernelSpec(); err != nil {
			return fmt.Errorf("%w (the kernel has no BTF: it needs CONFIG_DEBUG_INFO_BTF; --check shows what works)", err)
		}
	}
	return Unlocked()
}

// Unlocked returns an error if the kernel is locked down so far that programs cannot read what
// it knows of a thread: kernel_lockdown(7).
func Unlocked() error {
	if lacks(asm.FnProbeReadKernel) {
		return errors.New("the kernel is locked down for confidentiality: programs may not read its memory (boot it with lockdown=integrity or less)")
	}
	return nil
}

// Where a socket has taken what a thread wrote to it, and where a thread has received something from a
// socket (since Linux 6.3).
const (
	SendTracepoint    = "sock_send_length"
	ReceiveTracepoint = "sock_recv_length"
)

// SeesSockets reports whether programs at these see each write and read: the kernel has them, and does
// not preempt threads in programs there.
func SeesSockets() bool {
	return !PreemptsAtTracepoints() && HasTracepoint(SendTracepoint) && HasTracepoint(ReceiveTracepoint)
}

// HasTracepoint reports whether the kernel has a tracepoint of that name, as RawTracepoint takes it.
func HasTracepoint(name string) bool {
	kernel, err := btf.LoadKernelSpec()
	if err != nil {
		return false
	}
	_, err = kernel.AnyTypeByName("btf_trace_" + name)
	return err == nil
}

// lacks reports whether the kernel does not have a helper, or does not let programs call it. Where it
// does not let them call the one that is asked for, the library tries an older one, and then does not
// know newer kernels' words for that (Linux 6.12).
func lacks(helper asm.BuiltinFunc) bool {
	err := features.HaveProgramHelper(ebpf.Kprobe, helper)
	return errors.Is(err, ebpf.ErrNotSupported) || errors.Is(err, unix.EINVAL)
}

// release returns the kernel's.
func release() string {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return ""
	}
	return strings.TrimSpace(unix.ByteSliceToString(name.Release[:]))
}
