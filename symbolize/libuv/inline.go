package libuv

import (
	"maps"
	"slices"

	"golang.org/x/arch/x86/x86asm"
)

// A compiler may guess which function a pointer leads to and inline that function:
// uv__work_done then compares a job's `done` with uv__queue_done and, if they are
// equal, does the same without calling it (gcc at -O2 in Debian's libuv 1.53).

// A Completion is a place at which a job completes without a call.
type Completion struct {
	At       int    // offset in the function
	Register int    // the processor's number of one that holds an address in the job
	Offset   uint64 // of that address within the job
}

// Offsets in struct uv__work (include/uv/threadpool.h).
const workDone = 8

// maxAhead bounds how many instructions after a comparison are searched for a place
// where a probe is cheap.
const maxAhead = 16

// FindCompletion finds where the function at address start contains the code of the one at
// done instead of a call. There, as for a call, the job's status is in the register
// of the second argument. It also reports whether the function refers to done at all.
func FindCompletion(code []byte, start, done uint64) (c Completion, found, mentioned bool) {
	joins := jumps(code)
	k := known{done: done, holders: make(map[x86asm.Reg]bool), loads: make(map[x86asm.Reg]field)}
	var compared field
	equal := false // the flags are those of a comparison of that field with done
	for at, inst := range instructions(code) {
		if joins[at] {
			clear(k.loads)
			equal = false
		}
		if to, ok := jump(at, inst); ok && equal {
			switch inst.Op {
			case x86asm.JNE:
				to = at + inst.Len
				fallthrough
			case x86asm.JE:
				c, found = completionAt(code, to, compared)
				return c, found, true
			}
		}
		switch inst.Op {
		case x86asm.CMP:
			compared, equal = k.compared(inst)
		case x86asm.TEST, x86asm.PUSH:
			equal = equal && inst.Op == x86asm.PUSH
		default:
			equal = equal && slices.Contains(flagless, inst.Op)
			k.follow(inst, start+uint64(at+inst.Len))
		}
	}
	return c, false, k.mentioned
}

// flagless are the instructions between a comparison and its jump that do not change
// the flags.
var flagless = []x86asm.Op{x86asm.MOV, x86asm.LEA, x86asm.NOP, x86asm.CMOVE, x86asm.CMOVNE}

// completionAt returns where to probe on the path that begins at offset to, at which
// field is uv__work.done.
func completionAt(code []byte, to int, f field) (Completion, bool) {
	c := Completion{At: to, Register: number64(f.base), Offset: uint64(workDone - f.offset)}
	if to < 0 || to >= len(code) || f.offset > workDone || workDone-f.offset > workLink {
		return c, false
	}
	ahead := 0
	for at, inst := range instructions(code[to:]) {
		if isEmulated(inst) {
			c.At = to + at
			break
		}
		written, _ := inst.Args[0].(x86asm.Reg)
		if ahead++; ahead > maxAhead || full(written) == f.base || full(written) == x86asm.RSI || inst.Op == x86asm.CALL || inst.Op == x86asm.RET {
			break
		}
	}
	return c, true
}

// A field is in memory, at an offset from a register's value.
type field struct {
	base   x86asm.Reg
	offset int64
}

// known is what is known about registers.
type known struct {
	done      uint64
	holders   map[x86asm.Reg]bool  // those that hold done
	loads     map[x86asm.Reg]field // where others were loaded from
	mentioned bool                 // done has been referred to
}

// compared returns the field that an instruction compares with done, false if it
// compares something else.
func (k *known) compared(inst x86asm.Inst) (field, bool) {
	for i := range 2 {
		switch v := inst.Args[i].(type) {
		case x86asm.Reg:
			if !k.holders[v] {
				continue
			}
		case x86asm.Imm:
			if uint64(v) != k.done {
				continue
			}
			k.mentioned = true
		default:
			continue
		}
		switch other := inst.Args[1-i].(type) {
		case x86asm.Reg:
			f, ok := k.loads[other]
			return f, ok
		case x86asm.Mem:
			return field{other.Base, other.Disp}, other.Index == 0 && other.Segment == 0
		}
	}
	return field{}, false
}

// follow applies an instruction; next is the address of the one after it.
func (k *known) follow(inst x86asm.Inst, next uint64) {
	if inst.Op == x86asm.CALL {
		lost := func(r x86asm.Reg) bool { return !slices.Contains(saved, r) }
		maps.DeleteFunc(k.holders, func(r x86asm.Reg, _ bool) bool { return lost(r) })
		clear(k.loads)
		return
	}
	to, ok := inst.Args[0].(x86asm.Reg)
	if !ok {
		return
	}
	written := full(to)
	var loaded *field
	if from, ok := inst.Args[1].(x86asm.Mem); ok && inst.Op == x86asm.MOV && from.Base != 0 && from.Index == 0 && from.Segment == 0 {
		loaded = &field{from.Base, from.Disp}
	}
	maps.DeleteFunc(k.loads, func(r x86asm.Reg, f field) bool { return r == written || f.base == written })
	delete(k.holders, written)
	if loaded != nil && to == written && loaded.base != written {
		k.loads[to] = *loaded
	}
	if k.isDone(inst, next) {
		k.holders[written], k.mentioned = true, true
	}
}

// isDone reports whether an instruction loads the address done into a register.
func (k *known) isDone(inst x86asm.Inst, next uint64) bool {
	switch from := inst.Args[1].(type) {
	case x86asm.Mem:
		return inst.Op == x86asm.LEA && isFixed(from) && next+distance(from) == k.done
	case x86asm.Imm:
		return inst.Op == x86asm.MOV && uint64(from) == k.done
	}
	return false
}
