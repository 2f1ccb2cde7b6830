package stopon

import (
	"fmt"
	"runtime"
	"slices"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"ustack/bpf"
)

// System calls can be seen in two ways. At the tracepoints sys_enter and sys_exit
// all are, and while a program is there, each call of each process takes the
// kernel's slow path. In the function that the kernel calls for a system call
// only that one is, and nobody else pays anything; but some kernels let no
// programs be run in functions, and where threads are preempted there, some calls
// go unseen. The same programs do both, one way at a time.

// maxFunctions is how many functions may be used: for each the kernel checks the
// programs anew and waits until they can be there, or are there no more.
const maxFunctions = 16

// elsewhere names the kernel's functions that are not called as the system call
// is, and has "" for those that would not see all that the tracepoints do
// (arch/x86/entry/syscalls/syscall_64.tbl, include/uapi/asm-generic/unistd.h).
var elsewhere = map[string]string{
	// There are functions of the calls' own names, too: for older programs.
	"stat": "newstat", "fstat": "newfstat", "lstat": "newlstat", "uname": "newuname",
	"sendfile": "sendfile64", "umount2": "umount",
	// They return in a child, too.
	"fork": "", "vfork": "", "clone": "", "clone3": "",
	// Programs in functions that never return are never freed.
	"exit": "", "exit_group": "",
	// There are functions that are other architectures' or programs' only.
	"get_thread_area": "", "set_thread_area": "", "personality": "", "uselib": "",
}

// refusals are errors that filters of system calls (seccomp) give: the function
// for a call that is refused is not reached.
var refusals = []unix.Errno{unix.EPERM, unix.ENOSYS}

// kernelFunctions returns the functions of the kernel in which all system calls
// that are wanted, and no others, can be seen; none if there is need of the
// tracepoints.
func (o *Options) kernelFunctions() []string {
	names := slices.Compact(slices.Sorted(slices.Values(o.Syscalls)))
	refused := slices.ContainsFunc(o.Errnos, func(e unix.Errno) bool { return slices.Contains(refusals, e) })
	if o.Stall > 0 || refused || len(names) > maxFunctions {
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

// runInFunctions puts copies of the needed programs for system calls into spec
// that are run in these functions of the kernel, and they are needed no more.
func runInFunctions(spec *ebpf.CollectionSpec, functions []string, needed map[string]bool) {
	for name, at := range map[string]ebpf.AttachType{
		bpf.StoponProgOnSystemCall:    ebpf.AttachTraceFEntry,
		bpf.StoponProgOnSystemCallEnd: ebpf.AttachTraceFExit,
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

// checkUnseen warns of system calls that no program has seen, should threads have
// been preempted in one after all: it can be changed while the kernel runs.
func (s *session) checkUnseen() error {
	var unseen uint64
	for _, p := range s.inFunctions {
		stats, err := p.Stats()
		if err != nil {
			return fmt.Errorf("read what %v has missed: %w", p, err)
		}
		unseen += stats.RecursionMisses
	}
	if unseen > 0 {
		s.warn(fmt.Errorf("system calls, of any process, that were not looked at: %d", unseen))
	}
	return nil
}
