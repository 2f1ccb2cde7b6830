package check

import (
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"

	"ustack/loader"
)

// kernelProbes are the probes that use the kernel. Each loads and attaches a
// program, as the tools do.
func kernelProbes() []probe {
	sampled := map[string]string{"jsprof": always, "stopon": "--stall, --js", "nodesnoop": "--loop --stacks"}
	probed := map[string]string{"addonlat": always, "nodesnoop": always, "stopon": "--func, --usdt", "logsnoop": "static probes"}
	typed := map[string]string{"stopon": "--syscall, --signal", "logsnoop": "what is written", "nodesnoop": "--syscalls, --tcp"}
	functions := map[string]string{"stopon": "--syscall at less cost", "logsnoop": "what is written, at less cost", "nodesnoop": "--tcp at less cost"}
	return []probe{
		{"lockdown", used(always, tracers...), lockdown},
		{"memory limit", used(informs, tracers...), memoryLimit},
		{"tracefs", used(informs, tracers...), tracefs},
		{"BTF", used(always, tracers...), kernelBTF},
		{"BPF programs", used(always, tracers...), readMemory},
		{"raw tracepoints", used(always, tracers...), rawTracepoint},
		{"perf events", sampled, func() (string, error) { return perfEvent(loader.CPUClock) }},
		{"cycle counter", used("--cycles", "jsprof"), func() (string, error) { return perfEvent(loader.Cycles) }},
		{"uprobes", probed, uprobe},
		{"typed tracepoints", typed, typedTracepoint},
		{"kernel functions", functions, kernelFunction},
		{"socket tracepoints", used("plain HTTP at less cost", "nodesnoop"), socketTracepoints},
	}
}

// lockdown says what the kernel withholds from root, and fails if that is too much:
// kernel_lockdown(7).
func lockdown() (string, error) {
	if err := loader.Unlocked(); err != nil {
		return "", err
	}
	text, err := os.ReadFile("/sys/kernel/security/lockdown")
	if err != nil {
		return "not known (securityfs is not mounted, or the kernel has none)", nil
	}
	return strings.TrimSpace(string(text)), nil
}

// memoryLimit says how much memory this process may lock: kernels before 5.11
// charge BPF maps to that limit.
func memoryLimit() (string, error) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &limit); err != nil {
		return "", err
	}
	return fmt.Sprintf("%d bytes may be locked; kernels since 5.11 do not charge BPF to that", limit.Cur), nil
}

// tracefs says whether tracepoints can be looked up by name: nothing here is.
func tracefs() (string, error) {
	if _, err := os.Stat("/sys/kernel/tracing/events"); err != nil {
		return "not mounted, and not used", nil
	}
	return "mounted, and not used", nil
}

func kernelBTF() (string, error) {
	if _, err := btf.LoadKernelSpec(); err != nil {
		return "", fmt.Errorf("%w (the kernel needs CONFIG_DEBUG_INFO_BTF)", err)
	}
	return "the kernel describes its types", nil
}

// nothing is a program that does nothing.
var nothing = asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()}

// reads is a program that reads a byte of the process's memory, at address 0.
var reads = asm.Instructions{
	asm.Mov.Reg(asm.R1, asm.RFP),
	asm.Add.Imm(asm.R1, -8),
	asm.Mov.Imm(asm.R2, 1),
	asm.Mov.Imm(asm.R3, 0),
	asm.FnProbeReadUser.Call(),
	asm.Mov.Imm(asm.R0, 0),
	asm.Return(),
}

func program(spec ebpf.ProgramSpec) (*ebpf.Program, error) {
	spec.Name, spec.License = "ustack_check", "GPL"
	if spec.Instructions == nil {
		spec.Instructions = nothing
	}
	return loader.NewProgram(&spec)
}

// attached runs attach with a program, and undoes everything.
func attached(spec ebpf.ProgramSpec, attach func(*ebpf.Program) (io.Closer, error)) (string, error) {
	p, err := program(spec)
	if err != nil {
		return "", err
	}
	defer p.Close()
	link, err := attach(p)
	if err != nil {
		return "", err
	}
	return "a program was attached", link.Close()
}

func readMemory() (string, error) {
	p, err := program(ebpf.ProgramSpec{Type: ebpf.RawTracepoint, Instructions: reads})
	if err != nil {
		return "", err
	}
	return "a program that reads a process's memory was loaded", p.Close()
}

func rawTracepoint() (string, error) {
	return attached(ebpf.ProgramSpec{Type: ebpf.RawTracepoint}, func(p *ebpf.Program) (io.Closer, error) {
		return loader.RawTracepoint("sched_process_exec", p)
	})
}

func perfEvent(event loader.Event) (string, error) {
	detail, err := attached(ebpf.ProgramSpec{Type: ebpf.PerfEvent}, func(p *ebpf.Program) (io.Closer, error) {
		return loader.Sample(p, event, loader.Sampling{Hz: 1})
	})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s; kernel.perf_event_max_sample_rate is %s, kernel.perf_event_paranoid %s",
		detail, sysctl("kernel/perf_event_max_sample_rate"), sysctl("kernel/perf_event_paranoid")), nil
}

// uprobe attaches to this program's entry point, which never runs again.
func uprobe() (string, error) {
	const self = "/proc/self/exe"
	offset, err := entry(self)
	if err != nil {
		return "", err
	}
	spec := &ebpf.CollectionSpec{Programs: map[string]*ebpf.ProgramSpec{"probe": {Type: ebpf.Kprobe}}}
	loader.PrepareProbes(spec)
	return attached(*spec.Programs["probe"], func(p *ebpf.Program) (io.Closer, error) {
		links, err := loader.AttachProbes(loader.Probes{
			Program: p, Path: self, Name: "ourselves", PID: os.Getpid(), Points: []loader.Point{{Offset: offset}},
		})
		var all closers
		for _, l := range links {
			all = append(all, l)
		}
		if err != nil {
			return nil, errors.Join(err, all.Close())
		}
		return all, nil
	})
}

type closers []io.Closer

func (all closers) Close() error {
	var errs []error
	for _, c := range all {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// entry returns the file offset of an executable's first instruction.
func entry(path string) (uint64, error) {
	f, err := elf.Open(path)
	if err != nil {
		return 0, fmt.Errorf("read our own executable: %w", err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_LOAD && f.Entry >= p.Vaddr && f.Entry < p.Vaddr+p.Filesz {
			return f.Entry - p.Vaddr + p.Off, nil
		}
	}
	return 0, errors.New("read our own executable: its entry is in no segment")
}

func typedTracepoint() (string, error) {
	spec := ebpf.ProgramSpec{Type: ebpf.Tracing, AttachType: ebpf.AttachTraceRawTp, AttachTo: "sched_process_exec"}
	return attached(spec, func(p *ebpf.Program) (io.Closer, error) { return loader.Trace(p) })
}

// socketTracepoints says whether the kernel has tracepoints where sockets have taken what is written, and
// where something was received from them.
func socketTracepoints() (string, error) {
	const names = loader.SendTracepoint + " and " + loader.ReceiveTracepoint
	if !loader.SeesSockets() {
		return "", fmt.Errorf("the kernel has no tracepoints %s (Linux 6.3), or preempts programs there (probes are used instead)", names)
	}
	return names, nil
}

// kernelFunction attaches to a function that is rarely called.
func kernelFunction() (string, error) {
	prefix := map[string]string{"amd64": "__x64_sys_", "arm64": "__arm64_sys_"}[runtime.GOARCH]
	spec := ebpf.ProgramSpec{Type: ebpf.Tracing, AttachType: ebpf.AttachTraceFEntry, AttachTo: prefix + "reboot"}
	detail, err := attached(spec, func(p *ebpf.Program) (io.Closer, error) { return loader.Trace(p) })
	if errors.Is(err, unix.EPERM) && Capabilities(BPF, Perfmon) == nil {
		err = errors.New("the kernel was built without what that needs")
	}
	if err != nil {
		return "", fmt.Errorf("%w (tracepoints are used instead)", err)
	}
	return detail, nil
}
