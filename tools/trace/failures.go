package trace

import (
	"fmt"

	"github.com/cilium/ebpf"

	"ustack/bpf"
)

// Failures counts, by cause, what could not be read of stacks. A cause that has not
// occurred is missing.
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

// positionsCause is the cause of code of which V8's positions could not be read, so
// that its frames have no executing line and functions inlined in it are not shown.
const positionsCause = "positions"

// Failures returns what could not be read so far: what counters, the kernel's, say and
// what the table could not read.
func (s *Session) Failures(counters *ebpf.Variable) (Failures, error) {
	failures, err := readFailures(counters)
	if err != nil {
		return nil, err
	}
	s.Table.mutex.Lock()
	defer s.Table.mutex.Unlock()
	if n := s.Table.positions.unread; n > 0 {
		failures[positionsCause] = uint64(n)
	}
	return failures, nil
}

func readFailures(counters *ebpf.Variable) (Failures, error) {
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
