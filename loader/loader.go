// Package loader brings BPF programs into the kernel, attaches them and takes
// them out again. It is the one place that knows what the kernel's refusals
// mean and what to do about them.
package loader

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"strconv"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/rlimit"
	"golang.org/x/sys/unix"
)

// Load loads spec into the kernel and assigns its programs and maps to the fields
// of objects, a pointer to a struct that bpf2go generated. It returns the programs
// that have no field, by name; the caller closes both. Until then, misses returns how many events the
// programs did not see, by name, since they came on a CPU that was in the program already. Programs
// whose names begin with NAME_meanwhile see what NAME does not; what none sees is for the tool to count.
func Load(spec *ebpf.CollectionSpec, objects any) (others map[string]*ebpf.Program, misses func() (map[string]uint64, error), err error) {
	// Only kernels before 5.11 charge BPF memory to this limit, so failing to
	// raise it means nothing here: if it matters, loading fails too.
	_ = rlimit.RemoveMemlock()
	if err := setAddressMask(spec); err != nil {
		return nil, nil, err
	}
	loaded, err := ebpf.NewCollection(spec)
	if errors.Is(err, unix.EBADF) {
		// Seen once in thousands of loads by one process: a descriptor that the library had just
		// opened was closed. By whom is not known.
		loaded, err = ebpf.NewCollection(spec)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("load BPF programs: %w", explain(err))
	}
	defer loaded.Close() // what is left in it
	programs := maps.Clone(loaded.Programs)
	if err := loaded.Assign(objects); err != nil {
		return nil, nil, fmt.Errorf("assign BPF programs: %w", err)
	}
	others, loaded.Programs = loaded.Programs, nil
	return others, func() (map[string]uint64, error) { return missesOf(programs) }, nil
}

// meanwhile follows a program's name in those of programs that see what it does not.
const meanwhile = "_meanwhile"

// missesOf is what Load's misses returns (Linux 5.12).
func missesOf(programs map[string]*ebpf.Program) (map[string]uint64, error) {
	misses := make(map[string]uint64)
	repeated := make(map[string]bool)
	for name, p := range programs {
		if first, _, ok := strings.Cut(name, meanwhile); ok {
			repeated[first], repeated[name] = true, true
		}
		stats, err := p.Stats()
		if err != nil {
			return nil, fmt.Errorf("read the statistics of %v: %w", p, err)
		}
		misses[name] = stats.RecursionMisses
	}
	maps.DeleteFunc(misses, func(name string, n uint64) bool { return n == 0 || repeated[name] })
	return misses, nil
}

// NewProgram loads one program. The caller closes it.
func NewProgram(spec *ebpf.ProgramSpec) (*ebpf.Program, error) {
	_ = rlimit.RemoveMemlock() // as in Load
	p, err := ebpf.NewProgram(spec)
	if err != nil {
		return nil, fmt.Errorf("load a BPF program: %w", explain(err))
	}
	return p, nil
}

// NewMap makes a map that no program uses. The caller closes it.
func NewMap(spec *ebpf.MapSpec) (*ebpf.Map, error) {
	m, err := ebpf.NewMap(spec)
	if err != nil {
		return nil, fmt.Errorf("make a BPF map: %w", explain(err))
	}
	return m, nil
}

// explain adds the remedy to an error from the kernel, where one is known.
func explain(err error) error {
	var verifier *ebpf.VerifierError
	switch {
	case errors.As(err, &verifier): // its text says what is wrong
	case errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES):
		// The library's own text suggests a memory limit.
		if filtered() {
			return fmt.Errorf("%w (run as root, or with CAP_BPF and CAP_PERFMON; and a seccomp filter, as a container has, must allow bpf and perf_event_open: --security-opt seccomp=unconfined)", unix.EPERM)
		}
		return fmt.Errorf("%w (run as root, or with CAP_BPF and CAP_PERFMON)", unix.EPERM)
	case errors.Is(err, btf.ErrNotFound):
		return fmt.Errorf("%w (the kernel has no BTF: it needs CONFIG_DEBUG_INFO_BTF; --check shows what works)", err)
	case errors.Is(err, ebpf.ErrNotSupported) || errors.Is(err, unix.ENOSYS):
		return fmt.Errorf("%w (%s)", err, newer)
	}
	return err
}

// filtered reports whether a seccomp filter decides which system calls this process may use.
func filtered() bool {
	mode, err := unix.PrctlRetInt(unix.PR_GET_SECCOMP, 0, 0, 0, 0)
	return err == nil && mode == unix.SECCOMP_MODE_FILTER
}

const newer = "Linux 5.15 or newer is needed; --check shows what works"

// RawTracepoint runs program at the kernel's tracepoint of that name until the
// link is closed.
func RawTracepoint(name string, program *ebpf.Program) (link.Link, error) {
	l, err := link.AttachRawTracepoint(link.RawTracepointOptions{Name: name, Program: program})
	if err != nil {
		return nil, fmt.Errorf("attach to tracepoint %s: %w", name, explain(err))
	}
	return l, nil
}

// Tracepoint runs program at the kernel's tracepoint of that group and name, with the cookie
// (Linux 5.15), until the link is closed. It needs tracefs.
func Tracepoint(group, name string, program *ebpf.Program, cookie uint64) (link.Link, error) {
	l, err := link.Tracepoint(group, name, program, &link.TracepointOptions{Cookie: cookie})
	if err != nil {
		return nil, fmt.Errorf("attach to tracepoint %s:%s: %w", group, name, explain(err))
	}
	return l, nil
}

// Trace runs program at the tracepoint or kernel function that it was loaded
// for (tp_btf, fentry, fexit; Linux 5.5) until the link is closed. Many kernels
// do not allow programs to be attached to functions.
func Trace(program *ebpf.Program) (link.Link, error) {
	return attachTracing(link.TracingOptions{Program: program})
}

// TraceCopy is Trace for a copy that Repeat made, whose number is its cookie (Linux 6.10).
func TraceCopy(program *ebpf.Program, number int) (link.Link, error) {
	return attachTracing(link.TracingOptions{Program: program, AttachType: ebpf.AttachTraceRawTp, Cookie: uint64(number)})
}

func attachTracing(o link.TracingOptions) (link.Link, error) {
	l, err := link.AttachTracing(o)
	if err != nil {
		return nil, fmt.Errorf("attach %v: %w", o.Program, explain(err))
	}
	return l, nil
}

// repeats is how many copies of a program are attached besides it, if threads are preempted in it:
// each is in use only while threads on its CPU are preempted in all before it.
const repeats = 3

// maxHandled bounds the threads that are between two copies, or in a call.
const maxHandled = 1 << 14

// Repeat adds to spec copies of programs at tracepoints that see what these do not because threads are
// preempted in them (bpf/meanwhile.h). Each is attached after those before it, with its number as cookie,
// by which it knows whether to handle an event, unless any number of programs may.
func Repeat(spec *ebpf.CollectionSpec, names ...string) error {
	for _, name := range names {
		for number := range repeats {
			spec.Programs[CopyOf(name, number+1)] = spec.Programs[name].Copy()
		}
	}
	for _, name := range []string{"handled", "in_call"} {
		if m := spec.Maps[name]; m != nil {
			m.MaxEntries = maxHandled
		}
	}
	if v := spec.Variables["repeats"]; v != nil {
		if err := v.Set(uint32(repeats)); err != nil {
			return fmt.Errorf("set repeats: %w", err)
		}
	}
	return nil
}

// CopyOf returns what Repeat calls a copy of a program; the first has number 1.
func CopyOf(name string, number int) string { return fmt.Sprintf("%s%s_%d", name, meanwhile, number) }

// firstPIDNamespace is the inode of the initial pid namespace
// (PROC_PID_INIT_INO, include/linux/proc_ns.h).
const firstPIDNamespace = 0xEFFFFFFC

// PIDNamespace returns the inode of this process's pid namespace, or 0 if it is
// the initial one, whose pids need no translation.
func PIDNamespace() (uint32, error) {
	target, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return 0, fmt.Errorf("read the pid namespace: %w (is /proc mounted?)", err)
	}
	inode, ok := strings.CutPrefix(target, "pid:[")
	n, err := strconv.ParseUint(strings.TrimSuffix(inode, "]"), 10, 32)
	if !ok || err != nil {
		return 0, fmt.Errorf("read the pid namespace: %q is none", target)
	}
	if n == firstPIDNamespace {
		return 0, nil
	}
	return uint32(n), nil
}
