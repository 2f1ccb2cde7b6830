// Package stack unwinds the threads of a process that does not run, from its memory: native
// and V8's frames, with the functions that were inlined, the executing lines and what
// awaits an asynchronous function.
package stack

import (
	"ustack/symbolize"
	"ustack/symbolize/space"
	"ustack/symbolize/unwind"
	"ustack/symbolize/v8"
	"ustack/symbolize/v8/code"
)

// maxFrames bounds a stack: V8's own limit is about 10,000 calls of JavaScript, unless
// node was configured to allow more.
const maxFrames = 1 << 17

// usualFrame is how many bytes of the stack a frame takes, or more.
const usualFrame = 128

// A Stack is what a thread was doing.
type Stack struct {
	Frames    []Frame // leaf first
	Awaiting  []Frame // what awaits the function in which the stack began, nearest first: not on any stack
	Truncated bool    // deeper than is unwound
	Broken    bool    // it ended where no thread begins
}

// A Frame is a call on a stack.
type Frame struct {
	symbolize.Frame // the function, where it is defined, and where the thread is in it

	PC uint64 // the next instruction, or the one a call returns to; 0 if it was lost
	FP uint64 // of the frame; 0 for an inlined function, which has none

	// The rest is for JavaScript frames.
	Construct bool // called by new or super; not known for inlined functions, and for non-classes called by Maglev code
	HasCall   bool // Call was read: its arguments may be fewer than their count
	Call      code.Call
	Shared    v8.Value   // SharedFunctionInfo
	Script    v8.Value   // 0 for a builtin
	Offset    int        // executing, in UTF-16 code units from the script's start; -1 if not known
	Generator v8.Value   // of a function that waits, and is on no stack; 0 for others
	Optimized *Optimized // nil for others, and where no call is in progress
	Trouble   error      // what could not be read
}

// An Optimized is what a function in optimized code shares with those that are inlined there.
type Optimized struct {
	Code   code.Code
	FP     uint64 // of the frame
	Level  int    // of the function: 0 for the innermost inlined one
	Levels int    // how many functions there are
}

// Stack returns the calls on a thread's stack.
func (u *Unwinder) Stack(t Thread) Stack {
	w := u.walk(t)
	w.findConstructors()
	w.findAwaiting()
	return w.stack
}

// walk unwinds a thread's stack.
func (u *Unwinder) walk(t Thread) *walker {
	w := &walker{Unwinder: u, thread: t, machine: machines[t.Registers.Machine], exit: u.exitFrame(t)}
	if w.machine.arch == nil || t.Registers.ofKernel() {
		return w
	}
	w.at = unwind.Cursor{
		Arch: w.machine.arch, PC: t.Registers.PC, Regs: t.Registers.General, Known: w.machine.arch.All(), Leaf: true, Signs: t.Registers.Signs,
	}
	w.reached = w.at.SP()
	if r, ok := u.space.Region(w.at.SP()); ok {
		w.stack.Frames = make([]Frame, 0, min((u.StackEnd(r)-w.at.SP())/usualFrame, maxFrames))
	}
	for w.step() {
		if len(w.stack.Frames) >= maxFrames {
			w.stack.Truncated = true
			break
		}
	}
	return w
}

// findConstructors marks the calls made by V8's glue for "new". Maglev code does not use
// that glue; but a class can be called in no other way.
func (w *walker) findConstructors() {
	if w.v8.Binary == nil {
		return
	}
	labels := w.v8.Binary.FrameTypes
	l := &w.v8.Binary.Layout
	frames := w.stack.Frames
	for i := range max(len(frames)-1, 0) {
		f, caller := &frames[i], frames[i+1]
		f.Construct = f.HasCall && w.isClass(f.Call.Function)
		if !f.HasCall || f.Construct || caller.Kind != symbolize.Typed {
			continue
		}
		construct := typedName(labels[l.FrameConstruct], "")
		fast := typedName(labels[l.FrameFastConstruct], "")
		label := labelOf(caller.Name)
		f.Construct = label == construct || l.FrameFastConstruct != 0 && label == fast
	}
}

// isClass reports whether a function is a class's constructor; false if class
// constructors have no type of their own, as in versions of V8 without Maglev.
func (u *Unwinder) isClass(function v8.Value) bool {
	if u.v8.Heap == nil || !u.v8.Binary.Release.Functions.ClassConstructor {
		return false
	}
	o, err := u.v8.Heap.Object(function)
	return err == nil && o.Map.Type == u.v8.Binary.Layout.LastJSFunction
}

// A walker unwinds one thread's stack.
//
// Which frames are V8's is decided by their pc. Native code is unwound by its unwind
// tables, V8's and other code without tables by frame pointers. Where the chain breaks,
// unwinding resumes at V8's newest exit frame and marks the gap.
type walker struct {
	*Unwinder
	thread  Thread
	machine machine
	at      unwind.Cursor
	reached uint64 // how far up the stack unwinding has certainly come
	exit    uint64 // V8's newest exit frame, until it has been reached; 0: none
	stack   Stack

	frames    []space.Range // V8's, newest first
	inFrames  bool          // the last of them continues
	registers []uint64      // of V8 code that was running
}

// A codeKind classifies the code at an address.
type codeKind int

const (
	codeUnknown codeKind = iota // not known to be code
	codeNative
	codeMade    // in memory of no file, and V8 is not known
	codeBuiltin // V8's own functions, compiled into its file
	codeJIT     // compiled by V8 from JavaScript
)

// codeAt returns what kind of code is at pc, and in which part of a file.
func (u *Unwinder) codeAt(pc uint64) (codeKind, space.Part) {
	if p, ok := u.space.Part(pc); ok {
		if p.Module != u.v8.Module || u.v8.Binary == nil {
			return codeNative, p
		}
		if u.isBuiltin(p, pc) {
			return codeBuiltin, p
		}
		return codeNative, p
	}
	r, ok := u.space.Region(pc)
	switch {
	case !ok || !r.Exec || r.File != "":
		return codeUnknown, space.Part{}
	case u.v8.Binary == nil:
		return codeMade, space.Part{}
	}
	return codeJIT, space.Part{}
}

// isBuiltin reports whether pc, in V8's file, is in one of V8's builtins.
func (u *Unwinder) isBuiltin(p space.Part, pc uint64) bool {
	offset, size := u.v8.Binary.Builtins()
	return pc-p.Start+p.Offset-offset < size
}

// push adds a frame at the cursor.
func (w *walker) push(f symbolize.Frame) *Frame {
	w.stack.Frames = append(w.stack.Frames, Frame{Frame: f, PC: w.at.PC, FP: w.at.FP(), Offset: -1})
	return &w.stack.Frames[len(w.stack.Frames)-1]
}

// step pushes one frame, or those that were inlined in one, and moves to its caller; it
// returns false at the end of the stack.
func (w *walker) step() bool {
	kind, p := w.codeAt(w.at.PC)
	if w.at.PC == 0 && len(w.stack.Frames) > 0 { // the exit frame at which unwinding resumed
		kind = codeBuiltin
	}
	switch kind {
	case codeNative:
		w.inFrames = false
		w.push(w.called(p))
		return w.leave(p)
	case codeUnknown:
		if !w.at.Leaf {
			return w.leap()
		}
		fallthrough
	case codeMade:
		w.push(symbolize.Frame{Name: symbolize.Unknown, Offset: w.at.PC})
		return w.climb()
	}
	w.note()
	return w.stepV8(kind, p)
}

// called names the machine code at the cursor. A call that never returns may be the last instruction
// of a function: its return address is then the start of the next function.
func (w *walker) called(p space.Part) symbolize.Frame {
	within := w.at.PC
	if !w.at.Leaf {
		within--
	}
	at := place{w.at.PC, within}
	f, ok := w.natives[at]
	if !ok {
		f = p.Native(w.at.PC, within)
		if len(w.natives) < maxFunctions {
			w.natives[at] = f
		}
	}
	return f
}

// leave moves to the caller of native code: by its file's unwind table, or otherwise by
// the frame pointer.
func (w *walker) leave(p space.Part) bool {
	next, err := w.space.Caller(p, w.at)
	if err == unwind.ErrOutermost {
		return false
	}
	if err != nil || next.SP() < w.at.SP() || next.SP() == w.at.SP() && !(w.at.Leaf && w.machine.arch.HasLink()) {
		return w.climb()
	}
	if w.exit != 0 && next.SP() > w.exit && w.at.SP() < w.exit && next.FP() != w.exit {
		return w.leap() // JavaScript frames were skipped
	}
	if w.exit != 0 && next.FP() == w.exit {
		w.exit = 0
	}
	w.reached = w.at.SP()
	w.at = next
	if kind, _ := w.codeAt(next.PC); kind == codeUnknown {
		return w.leap()
	}
	return true
}

// maxFrameBytes bounds the bytes between two frames; threads' stacks are smaller.
const maxFrameBytes = 16 << 20

// climb moves to the caller by the frame pointer.
func (w *walker) climb() bool {
	fp, known := w.at.Get(w.machine.arch.FP)
	if fp == w.exit {
		w.exit = 0
	}
	if known && fp == 0 && w.exit == 0 && w.machine.arch.HasLink() {
		return false // the chain of frames ends with 0 (AAPCS64)
	}
	if !known || fp == 0 || fp&7 != 0 || w.exit != 0 && fp > w.exit {
		return w.leap()
	}
	next, err := w.space.Word(fp)
	if err != nil {
		return w.leap()
	}
	pc, err := w.space.Word(fp + 8)
	if err != nil || pc == 0 {
		return w.leap()
	}
	pc &^= w.at.Signs
	kind, p := w.codeAt(pc)
	if next <= fp || next-fp > maxFrameBytes {
		// The outermost frame, or the frame pointer was scratch below it.
		if w.exit > w.reached {
			return w.leap()
		}
		w.at.Climb(pc, fp, next)
		if kind == codeNative || kind == codeBuiltin {
			w.push(w.called(p))
		}
		w.stack.Broken = kind != codeNative
		return false
	}
	if w.exit != 0 && next > w.exit && fp < w.exit {
		return w.leap() // JavaScript frames were skipped: the frame pointer was scratch
	}
	if next == w.exit {
		w.exit = 0
	}
	if kind == codeUnknown {
		return w.leap()
	}
	w.reached = fp
	w.at.Climb(pc, fp, next)
	return true
}

// leap resumes unwinding at V8's newest exit frame, or ends it.
func (w *walker) leap() bool {
	fp := w.exit
	if fp == 0 || fp <= w.reached {
		w.stack.Broken = true
		return false
	}
	w.exit = 0
	w.push(symbolize.Frame{Name: symbolize.Broken})
	w.at.Set(0, 0, fp)
	return true
}
