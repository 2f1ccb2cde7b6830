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

// An Event is what a Sampler counts to time its interrupts.
type Event int

const (
	CPUClock Event = iota // time, by the kernel's timer: available on every machine
	Cycles                // CPU cycles, by the hardware's counter: not available on every virtual machine
)

// A Sampler runs a program at a steady rate on each CPU.
type Sampler struct {
	// Hz is the actual rate, from SampleRate.
	Hz     int
	events []int // one descriptor per online CPU
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

// Sample runs program hz times a second on each online CPU, until Close.
func Sample(program *ebpf.Program, event Event, hz int) (*Sampler, error) {
	hz = SampleRate(hz)
	cpus, err := cpuonline.Get()
	if err != nil {
		return nil, fmt.Errorf("list online CPUs: %w (is /sys mounted?)", err)
	}
	s := &Sampler{Hz: hz}
	for _, cpu := range cpus {
		if err := s.open(program, event, int(cpu)); err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	return s, nil
}

func (s *Sampler) open(program *ebpf.Program, event Event, cpu int) error {
	attr := unix.PerfEventAttr{
		Type:   unix.PERF_TYPE_SOFTWARE,
		Config: unix.PERF_COUNT_SW_CPU_CLOCK,
		Size:   uint32(unsafe.Sizeof(unix.PerfEventAttr{})),
		Sample: uint64(s.Hz),
		Bits:   unix.PerfBitFreq | unix.PerfBitDisabled,
	}
	if event == Cycles {
		attr.Type, attr.Config = unix.PERF_TYPE_HARDWARE, unix.PERF_COUNT_HW_CPU_CYCLES
	}
	fd, err := unix.PerfEventOpen(&attr, -1, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
	switch {
	case errors.Is(err, unix.ENOENT) && event == Cycles:
		return fmt.Errorf("count cycles on CPU %d: %w (this machine has no hardware counters: sample by cpu-clock)", cpu, err)
	case errors.Is(err, unix.ENODEV): // taken offline since the list was read
		return nil
	case err != nil:
		return fmt.Errorf("open perf event on CPU %d: %w", cpu, explain(err))
	}
	s.events = append(s.events, fd)
	if err := unix.IoctlSetInt(fd, unix.PERF_EVENT_IOC_SET_BPF, program.FD()); err != nil {
		return fmt.Errorf("attach to perf event on CPU %d: %w", cpu, explain(err))
	}
	if err := unix.IoctlSetInt(fd, unix.PERF_EVENT_IOC_ENABLE, 0); err != nil {
		return fmt.Errorf("enable perf event on CPU %d: %w", cpu, err)
	}
	return nil
}

// Close stops sampling: once it returns, the program no longer runs.
func (s *Sampler) Close() error {
	var errs []error
	for _, fd := range s.events {
		errs = append(errs, unix.Close(fd))
	}
	s.events = nil
	return errors.Join(errs...)
}

func maxSampleRate() (int, error) {
	text, err := os.ReadFile("/proc/sys/kernel/perf_event_max_sample_rate")
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(text)))
}
