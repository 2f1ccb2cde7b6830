package loader

import (
	"os"
	"slices"
	"strings"

	"github.com/cilium/ebpf/features"
	"golang.org/x/sys/unix"
)

// Preempts reports whether the kernel may preempt a thread that runs in the
// kernel. It also does so if that is not known (is debugfs mounted?). A program
// attached to a kernel function (fentry, fexit) does not run for a thread while
// another thread is in the program on the same CPU: where threads are preempted
// there, calls go unseen.
func Preempts() bool {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return true
	}
	modes, _ := os.ReadFile("/sys/kernel/debug/sched/preempt") // "none (voluntary) full", since 5.12
	return preempts(unix.ByteSliceToString(name.Version[:]), string(modes))
}

// PreemptsAtTracepoints is Preempts for programs at tracepoints, where older kernels do not preempt
// (6.18 does not, 7.2 does).
func PreemptsAtTracepoints() bool {
	version, err := features.LinuxVersionCode()
	return err == nil && version >= 6<<16|19<<8 && Preempts()
}

// preempts is Preempts for a kernel of that version (uname -v). If the kernel
// has a choice of preemption modes, the current one is in brackets in modes.
func preempts(version, modes string) bool {
	if slices.Contains(strings.Fields(version), "PREEMPT_DYNAMIC") {
		return !strings.Contains(modes, "(none)") && !strings.Contains(modes, "(voluntary)")
	}
	return strings.Contains(version, "PREEMPT")
}
