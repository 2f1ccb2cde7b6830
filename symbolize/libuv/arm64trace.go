package libuv

import (
	"encoding/binary"

	"ustack/symbolize/arm64"
)

// An armTracer is a tracer of arm64's code.
type armTracer struct {
	registers arm64.Registers
	start     uint64                                    // address of the function
	code      []byte                                    // of it
	constant  func(at uint64) (address uint64, ok bool) // reads an address that does not change
	jumps     map[int]arm64.Registers                   // what is known at the targets of its jumps, by place
	stable    bool                                      // no jump was found to know less than in the pass before
	effects
}

// traceARM is traceCode for arm64.
func traceARM(code []byte, start uint64, constant func(uint64) (uint64, bool)) effects {
	t := &armTracer{start: start, code: code, constant: constant, jumps: make(map[int]arm64.Registers)}
	for pass := 0; pass < maxPasses && !t.stable; pass++ {
		if !t.pass() {
			return effects{}
		}
	}
	if !t.stable {
		return effects{}
	}
	return t.effects
}

// pass goes through the code once; false if it jumps to an unknown place.
func (t *armTracer) pass() bool {
	t.effects, t.stable, t.registers = effects{}, true, arm64.AtStart()
	reached := true // by the preceding instruction
	for at := 0; at+instructionBytes <= len(t.code); at += instructionBytes {
		t.arrive(at, reached)
		address := t.start + uint64(at)
		i := arm64.Instruction(binary.LittleEndian.Uint32(t.code[at:]))
		e := i.Event(&t.registers, address)
		const kindMask, jump = 0xfffffc1f, 0xd61f0000 // br
		switch {
		case uint32(i)&kindMask == jump && t.registers[i>>5&31].Of == arm64.Number: // to another library
			t.note(step{leaves: true})
		case uint32(i)&kindMask == jump:
			return false
		case e.Call && e.Target != 0:
			t.note(step{target: e.Target})
		case e.Leaves && e.Target != 0, e.Branches:
			t.leave(e)
		}
		t.store(e)
		i.Follow(&t.registers, e, address)
		t.load(e)
		reached = !e.Leaves
	}
	return true
}

func (t *armTracer) note(s step) {
	for i := range s.arguments {
		s.arguments[i] = known64(t.registers[i])
	}
	t.calls = append(t.calls, s)
}

// known64 returns what a tracer of arm64's code knows as a value.
func known64(v arm64.Value) value {
	switch v.Of {
	case arm64.Number:
		return value{number, uint64(v.N)}
	case arm64.Argument:
		return value{argument + origin(v.At), uint64(v.N)}
	}
	return value{}
}

const wordBytes = 8

func (t *armTracer) store(e arm64.Event) {
	for _, a := range e.Accesses {
		if a.Store && a.Size == wordBytes {
			t.stores = append(t.stores, store{known64(a.Address()), known64(a.What)})
		}
	}
}

// load sets registers that were loaded from what does not change.
func (t *armTracer) load(e arm64.Event) {
	for _, a := range e.Accesses {
		if a.Store || a.Size != wordBytes || a.Register == arm64.SP || a.What.Of != arm64.Variable {
			continue
		}
		if n, ok := t.constant(uint64(a.What.At)); ok {
			t.registers[a.Register] = arm64.Value{Of: arm64.Number, N: int64(n)}
		}
	}
}

// leave carries the registers to the target of a jump, or notes that it leaves the function.
func (t *armTracer) leave(e arm64.Event) {
	at := int(e.Target - t.start)
	if e.Target-t.start >= uint64(len(t.code)) {
		if e.Leaves {
			t.note(step{target: e.Target, leaves: true})
		}
		return
	}
	known, ok := t.jumps[at]
	if !ok {
		t.jumps[at] = t.registers
		t.stable = false
		return
	}
	if keep(&known, &t.registers) {
		t.jumps[at] = known
		t.stable = false
	}
}

// keep keeps of what is known what is the same in other, and reports whether that is less.
func keep(known, other *arm64.Registers) (less bool) {
	for i := range known {
		if known[i].Of != arm64.Opaque && known[i] != other[i] {
			known.Forget(i, i+1)
			less = true
		}
	}
	return less
}

// arrive sets the registers to what is known at a place, which the preceding instruction may
// also reach.
func (t *armTracer) arrive(at int, reached bool) {
	known, jumped := t.jumps[at]
	switch {
	case !reached && !jumped: // a landing pad, say
		t.registers.Forget(0, len(t.registers))
	case !reached:
		t.registers = known
	case jumped:
		keep(&t.registers, &known)
	}
}

// mentionsARM is mentions for arm64.
func (im *Image) mentionsARM(address uint64) map[uint64]bool {
	all := make(map[uint64]bool)
	for _, to := range addresses(im.code(address), address) {
		if v, ok := im.constant(to); ok && im.starts(v) {
			all[v] = true
		}
		if im.starts(to) {
			all[to] = true
		}
	}
	return all
}

// callsWithinARM is callsWithin for arm64.
func (im *Image) callsWithinARM(address uint64) bool {
	var code [instructionBytes]byte
	if !im.read(code[:], address-instructionBytes) {
		return false
	}
	i := arm64.Instruction(binary.LittleEndian.Uint32(code[:]))
	e := i.Event(new(arm64.Registers), address-instructionBytes)
	if !e.Call || e.Target == 0 {
		return e.Call
	}
	if im.starts(e.Target) {
		return true
	}
	// An entry of the procedure linkage table: adrp, ldr, add, br.
	var entry [4 * instructionBytes]byte
	if !im.read(entry[:], e.Target) {
		return false
	}
	for _, to := range addresses(entry[:], e.Target) {
		return im.pointsWithin(to)
	}
	return false
}
