package event

import (
	"runtime"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"

	"ustack/bpf"
)

// System calls can be seen in two ways. The tracepoints sys_enter and sys_exit
// see all of them, but while a program is attached, each call of every process
// takes the kernel's slow path. The kernel function that implements a system
// call sees only that one, and no other call pays anything; but some kernels do
// not allow programs to be attached to functions, and where threads are
// preempted in a function, some calls go unseen. The same programs do both, one
// way at a time.

// maxFunctions is how many functions may be used: for each, the kernel verifies
// the programs again and waits until they are attached or detached.
const maxFunctions = 16

// elsewhere maps system calls to the kernel functions that implement them under
// another name, or to "" if no function would see all that the tracepoints do
// (arch/x86/entry/syscalls/syscall_64.tbl, include/uapi/asm-generic/unistd.h).
var elsewhere = map[string]string{
	// Functions with the calls' own names exist, too: for older programs.
	"stat": "newstat", "fstat": "newfstat", "lstat": "newlstat", "uname": "newuname",
	"sendfile": "sendfile64", "umount2": "umount",
	// These return in a child, too.
	"fork": "", "vfork": "", "clone": "", "clone3": "",
	// Programs attached to functions that never return are never freed.
	"exit": "", "exit_group": "",
	// Functions of these names exist that serve only other architectures or
	// programs.
	"get_thread_area": "", "set_thread_area": "", "personality": "", "uselib": "",
}

// refusals are errors that system call filters (seccomp) return: a refused call
// never reaches its function.
var refusals = []unix.Errno{unix.EPERM, unix.ENOSYS}

// KernelFunctions returns the kernel functions in which these system calls, and no others, can be
// seen, also when they return one of the errors; none if the tracepoints are needed. Where threads
// may be preempted, use the tracepoints too (loader.Preempts).
func KernelFunctions(names []string, errnos []unix.Errno) []string {
	names = slices.Compact(slices.Sorted(slices.Values(names)))
	refused := slices.ContainsFunc(errnos, func(e unix.Errno) bool { return slices.Contains(refusals, e) })
	if refused || len(names) > maxFunctions {
		return nil
	}
	prefix := map[string]string{"amd64": "__x64_sys_", "arm64": "__arm64_sys_"}[runtime.GOARCH]
	var functions []string
	for _, name := range names {
		if other, ok := elsewhere[name]; ok {
			name = other
		}
		if name == "" {
			return nil
		}
		functions = append(functions, prefix+name)
	}
	return functions
}

// The programs that see system calls, in every tool that has them.
const (
	onSystemCall    = bpf.StoponProgOnSystemCall
	onSystemCallEnd = bpf.StoponProgOnSystemCallEnd
)

// RunInFunctions adds to spec copies of the needed system call programs that run in these kernel
// functions, and removes the originals from needed. trace.Session.Others has the copies.
func RunInFunctions(spec *ebpf.CollectionSpec, functions []string, needed map[string]bool) {
	for name, at := range map[string]ebpf.AttachType{
		onSystemCall:    ebpf.AttachTraceFEntry,
		onSystemCallEnd: ebpf.AttachTraceFExit,
	} {
		if !needed[name] {
			continue
		}
		needed[name] = false
		for _, function := range functions {
			p := spec.Programs[name].Copy()
			p.AttachType, p.AttachTo = at, function
			spec.Programs[name+" "+function] = p
		}
	}
}

// Prune empties the programs that are not needed, so that they load at once: the kernel takes a
// tenth of a second to verify one.
func Prune(spec *ebpf.CollectionSpec, needed map[string]bool) {
	for name, is := range needed {
		if !is {
			spec.Programs[name].Instructions = asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()}
		}
	}
}
