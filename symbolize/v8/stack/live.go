package stack

import (
	"slices"

	"ustack/symbolize/space"
	"ustack/symbolize/v8/heap"
)

const (
	wordSize     = 8
	maxExitFrame = 64 // bytes of an exit frame below its frame pointer
)

// LiveStacks returns what in each thread can keep objects alive. V8 scans only its own
// frames, since C++ code uses handles. Where V8's frames cannot be found, all of the
// stack counts.
func (u *Unwinder) LiveStacks() []heap.Stack {
	known := slices.ContainsFunc(u.threads, func(t Thread) bool { return t.Isolate != 0 })
	stacks := make([]heap.Stack, len(u.threads))
	for i, t := range u.threads {
		stacks[i] = heap.Stack{SP: t.Registers.SP, ThreadPointer: t.Registers.ThreadPointer, Whole: !known}
		if t.Isolate != 0 {
			w := u.walk(t)
			stacks[i].Frames, stacks[i].Registers = w.frames, w.registers
			stacks[i].Whole = w.stack.Truncated || w.stack.Broken || w.exit != 0
		}
		if stacks[i].Whole {
			stacks[i].Registers = slices.Clone(t.Registers.General[:])
		}
	}
	return stacks
}

// note records where V8's frame at the cursor is. Adjacent frames form one range.
func (w *walker) note() {
	start, end := w.at.SP(), w.at.FP()+2*wordSize
	if start == 0 { // the unwinder resumed at it
		start = w.at.FP() - maxExitFrame
	}
	if w.at.Leaf {
		w.registers = append(w.registers, w.at.Regs[:]...)
	}
	if !w.inFrames {
		w.frames = append(w.frames, space.Range{Start: start, End: start})
		w.inFrames = true
	}
	last := &w.frames[len(w.frames)-1]
	last.End = max(last.End, end)
}
