package unwind

import "ustack/symbolize/unwind/x86"

// A state is where the frame of a function of x86-64 is while it executes an instruction.
type state struct {
	depth int32 // bytes from the stack pointer to the caller's frame; 0: not known
	frame int32 // bytes from the frame pointer to it, while that points into the frame; or 0
	saved int32 // bytes below it is the caller's frame pointer; 0: in the register; or lost
	aligned
}

// An aligned frame is one that the stack pointer was aligned for. A register, and later a
// slot of the frame, has where the caller's frame begins.
type aligned struct {
	register uint8
	live     bool  // the register has it
	here     bool  // the caller's frame pointer is where the frame pointer points
	slot     int32 // bytes from there to the slot; 0: none
	pushed   int32 // bytes pushed since the alignment, until there is a slot
	fpAt     int32 // of which after so many the frame pointer is
}

const (
	lost = -1 // the saved of a state: the caller's frame pointer was overwritten

	maxDepth = 1 << 18      // bytes
	deep     = maxDepth / 2 // assumed where it is not known: enough for all that is popped later
)

// entry is the state in which functions are called.
var entry = state{depth: 8}

// row returns the state as a Row without its address.
func (s state) row() Row {
	if s.saved == lost || s.saved%8 != 0 || s.saved/8 >= FPHere {
		return Row{}
	}
	r := Row{FP: uint8(s.saved / 8)}
	if s.here {
		r.FP = FPHere
	}
	switch {
	case s.frame == 16 && s.saved == 16: // the usual frame, in which the depth may change often
		r.Base, r.Distance = FromFP, 2
	case s.depth > 0 && s.depth%8 == 0:
		r.Base, r.Distance = FromSP, uint16(s.depth/8)
	case s.frame > 0 && s.frame%8 == 0:
		r.Base, r.Distance = FromFP, uint16(s.frame/8)
	case s.here && s.slot != 0 && s.slot%8 == 0 && s.slot/8 >= -maxSlot:
		r.Base, r.Distance = SavedAtFP, savedAt(int64(s.slot/8), 0)
	case s.live:
		r.Base = Register + Base(s.register)
	default:
		return Row{}
	}
	return r
}

// known reports whether a row can be made of s.
func (s state) known() bool { return s.row() != Row{} }

// grow notes that the stack pointer has moved down by n bytes.
func (s *state) grow(n int32) {
	if s.depth == 0 || n > maxDepth || n < -maxDepth {
		s.depth = 0
		return
	}
	s.depth += n
	if s.depth < 8 || s.depth > maxDepth {
		s.depth = 0
	}
	if n < 0 && s.saved > s.depth { // it was pushed for another purpose
		s.saved = 0
	}
}

// after returns the state after an instruction.
func (s state) after(i x86.Instruction) state {
	if s.align(i) {
		return s
	}
	switch i.Kind {
	case x86.Push:
		s.grow(8)
		if i.Reg == x86.FP && s.saved == 0 {
			s.saved = s.depth
		}
	case x86.Pop:
		if i.Reg == x86.FP {
			s.restore(s.depth)
		}
		s.grow(-8)
	case x86.AddSP:
		s.grow(-i.Value)
	case x86.SetSP, x86.RegToSP:
		s.depth = 0
	case x86.FPToSP:
		if s.depth = 0; s.frame > 0 {
			s.depth = s.frame
			s.grow(-i.Value)
		}
	case x86.SPToFP:
		s.overwrite()
		if s.depth > 0 && s.depth > i.Value && s.depth-i.Value <= maxDepth {
			s.frame = s.depth - i.Value
		}
	case x86.SaveFP:
		if at := s.depth - i.Value; s.saved == 0 && s.depth > 0 && at > 8 && at <= maxDepth {
			s.saved = at
		}
	case x86.RestoreFP:
		s.restore(s.depth - i.Value)
	case x86.Leave:
		s.depth = s.frame
		s.restore(s.frame)
		s.grow(-8)
	case x86.Write:
		if i.Reg == x86.FP {
			s.overwrite()
		}
	}
	return s
}

// overwrite notes that the frame pointer has other data from now on.
func (s *state) overwrite() {
	if s.frame = 0; s.saved == 0 {
		s.saved = lost
	}
}

// restore notes that the frame pointer is what the stack has, so many bytes below the
// frame.
func (s *state) restore(at int32) {
	if s.saved > 0 && s.saved == at {
		s.frame, s.saved = 0, 0
		return
	}
	s.overwrite()
}

// align notes what an instruction does to an aligned frame, or to the register that one
// will need. It is false if that is not all.
func (s *state) align(i x86.Instruction) bool {
	if i.Kind == x86.SPToReg && s.depth > 0 && s.depth == i.Value && i.Reg >= 8 {
		s.aligned = aligned{register: i.Reg, live: true}
		return true
	}
	if s.register == 0 {
		return false
	}
	if i.Reg == s.register {
		switch i.Kind {
		case x86.RegToSP:
			if s.live && !s.here {
				s.depth, s.aligned = 0, aligned{}
				s.depth = max(0, -i.Value)
				return true
			}
		case x86.Write, x86.SPToReg, x86.LoadReg, x86.Pop:
			s.live = i.Kind == x86.Pop && s.slot != 0 || i.Kind == x86.LoadReg && i.Value == s.slot
		}
	}
	return s.depth == 0 && s.frame == 0 && s.inAligned(i)
}

// inAligned does so once the stack pointer was aligned.
func (s *state) inAligned(i x86.Instruction) bool {
	switch i.Kind {
	case x86.Push:
		if s.slot != 0 {
			return true
		}
		s.pushed += 8
		switch {
		case i.Reg == x86.FP && !s.here:
			s.fpAt = s.pushed
		case i.Reg == s.register && s.here:
			s.slot, s.pushed, s.fpAt = s.fpAt-s.pushed, 0, 0
		}
		return true
	case x86.SPToFP:
		s.here = s.fpAt > 0 && s.pushed == s.fpAt && i.Value == 0
		return s.here
	case x86.Pop, x86.Leave:
		if s.here && (i.Kind == x86.Leave || i.Reg == x86.FP) {
			s.here, s.slot = false, 0
			return true
		}
		return i.Reg != x86.FP
	}
	return false
}
