package loader

import (
	"errors"
	"fmt"
	"sync"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/features"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// Probes are the places in one file at which a program runs in a process.
type Probes struct {
	Program *ebpf.Program
	Path    string // of the file; the kernel keeps the file, even if it is renamed or removed
	Name    string // for messages
	Points  []Point
	Return  bool // when the functions at the points return, instead of when they are reached
	PID     int  // only in this process
}

// A Point is an instruction in a file.
type Point struct {
	Offset    uint64 // in bytes from the file's start
	Cookie    uint64 // available to the program
	Semaphore uint64 // likewise: of a counter that the kernel keeps above 0 while it is probed; 0: none
}

// manyAtOnce reports whether the kernel attaches a program to many places at
// once: possible since 6.6, but only since 6.10 does it tell the threads of the
// process from others (46ba0e49b642). Otherwise detaching from each place takes a
// fifth of a second.
var manyAtOnce = sync.OnceValue(func() bool {
	const v6_10 = 6<<16 | 10<<8
	version, err := features.LinuxVersionCode()
	return err == nil && version >= v6_10 && features.HaveBPFLinkUprobeMulti() == nil
})

// PrepareProbes prepares the programs of spec for AttachProbes. It is called
// before Load.
func PrepareProbes(spec *ebpf.CollectionSpec) {
	for _, p := range spec.Programs {
		if p.Type == ebpf.Kprobe && manyAtOnce() {
			p.AttachType = ebpf.AttachTraceUprobeMulti
		}
	}
}

// AttachProbes runs the program at each of the points until all links are
// closed, or this process ends.
func AttachProbes(p Probes) ([]link.Link, error) {
	executable, err := link.OpenExecutable(p.Path)
	if err != nil {
		return nil, fmt.Errorf("probe %s: %w", p.Name, err)
	}
	var links []link.Link
	if manyAtOnce() {
		links, err = attachTogether(executable, p)
	} else {
		links, err = attachEach(executable, p)
	}
	switch {
	case errors.Is(err, unix.ESRCH):
		return links, fmt.Errorf("probe %s in process %d: %w", p.Name, p.PID, err)
	case err != nil:
		return links, fmt.Errorf("probe %s: %w", p.Name, explainProbe(err))
	}
	return links, nil
}

// explainProbe is explain for a probe: one that is attached to a place at a time is a perf
// event, which CAP_PERFMON does not allow (perf_uprobe_event_init, kernel/events/core.c).
func explainProbe(err error) error {
	if !manyAtOnce() && (errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES)) {
		return fmt.Errorf("%w (run as root, or with CAP_BPF and CAP_SYS_ADMIN, which probes of functions need before Linux 6.10)", unix.EPERM)
	}
	return explain(err)
}

func attachTogether(executable *link.Executable, p Probes) ([]link.Link, error) {
	o := &link.UprobeMultiOptions{PID: uint32(p.PID)}
	for _, point := range p.Points {
		o.Addresses = append(o.Addresses, point.Offset)
		o.Cookies = append(o.Cookies, point.Cookie)
		o.RefCtrOffsets = append(o.RefCtrOffsets, point.Semaphore)
	}
	attach := executable.UprobeMulti
	if p.Return {
		attach = executable.UretprobeMulti
	}
	l, err := attach(nil, p.Program, o)
	if err != nil {
		return nil, err
	}
	return []link.Link{l}, nil
}

func attachEach(executable *link.Executable, p Probes) ([]link.Link, error) {
	attach := executable.Uprobe
	if p.Return {
		attach = executable.Uretprobe
	}
	var links []link.Link
	for _, point := range p.Points {
		l, err := attach(p.Name, p.Program, &link.UprobeOptions{Address: point.Offset, PID: p.PID, Cookie: point.Cookie, RefCtrOffset: point.Semaphore})
		if err != nil {
			return links, err
		}
		links = append(links, l)
	}
	return links, nil
}

// closesAtOnce bounds how many links CloseAll closes at the same time: each needs a thread.
const closesAtOnce = 32

// CloseAll closes links at the same time, in no order. For each the kernel waits until no CPU
// can be running its program, some 30 ms: one after another they take long.
func CloseAll(links []link.Link) error {
	errs := make([]error, len(links))
	var closing sync.WaitGroup
	slots := make(chan struct{}, closesAtOnce)
	for i, l := range links {
		slots <- struct{}{}
		closing.Go(func() {
			errs[i] = l.Close()
			<-slots
		})
	}
	closing.Wait()
	return errors.Join(errs...)
}
