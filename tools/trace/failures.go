package trace

import (
	"fmt"

	"github.com/cilium/ebpf"

	"ustack/bpf"
)

// Failures counts, by cause, what the kernel could not read of stacks. A cause
// that has not occurred is missing.
type Failures map[string]uint64

// causes are the words for the kernel's enum failure, in reports and in JSON.
var causes = [bpf.TraceFailureFAILURES]string{
	bpf.TraceFailureFAILURE_FRAME_POINTER:  "frame_pointer",
	bpf.TraceFailureFAILURE_STACK:          "stack",
	bpf.TraceFailureFAILURE_UNWIND_RULE:    "unwind_rule",
	bpf.TraceFailureFAILURE_FRAME_TYPE:     "frame_type",
	bpf.TraceFailureFAILURE_COLLECTION:     "collection",
	bpf.TraceFailureFAILURE_FUNCTION:       "function",
	bpf.TraceFailureFAILURE_FUNCTION_DATA:  "function_data",
	bpf.TraceFailureFAILURE_UNKNOWN_LAYOUT: "unknown_layout",
	bpf.TraceFailureFAILURE_NAME:           "name",
	bpf.TraceFailureFAILURE_SCRIPT:         "script",
	bpf.TraceFailureFAILURE_SCRIPT_ID:      "script_id",
	bpf.TraceFailureFAILURE_CODE:           "code",
	bpf.TraceFailureFAILURE_REGEXP:         "regexp",
	bpf.TraceFailureFAILURE_WASM:           "wasm",
	bpf.TraceFailureFAILURE_TOO_DEEP:       "too_deep",
}

// ReadFailures reads the kernel's counters.
func ReadFailures(counters *ebpf.Variable) (Failures, error) {
	var counts [len(causes)]uint64
	if err := counters.Get(&counts); err != nil {
		return nil, fmt.Errorf("read the kernel's counters of failures: %w", err)
	}
	failures := Failures{}
	for cause, count := range counts {
		if count > 0 {
			failures[causes[cause]] = count
		}
	}
	return failures, nil
}
