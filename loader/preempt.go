package loader

import (
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Preempts reports whether the kernel may take the CPU from a thread that is in
// the kernel, also if that is not known (is debugfs mounted?). A program at a
// function of the kernel (fentry, fexit) is not run for a thread while another one
// is in it on the same CPU: where threads are preempted there, calls go unseen.
func Preempts() bool {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return true
	}
	modes, _ := os.ReadFile("/sys/kernel/debug/sched/preempt") // "none (voluntary) full", since 5.12
	return preempts(unix.ByteSliceToString(name.Version[:]), string(modes))
}

// preempts reports so of a kernel of that version (uname -v), with the one in
// brackets of these modes if it has a choice of them.
func preempts(version, modes string) bool {
	if slices.Contains(strings.Fields(version), "PREEMPT_DYNAMIC") {
		return !strings.Contains(modes, "(none)") && !strings.Contains(modes, "(voluntary)")
	}
	return strings.Contains(version, "PREEMPT")
}
