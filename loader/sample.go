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

// An Event is a perf event. It has the name that perf gives it, or cpu.
type Event struct {
	Name   string
	kind   uint32 // PERF_TYPE_*
	config uint64
}

// Events that Sample counts to time its interrupts.
var (
	CPUClock = Event{"cpu", unix.PERF_TYPE_SOFTWARE, unix.PERF_COUNT_SW_CPU_CLOCK}     // time, by the kernel's timer: available on every machine
	Cycles   = Event{"cycles", unix.PERF_TYPE_HARDWARE, unix.PERF_COUNT_HW_CPU_CYCLES} // of the CPU, by the hardware's counter: not available on every virtual machine
)

// Counted are events of the kernel that SampleEach takes one by one.
var Counted = []Event{
	{"page-faults", unix.PERF_TYPE_SOFTWARE, unix.PERF_COUNT_SW_PAGE_FAULTS},
	{"minor-faults", unix.PERF_TYPE_SOFTWARE, unix.PERF_COUNT_SW_PAGE_FAULTS_MIN},
	{"major-faults", unix.PERF_TYPE_SOFTWARE, unix.PERF_COUNT_SW_PAGE_FAULTS_MAJ},
	{"context-switches", unix.PERF_TYPE_SOFTWARE, unix.PERF_COUNT_SW_CONTEXT_SWITCHES},
}

// A Sampler runs a program on each CPU.
type Sampler struct {
	// Hz is the actual rate, from SampleRate; 0 if each of some events is taken.
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
	s := &Sampler{Hz: SampleRate(hz)}
	return s, s.openAll(program, event, unix.PerfEventAttr{Sample: uint64(s.Hz), Bits: unix.PerfBitFreq})
}

// SampleEach runs program at each event of that kind, or at one in so many on each online
// CPU, until Close.
func SampleEach(program *ebpf.Program, event Event, in uint64) (*Sampler, error) {
	s := new(Sampler)
	return s, s.openAll(program, event, unix.PerfEventAttr{Sample: in})
}

// openAll attaches program to the event on each online CPU.
func (s *Sampler) openAll(program *ebpf.Program, event Event, attr unix.PerfEventAttr) error {
	attr.Type, attr.Config, attr.Size = event.kind, event.config, uint32(unsafe.Sizeof(attr))
	attr.Bits |= unix.PerfBitDisabled
	cpus, err := cpuonline.Get()
	if err != nil {
		return fmt.Errorf("list online CPUs: %w (is /sys mounted?)", err)
	}
	for _, cpu := range cpus {
		if err := s.open(program, attr, int(cpu)); err != nil {
			return errors.Join(err, s.Close())
		}
	}
	return nil
}

func (s *Sampler) open(program *ebpf.Program, attr unix.PerfEventAttr, cpu int) error {
	fd, err := unix.PerfEventOpen(&attr, -1, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
	switch {
	case errors.Is(err, unix.ENOENT) && attr.Type == unix.PERF_TYPE_HARDWARE:
		return fmt.Errorf("count cycles on CPU %d: %w (this machine has no hardware counters: sample CPU time)", cpu, err)
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
