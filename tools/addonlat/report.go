package addonlat

import (
	"time"

	"ustack/symbolize"
	"ustack/tools/quantize"
	"ustack/tools/trace"
)

// By says which jobs are of the same kind.
type By int

const (
	Function By = iota // the add-on's C++ function that submitted it, as module`function
	Resource           // the async resource's name, for Node-API; else as Function
	JS                 // the JavaScript function that called the add-on, with its line
	Stack              // the whole stack at submission, JavaScript and native
	Work               // the work callback
)

// Bys are the names of all By, in their order.
var Bys = []string{"function", "resource", "js", "stack", "work"}

// A Report is what was measured, since the start or since the last Report.
type Report struct {
	Duration time.Duration
	Kinds    []Kind // by process, then key
	Pools    []Pool // by process
	Lost     uint64 // kinds whose name was lost for lack of room
	// Unfollowed jobs were submitted while more were in flight than the kernel
	// keeps track of: they are in no kind.
	Unfollowed uint64
	Failures   trace.Failures // what could not be read of stacks since the start
}

// A Kind is all jobs of one sort in one process.
type Kind struct {
	PID   int
	Key   string
	Stack []symbolize.Frame // leaf first, only by Stack
	// Builtin is set for node's own work: file system, DNS, crypto, zlib.
	Builtin bool

	Count     uint64 // completed
	Cancelled uint64 // of these
	Failed    uint64 // of these, if libuv itself knows: file system, DNS, random

	// All in ns. Total is from submission to completion on the event loop, as in the seed;
	// Wait from submission until a thread takes the job; Run on that thread; Delivery from
	// there to completion. Cancelled jobs only have a Total.
	Total, Wait, Run, Delivery quantize.Histogram
	// Linear is Total in equal steps if Options.Linear is set, else nil.
	Linear *quantize.LQuantize
}

// A Pool is libuv's thread pool of one process.
type Pool struct {
	PID       int
	Inside    int     // its PID in its own PID namespace, as a container's; 0 if it is the same
	Threads   uint64  // 0 if they have not started
	Busy      float64 // fraction of the threads' time spent running jobs, 0 to 1
	Deepest   uint64  // the most jobs that waited for a thread at one time
	SlowQuota uint64  // slow I/O jobs that arrived while as many ran as may: half of the threads

	Submitted uint64
	Completed uint64 // including those that were cancelled or failed
	Cancelled uint64
	Failed    uint64
	InFlight  uint64 // submitted, not completed
	Unseen    bool   // some completions cannot be seen: InFlight is meaningless
	Before    uint64 // completed jobs that were submitted before measuring began
	Uring     uint64 // file system operations that io_uring did, without the pool
}
