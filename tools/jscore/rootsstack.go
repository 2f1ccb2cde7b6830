package jscore

import "slices"

// A LiveStack is the part of a thread that can keep objects alive.
type LiveStack struct {
	Thread
	frames    []addressRange // V8's
	registers []uint64       // of V8 code that was running
	whole     bool           // V8's frames could not be found, so all of the stack counts
}

const (
	redZone      = 128     // bytes below a thread's stack pointer that still count
	threadData   = 1 << 11 // bytes that the C library reserves for each; 0x900 in glibc 2.36
	maxExitFrame = 64      // bytes of an exit frame below its frame pointer
)

// LiveStacks returns what in each thread can keep objects alive. V8 scans only its own
// frames, since C++ code uses handles. Where V8's frames cannot be found, all of the
// stack counts.
func (d *Dump) LiveStacks() []LiveStack {
	told := slices.ContainsFunc(d.threads, func(t Thread) bool { return t.Isolate != 0 })
	stacks := make([]LiveStack, len(d.threads))
	for i, t := range d.threads {
		stacks[i] = LiveStack{Thread: t, whole: !told}
		if t.Isolate != 0 {
			w := d.walk(t)
			stacks[i].frames, stacks[i].registers = w.frames, w.registers
			stacks[i].whole = w.stack.Truncated || w.stack.Broken || w.exit != 0
		}
		if stacks[i].whole {
			stacks[i].registers = slices.Clone(t.Registers.General[:])
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
		w.frames = append(w.frames, addressRange{start, start})
		w.inFrames = true
	}
	last := &w.frames[len(w.frames)-1]
	last.end = max(last.end, end)
}

// start returns the lowest address of a thread's stack that counts.
func (t LiveStack) start() uint64 { return (t.Registers.SP - redZone) &^ (wordSize - 1) }

// within returns the memory that is the thread's stack, including its own data at the
// top; none if it is in no range.
func (t LiveStack) within(spans []addressRange) addressRange {
	i := slices.IndexFunc(spans, func(r addressRange) bool { return r.has(t.start()) })
	if i < 0 {
		return addressRange{}
	}
	stack := spans[i]
	if base := t.Registers.FSBase; base > t.start() && stack.has(base) {
		stack.end = min(stack.end, alignUp(base+threadData, minPage))
	}
	return stack
}
