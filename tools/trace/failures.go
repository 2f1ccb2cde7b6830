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
var causes = [bpf.JsprofFailureFAILURES]string{
	bpf.JsprofFailureFAILURE_FRAME_POINTER:  "frame_pointer",
	bpf.JsprofFailureFAILURE_STACK:          "stack",
	bpf.JsprofFailureFAILURE_UNWIND_RULE:    "unwind_rule",
	bpf.JsprofFailureFAILURE_FRAME_TYPE:     "frame_type",
	bpf.JsprofFailureFAILURE_COLLECTION:     "collection",
	bpf.JsprofFailureFAILURE_FUNCTION:       "function",
	bpf.JsprofFailureFAILURE_FUNCTION_DATA:  "function_data",
	bpf.JsprofFailureFAILURE_UNKNOWN_LAYOUT: "unknown_layout",
	bpf.JsprofFailureFAILURE_NAME:           "name",
	bpf.JsprofFailureFAILURE_SCRIPT:         "script",
	bpf.JsprofFailureFAILURE_SCRIPT_ID:      "script_id",
	bpf.JsprofFailureFAILURE_CODE:           "code",
	bpf.JsprofFailureFAILURE_REGEXP:         "regexp",
	bpf.JsprofFailureFAILURE_WASM:           "wasm",
	bpf.JsprofFailureFAILURE_TOO_DEEP:       "too_deep",
}

// ReadFailures reads the kernel's counters, which are one for each CPU.
func ReadFailures(counters *ebpf.Map) (Failures, error) {
	failures := Failures{}
	for cause, word := range causes {
		var perCPU []uint64
		if err := counters.Lookup(uint32(cause), &perCPU); err != nil {
			return nil, fmt.Errorf("read the kernel's counters of failures: %w", err)
		}
		for _, n := range perCPU {
			if n > 0 {
				failures[word] += n
			}
		}
	}
	return failures, nil
}
