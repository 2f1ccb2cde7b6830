package heap

import (
	"slices"

	"ustack/symbolize/space"
)

// A Stack is the part of a thread that can keep objects alive. V8 scans only its own
// frames, since C++ code uses handles. Where V8's frames could not be found, all of the
// stack counts.
type Stack struct {
	SP            uint64        // the thread's stack pointer
	ThreadPointer uint64        // address of the C library's data of the thread; 0 if not known
	Frames        []space.Range // V8's, what is in use of them
	Registers     []uint64      // those that count
	Whole         bool          // V8's frames could not be found
	Loose         bool          // what is in use is not known of all frames
}

const (
	redZone    = 128     // bytes below a thread's stack pointer that still count
	threadData = 1 << 11 // bytes that the C library reserves for each; 0x900 in glibc 2.36
)

// start returns the lowest address of a thread's stack that counts.
func (t Stack) start() uint64 { return (t.SP - redZone) &^ (wordSize - 1) }

// within returns the memory that is the thread's stack, including its own data at the
// top; none if it is in no range.
func (t Stack) within(spans []addressRange) addressRange {
	i := slices.IndexFunc(spans, func(r addressRange) bool { return r.has(t.start()) })
	if i < 0 {
		return addressRange{}
	}
	stack := spans[i]
	if base := t.ThreadPointer; base > t.start() && stack.has(base) {
		stack.end = min(stack.end, alignUp(base+threadData, minPage))
	}
	return stack
}
