package stack

import (
	"errors"

	"ustack/symbolize"
	"ustack/symbolize/v8"
	"ustack/symbolize/v8/code"
)

// maxAwaiting bounds how many functions await one another, and the promises between two
// of them: these may form a cycle.
const maxAwaiting = 1 << 10

// findAwaiting adds what awaits the function in which the stack began, if V8 resumed that
// function after an await of its own.
func (w *walker) findAwaiting() {
	if w.v8.Heap == nil {
		return
	}
	for i := len(w.stack.Frames) - 1; i >= 0; i-- {
		f := w.stack.Frames[i]
		if f.Kind != symbolize.Builtin || f.Call.Function == 0 {
			continue
		}
		if generator := w.v8.Heap.Resumes(f.Call.Function); generator != 0 {
			w.stack.Awaiting = w.Awaiting(generator)
			return
		}
	}
}

// Awaiting returns the functions that await a generator or a call of an async function,
// nearest first. It follows the first waiter of each promise.
func (u *Unwinder) Awaiting(generator v8.Value) []Frame {
	var frames []Frame
	seen := map[v8.Value]bool{generator: true}
	for len(frames) < maxAwaiting {
		generator = u.awaiter(generator)
		if generator == 0 || seen[generator] {
			break
		}
		seen[generator] = true
		frames = append(frames, u.Suspended(generator))
	}
	return frames
}

// awaiter returns the generator that awaits another; 0 if none does.
func (u *Unwinder) awaiter(generator v8.Value) v8.Value {
	o, err := u.v8.Heap.Object(generator)
	if err != nil {
		return 0
	}
	g, err := u.v8.Heap.Generator(o)
	if err != nil {
		return 0
	}
	promise := u.v8.Heap.Awaits(o, g)
	for range maxAwaiting {
		o, err := u.v8.Heap.Object(promise)
		if err != nil {
			return 0
		}
		p, err := u.v8.Heap.Promise(o)
		if err != nil || len(p.Reactions) == 0 {
			return 0
		}
		first := p.Reactions[0]
		if first.Generator != 0 {
			return first.Generator
		}
		promise = u.v8.Heap.Settles(first)
	}
	return 0
}

// Suspended returns the frame of a generator or of a call of an async function, which is
// on no thread's stack while it waits.
func (u *Unwinder) Suspended(generator v8.Value) Frame {
	frame := Frame{Frame: symbolize.Frame{Kind: symbolize.JS, Name: symbolize.Unknown}, Offset: -1, Generator: generator}
	if u.v8.Heap == nil {
		frame.Trouble = errors.New("read generator: V8 is not known")
		return frame
	}
	o, err := u.v8.Heap.Object(generator)
	if err != nil {
		frame.Trouble = err
		return frame
	}
	g, err := u.v8.Heap.Generator(o)
	frame.Trouble = err
	if g.Function == 0 {
		return frame
	}
	frame.Call = code.Call{Function: g.Function, Context: g.Context, This: g.Receiver}
	f, err := u.Function(g.Function)
	if err != nil {
		frame.Trouble = errors.Join(frame.Trouble, err)
		return frame
	}
	frame.Frame = u.Named(f)
	frame.Script, frame.Shared = v8.Value(f.Script), u.sharedOf(g.Function)
	offset, err := code.Suspended(u.v8.Heap, g)
	frame.Trouble = errors.Join(frame.Trouble, err)
	u.execute(&frame, f, offset)
	return frame
}
