package loader

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/iovisor/gobpf/pkg/cpuonline"
	"golang.org/x/sys/unix"
)

// A Sampler runs a program on each CPU.
type Sampler struct {
	Hz    int   // the actual rate, from SampleRate; 0 without a rate
	files []int // descriptors: each online CPU's event, and after it the link to the program
}

// Sampling says how often a Sampler runs its program: Hz times a second on each CPU, or, if
// that is 0, at one event in Every.
type Sampling struct {
	Hz     int
	Every  uint64
	Cookie uint64 // available to the program (Linux 5.15)
}

// MaxHz bounds the sampling rate per CPU. A deep stack takes some 20 µs to
// unwind: at a higher rate, a process would spend most of its time being
// sampled.
const MaxHz = 10_000

// SampleRate returns the rate that Sample uses if asked for hz: hz, or MaxHz or
// the kernel's limit (kernel.perf_event_max_sample_rate) if that is lower.
func SampleRate(hz int) int {
	hz = min(hz, MaxHz)
	if limit, err := maxSampleRate(); err == nil {
		hz = min(hz, limit)
	}
	return hz
}

// Sample runs program at events on each online CPU, until Close.
func Sample(program *ebpf.Program, event Event, how Sampling) (*Sampler, error) {
	attr := unix.PerfEventAttr{Type: event.kind, Config: event.config, Sample: how.Every}
	attr.Size = uint32(unsafe.Sizeof(attr))
	s := new(Sampler)
	if how.Hz > 0 {
		s.Hz = SampleRate(how.Hz)
		attr.Sample, attr.Bits = uint64(s.Hz), unix.PerfBitFreq
	}
	cpus, err := cpuonline.Get()
	if err != nil {
		return s, fmt.Errorf("list online CPUs: %w (is /sys mounted?)", err)
	}
	for _, cpu := range cpus {
		if err := s.open(program, attr, int(cpu), how.Cookie); err != nil {
			return s, errors.Join(fmt.Errorf("sample %s on CPU %d: %w", event.Name, cpu, err), s.Close())
		}
	}
	return s, nil
}

func (s *Sampler) open(program *ebpf.Program, attr unix.PerfEventAttr, cpu int, cookie uint64) error {
	fd, err := unix.PerfEventOpen(&attr, -1, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
	switch {
	case errors.Is(err, unix.ENOENT) && attr.Type != unix.PERF_TYPE_SOFTWARE:
		return fmt.Errorf("%w (this machine's CPUs do not count it, as in many virtual machines: sample CPU time)", err)
	case errors.Is(err, unix.ENODEV): // taken offline since the list was read
		return nil
	case err != nil:
		return explainEvent(err)
	}
	s.files = append(s.files, fd)
	link, err := attachToEvent(program, fd, cookie)
	if err != nil {
		return fmt.Errorf("attach: %w", explain(err))
	}
	s.files = append(s.files, link)
	return nil
}

// attachToEvent runs program at a perf event until the descriptor that it returns is closed
// (BPF_LINK_CREATE, include/uapi/linux/bpf.h, Linux 5.15). The library's links have no cookie.
func attachToEvent(program *ebpf.Program, event int, cookie uint64) (fd int, err error) {
	attr := struct{ program, event, kind, flags, cookieLow, cookieHigh uint32 }{
		program: uint32(program.FD()), event: uint32(event), kind: uint32(ebpf.AttachPerfEvent),
		cookieLow: uint32(cookie), cookieHigh: uint32(cookie >> 32),
	}
	r, _, errno := unix.Syscall(unix.SYS_BPF, unix.BPF_LINK_CREATE, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
	if errno != 0 {
		return -1, errno
	}
	return int(r), nil
}

// Close stops sampling: once it returns, the program no longer runs.
func (s *Sampler) Close() error {
	var errs []error
	for i := len(s.files) - 1; i >= 0; i-- {
		errs = append(errs, unix.Close(s.files[i]))
	}
	s.files = nil
	return errors.Join(errs...)
}

func maxSampleRate() (int, error) { return sysctl("perf_event_max_sample_rate") }

// sysctl returns one of the kernel's numbers.
func sysctl(name string) (int, error) {
	text, err := os.ReadFile("/proc/sys/kernel/" + name)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(text)))
}

// explainEvent is explain for a perf event. Debian's kernels allow them to CAP_SYS_ADMIN only
// while kernel.perf_event_paranoid is above 2.
func explainEvent(err error) error {
	const most = 2 // of the kernel itself, to which CAP_PERFMON is enough at any level
	if level, sysctlErr := sysctl("perf_event_paranoid"); sysctlErr == nil && level > most && (errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES)) {
		return fmt.Errorf("%w (kernel.perf_event_paranoid is %d: run as root, or with CAP_BPF and CAP_SYS_ADMIN, or lower it to %d)", unix.EPERM, level, most)
	}
	return explain(err)
}
