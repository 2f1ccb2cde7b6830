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
	bpf.TraceFailureFAILURE_POSITION:       "code_position",
	bpf.TraceFailureFAILURE_REGEXP:         "regexp",
	bpf.TraceFailureFAILURE_WASM:           "wasm",
	bpf.TraceFailureFAILURE_TOO_DEEP:       "too_deep",
}

// Causes that user space finds.
const (
	positionsCause         = "positions"          // code of which V8's positions could not be read
	noPositionsCause       = "no_positions"       // code with which V8 keeps no positions
	doubtfulPositionsCause = "doubtful_positions" // code of which V8's positions are contradictory
	sourceCause            = "source"             // scripts whose source could not be read
)

// Failures returns what could not be read so far: what counters, the kernel's, say and
// what the table could not read.
func (s *Session) Failures(counters *ebpf.Variable) (Failures, error) {
	failures, err := readFailures(counters)
	if err != nil {
		return nil, err
	}
	s.Table.mutex.Lock()
	defer s.Table.mutex.Unlock()
	t := s.Table
	for cause, n := range map[string]uint64{
		positionsCause: t.positions.unanswered(), noPositionsCause: t.positions.none,
		doubtfulPositionsCause: t.positions.doubtful, sourceCause: t.unreadSources(),
	} {
		if n > 0 {
			failures[cause] = n
		}
	}
	return failures, nil
}

func (t *Table) unreadSources() (n uint64) {
	for _, s := range t.scripts {
		if s.source == nil && !s.wasm {
			n++
		}
	}
	return n
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
