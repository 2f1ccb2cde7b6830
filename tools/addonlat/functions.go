package addonlat

import (
	"ustack/symbolize/libuv"
	"ustack/tools/trace"
)

// jumpedFrom returns the name of the function that was left by a tail call before the
// stack's first frame, empty if there was none or it is not known for certain. The
// second frame is the job's work.
func jumpedFrom(t *trace.Table, stack trace.Stack) string {
	m, addresses := t.Leaf(stack)
	if m == nil || len(addresses) < 2 {
		return ""
	}
	im, err := libuv.Open(m, m.Pointer) // which understands x86-64 only
	if err != nil {
		return ""
	}
	submitter := im.Submitter(addresses[0], addresses[1])
	if submitter == 0 {
		return ""
	}
	return m.Name(submitter)
}
