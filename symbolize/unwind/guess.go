package unwind

import (
	"bytes"
	"slices"

	"ustack/symbolize/unwind/x86"
)

// An attempt is what code says of a state that was assumed for it. Functions return with
// the stack as it was when they were called.
type attempt struct {
	on      bool
	from    byte // the state
	agreed  bool
	refused bool
	wrong   int32    // bytes that the assumed depth has too much, if that was seen
	set     []uint32 // marks that were set
	out     []jump   // to other functions
}

// A jump leads to another function in a state.
type jump struct {
	to    uint32
	state state
}

func (f *flow) agree() { f.attempt.agreed = true }

func (f *flow) refuse() { f.attempt.refused = f.attempt.on }

// disagree refuses a state whose depth is wrong by so many bytes.
func (f *flow) disagree(wrong int32) {
	f.refuse()
	if f.attempt.wrong == 0 {
		f.attempt.wrong = wrong
	}
}

// fill finds the states of code that nothing is known to lead to.
func (f *flow) fill() {
	for at := 0; ; {
		next := bytes.IndexByte(f.marks[at:], unreached)
		if next < 0 {
			return
		}
		at += next
		i := x86.Decode(f.code[at:])
		if i.Kind != x86.Nop && i.Kind != x86.Trap && f.code[at] != 0 {
			f.guess(at)
			continue
		}
		for b := at; b < min(at+int(i.Length), len(f.marks)); b++ {
			f.marks[b] = inside
		}
	}
}

// guess finds the state of the code at a place by what it does later.
func (f *flow) guess(at int) {
	possible, corrected := byte(noState), state{}
	for _, n := range append(f.candidates(at), f.number(state{depth: deep})) {
		if f.try(at, n) {
			return
		}
		if s := f.states[n]; f.attempt.wrong != 0 && corrected.depth == 0 {
			corrected = f.like(s.depth-f.attempt.wrong, s.saved)
		} else if !f.attempt.refused && possible == noState && s.depth < deep {
			possible = n
		}
	}
	if corrected.depth > 0 && f.try(at, f.number(corrected)) {
		return
	}
	f.attempt = attempt{set: f.attempt.set, out: f.attempt.out}
	f.wait(at, possible)
	f.follow()
}

// candidates returns the states that the code at a place may have, the most likely first.
func (f *flow) candidates(at int) []byte {
	if i := slices.IndexFunc(f.loops, func(l loop) bool { return l.end == at }); i >= 0 {
		return []byte{f.loops[i].state}
	}
	start, all := f.number(entry), make([]byte, 0, 4)
	if f.image.likely.has(f.start + uint32(at)) {
		all = append(all, start)
	}
	for _, n := range []byte{f.table, f.body(at), start} {
		if n != noState && !slices.Contains(all, n) {
			all = append(all, n)
		}
	}
	return all
}

// body returns the state of the last call or branch before a place.
func (f *flow) body(at int) byte {
	const near = 256 // bytes
	for b := at - 1; b >= max(0, at-near); b-- {
		m := f.marks[b]
		if m&visited == 0 {
			continue
		}
		switch x86.Decode(f.code[b:]).Kind {
		case x86.Call, x86.CallOther, x86.Branch:
			return m &^ visited
		}
	}
	return noState
}

// like returns a state of the function with a depth, or one with the frame pointer where
// saved says; none if the depth is impossible.
func (f *flow) like(depth, saved int32) state {
	if depth < entry.depth {
		return state{}
	}
	for _, s := range f.states[noState+1:] {
		if s.depth == depth && s.frame == 0 {
			return s
		}
	}
	if saved > depth {
		saved = 0
	}
	return state{depth: depth, saved: saved}
}

// try follows the code at a place as if it were in a state. It is false, and has no
// effect, unless what follows confirms that.
func (f *flow) try(at int, n byte) bool {
	f.attempt = attempt{on: true, from: n, set: f.attempt.set[:0], out: f.attempt.out[:0]}
	f.image.work += 4 // an attempt costs as much as some instructions
	f.wait(at, n)
	f.follow()
	f.attempt.on = false
	if f.attempt.refused || !f.attempt.agreed {
		for _, at := range f.attempt.set {
			f.marks[at] = unreached
		}
		return false
	}
	for _, j := range f.attempt.out {
		f.image.jump(j.to, j.state)
	}
	return true
}
