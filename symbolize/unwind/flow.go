package unwind

import (
	"iter"
	"slices"

	"ustack/symbolize/unwind/x86"
)

// A mark says for a byte of code what a flow knows of it: the number of a state, with
// visited once the instruction was followed.
const (
	unreached = 0
	inside    = 1 // of an instruction, or padding
	noState   = 2 // a state that is not known
	maxStates = 1 << 7
	visited   = 1 << 7
)

// A flow follows the code of one function, and of what is between it and the next one
// that is known.
type flow struct {
	image   *image
	start   uint32
	code    []byte // with what follows the function
	marks   []byte // of the function's bytes
	states  []state
	table   byte   // the state in which control has continued where a table says
	loops   []loop // that move the stack pointer
	attempt attempt

	waiting   set // code that jumps lead to and that was not followed yet
	low, high int // which is not before low, and before high
}

// A loop moves the stack pointer each time.
type loop struct {
	end   int
	state byte // at its end, with another depth
}

// number returns the number of a state.
func (f *flow) number(s state) byte {
	if !s.known() {
		return noState
	}
	for i := len(f.states) - 1; i > noState; i-- {
		if f.states[i] == s {
			return byte(i)
		}
	}
	if len(f.states) == maxStates {
		return noState
	}
	f.states = append(f.states, s)
	return byte(len(f.states) - 1)
}

// analyze finds the states of all instructions from start to end.
func (f *flow) analyze(start, end uint32) {
	size := int(end - start)
	f.start, f.code = start, f.image.from(start)
	f.marks = cleared(f.marks, size)
	f.waiting.words = cleared(f.waiting.words, size/64+1)
	f.states = append(f.states[:0], state{}, state{}, state{}) // the first ones have no number
	f.low, f.high, f.loops, f.table = size, 0, f.loops[:0], noState
	for to := f.image.jumped.next(start, end); to < end; to = f.image.jumped.next(to+1, end) {
		f.wait(int(to-start), f.number(f.image.jumps[to]))
	}
	if f.image.starts.has(start) {
		f.wait(0, f.number(entry))
	}
	f.attempt = attempt{set: f.attempt.set, out: f.attempt.out}
	f.follow()
	f.fill()
}

// cleared returns n zeros, in the memory of s if that is enough.
func cleared[T any](s []T, n int) []T {
	s = slices.Grow(s[:0], n)[:n]
	clear(s)
	return s
}

// wait notes that the code at a place, which is in a state, is to be followed.
func (f *flow) wait(at int, n byte) {
	f.mark(at, n)
	f.waiting.add(uint32(at))
	f.low, f.high = min(f.low, at), max(f.high, at+1)
}

// follow finds the states of the code that waits and of the code that it jumps to, by
// address as far as possible: what a call seems to return to may be other code, behind a
// call that does not return, to which an earlier jump leads.
func (f *flow) follow() {
	const maxRounds = 32
	for range maxRounds {
		low, high := uint32(f.low), uint32(f.high)
		if f.low = len(f.marks); low >= high {
			break
		}
		f.image.work += int(high-low) / 64
		for at := f.waiting.next(low, high); at < high; at = f.waiting.next(at+1, uint32(f.high)) {
			high = uint32(f.high)
			f.waiting.remove(at)
			if m := f.marks[at]; m > inside && m&visited == 0 && !f.attempt.refused {
				f.run(int(at), m)
			}
		}
	}
	f.high = 0
}

// run follows the code at a place up to where control does not continue.
func (f *flow) run(at int, n byte) {
	called := false
	for at < len(f.marks) {
		switch m := f.marks[at]; {
		case m == unreached:
		case m == inside:
			f.refuse()
			return
		case m&visited != 0:
			if !called {
				f.meet(n, m&^visited)
			}
			return
		case m != n: // a jump leads here, too
			if !called {
				f.meet(n, m)
			}
			n = m
		}
		f.image.work++
		i := x86.Decode(f.code[at:])
		if called && i.Kind == x86.Nop { // padding: the call may never return
			return
		}
		if i.Kind == x86.Invalid {
			n = noState
		}
		next := at + int(i.Length)
		f.mark(at, n|visited)
		for b := at + 1; b < min(next, len(f.marks)); b++ {
			if f.marks[b] == unreached { // else a jump leads behind a prefix
				f.mark(b, inside)
			}
		}
		if n = f.step(next, n, i); n == unreached {
			return
		}
		called = i.Kind == x86.Call || i.Kind == x86.CallOther
		at = next
	}
}

func (f *flow) mark(at int, m byte) {
	if f.marks[at] = m; f.attempt.on {
		f.attempt.set = append(f.attempt.set, uint32(at))
	}
}

// step returns the state after an instruction, which ends at next; unreached if control
// does not continue there.
func (f *flow) step(next int, n byte, i x86.Instruction) byte {
	s := f.states[n]
	switch i.Kind {
	case x86.Other, x86.Nop, x86.Call, x86.CallOther, x86.Address:
		return n
	case x86.Branch:
		return f.branch(next, next+int(i.Value), n)
	case x86.Jump:
		f.jump(next+int(i.Value), n)
		return unreached
	case x86.JumpOther:
		switch {
		case s != entry:
			f.table = n
		case f.attempt.from != n: // to another function
			f.agree()
		}
		return unreached
	case x86.Return:
		f.leave(n)
		return unreached
	case x86.Invalid:
		f.refuse()
		return unreached
	case x86.Trap, x86.Stop:
		return unreached
	}
	if n == noState {
		return n
	}
	after := s.after(i)
	if after.saved == lost || i.Kind == x86.Write && i.Reg != x86.R10 && s.depth == entry.depth ||
		after.depth == 0 && s.depth > 0 && i.Kind != x86.SetSP && i.Kind != x86.RegToSP {
		f.refuse()
	}
	return f.number(after)
}

// branch notes that control may continue at a place, in a state, and returns the state
// where it does not.
func (f *flow) branch(next, to int, n byte) byte {
	if f.jump(to, n) || to > next || f.attempt.on {
		return n
	}
	// A loop that moves the stack pointer: what follows tells how often it did.
	for at := to; at < next; at++ {
		if f.marks[at]&visited != 0 {
			f.marks[at] = noState | visited
		}
	}
	f.loops = append(f.loops, loop{next, f.number(state{depth: deep, saved: f.states[n].saved})})
	return unreached
}

// jump notes that control may continue at a place, in a state. It is false if that is not
// the state in which other code leads there.
func (f *flow) jump(to int, n byte) bool {
	if to < 0 || to >= len(f.marks) {
		f.jumpOut(f.start+uint32(to), n)
		return true
	}
	switch m := f.marks[to]; {
	case m == inside:
		f.refuse()
	case m == unreached:
		f.wait(to, n)
	default:
		return f.meet(n, m&^visited)
	}
	return true
}

// jumpOut notes a jump to another function: to its start, if the state is as for a call,
// or to a part of this one that is elsewhere.
func (f *flow) jumpOut(to uint32, n byte) {
	switch {
	case n == noState:
	case f.image.starts.has(to):
		f.leave(n)
	case to > f.start: // was analyzed
	case f.attempt.on:
		f.attempt.out = append(f.attempt.out, jump{to, f.states[n]})
	default:
		f.image.jump(to, f.states[n])
	}
}

// leave notes that the function returns to its caller in a state.
func (f *flow) leave(n byte) {
	if n == noState {
		return
	}
	switch s := f.states[n]; {
	case s.depth == entry.depth && s.saved == 0:
		f.agree()
	case s.depth > 0:
		f.disagree(s.depth - entry.depth)
	}
}

// meet compares two states of the same code. It is false if they contradict each other.
func (f *flow) meet(n, known byte) bool {
	if n == noState || known == noState {
		return true
	}
	a, b := f.states[n], f.states[known]
	switch {
	case a.saved == b.saved && (a.depth == b.depth && a.depth > 0 || a.frame > 0 && a.frame == b.frame || a.depth == 0 && a.row() == b.row()):
		f.agree()
		return true
	case a.depth == 0 || b.depth == 0:
		f.refuse()
	default:
		f.disagree(a.depth - b.depth)
	}
	return false
}

// changes returns the states of the code, by the place from which on they hold.
func (f *flow) changes() iter.Seq2[int, state] {
	return func(yield func(int, state) bool) {
		last := byte(unreached)
		for at, m := range f.marks {
			if m == last || m == inside {
				continue
			}
			if last = m; m&visited == 0 {
				m = noState
			}
			if !yield(at, f.states[m&^visited]) {
				return
			}
		}
	}
}
