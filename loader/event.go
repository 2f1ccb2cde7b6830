package loader

import "golang.org/x/sys/unix"

// An Event is a perf event. It has the name that perf gives it, or cpu.
type Event struct {
	Name   string
	kind   uint32 // PERF_TYPE_*
	config uint64
}

// Events that time interrupts.
var (
	CPUClock = Event{"cpu", unix.PERF_TYPE_SOFTWARE, unix.PERF_COUNT_SW_CPU_CLOCK}     // time, by the kernel's timer: available on every machine
	Cycles   = Event{"cycles", unix.PERF_TYPE_HARDWARE, unix.PERF_COUNT_HW_CPU_CYCLES} // of the CPU, by the hardware's counter: not available on every virtual machine
)

// Counted are events of the kernel that happen to threads.
var Counted = []Event{
	{"page-faults", unix.PERF_TYPE_SOFTWARE, unix.PERF_COUNT_SW_PAGE_FAULTS},
	{"minor-faults", unix.PERF_TYPE_SOFTWARE, unix.PERF_COUNT_SW_PAGE_FAULTS_MIN},
	{"major-faults", unix.PERF_TYPE_SOFTWARE, unix.PERF_COUNT_SW_PAGE_FAULTS_MAJ},
	{"context-switches", unix.PERF_TYPE_SOFTWARE, unix.PERF_COUNT_SW_CONTEXT_SWITCHES},
	{"cpu-migrations", unix.PERF_TYPE_SOFTWARE, unix.PERF_COUNT_SW_CPU_MIGRATIONS},
	{"alignment-faults", unix.PERF_TYPE_SOFTWARE, unix.PERF_COUNT_SW_ALIGNMENT_FAULTS},
	{"emulation-faults", unix.PERF_TYPE_SOFTWARE, unix.PERF_COUNT_SW_EMULATION_FAULTS},
}

// Hardware are events that the CPU counts, of which far too many happen to take each: they are
// sampled at a rate, and each sample says how many it stands for.
var Hardware = []Event{
	{"instructions", unix.PERF_TYPE_HARDWARE, unix.PERF_COUNT_HW_INSTRUCTIONS},
	{"cache-references", unix.PERF_TYPE_HARDWARE, unix.PERF_COUNT_HW_CACHE_REFERENCES},
	{"cache-misses", unix.PERF_TYPE_HARDWARE, unix.PERF_COUNT_HW_CACHE_MISSES},
	{"branches", unix.PERF_TYPE_HARDWARE, unix.PERF_COUNT_HW_BRANCH_INSTRUCTIONS},
	{"branch-misses", unix.PERF_TYPE_HARDWARE, unix.PERF_COUNT_HW_BRANCH_MISSES},
	{"bus-cycles", unix.PERF_TYPE_HARDWARE, unix.PERF_COUNT_HW_BUS_CYCLES},
	{"ref-cycles", unix.PERF_TYPE_HARDWARE, unix.PERF_COUNT_HW_REF_CPU_CYCLES},
	{"stalled-cycles-frontend", unix.PERF_TYPE_HARDWARE, unix.PERF_COUNT_HW_STALLED_CYCLES_FRONTEND},
	{"stalled-cycles-backend", unix.PERF_TYPE_HARDWARE, unix.PERF_COUNT_HW_STALLED_CYCLES_BACKEND},
	{"L1-dcache-load-misses", unix.PERF_TYPE_HW_CACHE, cacheEvent(unix.PERF_COUNT_HW_CACHE_L1D)},
	{"LLC-load-misses", unix.PERF_TYPE_HW_CACHE, cacheEvent(unix.PERF_COUNT_HW_CACHE_LL)},
	{"dTLB-load-misses", unix.PERF_TYPE_HW_CACHE, cacheEvent(unix.PERF_COUNT_HW_CACHE_DTLB)},
	{"iTLB-load-misses", unix.PERF_TYPE_HW_CACHE, cacheEvent(unix.PERF_COUNT_HW_CACHE_ITLB)},
}

// cacheEvent returns the config of the misses of loads from a cache (perf_event_open(2)).
func cacheEvent(cache uint64) uint64 {
	return cache | unix.PERF_COUNT_HW_CACHE_OP_READ<<8 | unix.PERF_COUNT_HW_CACHE_RESULT_MISS<<16
}
