package stack

import (
	"slices"

	"ustack/symbolize/space"
	"ustack/symbolize/v8/code"
	"ustack/symbolize/v8/heap"
)

const (
	wordSize     = 8
	maxExitFrame = 64      // bytes of an exit frame below its frame pointer
	maxUnvisited = 1 << 20 // parts of a thread's frames that V8 does not visit
)

// LiveStacks returns what in each thread can keep objects alive. V8 scans only its own
// frames, since C++ code uses handles, and of optimized code's only what is in use. Where
// V8's frames cannot be found, all of the stack counts.
func (u *Unwinder) LiveStacks() []heap.Stack {
	known := slices.ContainsFunc(u.threads, func(t Thread) bool { return t.Isolate != 0 })
	stacks := make([]heap.Stack, len(u.threads))
	for i, t := range u.threads {
		stacks[i] = heap.Stack{SP: t.Registers.SP, ThreadPointer: t.Registers.ThreadPointer, Whole: !known}
		if t.Isolate != 0 {
			w := u.walk(t)
			unvisited, known := w.unvisited()
			stacks[i].Frames, stacks[i].Registers, stacks[i].Loose = space.Without(w.frames, unvisited), w.registers, !known
			stacks[i].Whole = w.stack.Truncated || w.stack.Broken || w.exit != 0
		}
		if stacks[i].Whole {
			stacks[i].Registers = slices.Clone(t.Registers.General[:])
		}
	}
	return stacks
}

// unvisited returns what V8 does not visit in the frames of optimized code, in any order.
// Known is false if that is not known of all.
func (w *walker) unvisited() (all []space.Range, known bool) {
	type call struct{ code, pc uint64 }
	spans := make(map[call][]code.Span)
	known = true
	for i := range w.stack.Frames {
		f := &w.stack.Frames[i]
		o := f.Optimized
		if o == nil || o.Level != o.Levels-1 { // an inlined function, which has no frame of its own
			continue
		}
		key := call{o.Code.Start, f.PC}
		parts, seen := spans[key]
		if !seen {
			var err error
			if parts, err = w.v8.Codes.Unvisited(o.Code, f.PC); err != nil {
				known = false
			}
			spans[key] = parts
		}
		if len(all)+len(parts) > maxUnvisited {
			return all, false
		}
		for _, p := range parts {
			all = append(all, space.Range{Start: o.FP + uint64(p.Start), End: o.FP + uint64(p.End)})
		}
	}
	return all, known
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
