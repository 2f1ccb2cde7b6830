package libuv

import (
	"debug/elf"
	"encoding/binary"
	"iter"
)

// On arm64, the kernel emulates branches at which a probe is, and has the processor single-step
// other instructions.

// A Site is a function that is probed, of a file for an architecture.
type Site struct {
	Function
	Machine elf.Machine
}

// Entry returns where in the function to put a probe that sees its first n arguments and
// the stack as they are at its beginning.
func (s Site) Entry(n int) int {
	if s.Machine == elf.EM_AARCH64 {
		return 0
	}
	return Entry(s.Code, n)
}

// Call finds where worker() calls a job: see FindCall.
func (s Site) Call() (Call, bool) {
	if s.Machine == elf.EM_AARCH64 {
		return findLinkedCall(s.Code)
	}
	return FindCall(s.Code)
}

// Completion finds where the function contains the code of the one at done: see
// FindCompletion.
func (s Site) Completion(done uint64) (c Completion, found, mentioned bool) {
	if s.Machine == elf.EM_AARCH64 {
		return Completion{}, false, refers(s.Code, s.Address, done)
	}
	return FindCompletion(s.Code, s.Address, done)
}

// Instructions of arm64 (Arm Architecture Reference Manual, C4.1): their fixed bits, and those
// of them that are set.
const (
	loadMask, load = 0xfffffc00, 0xf85e8000 // ldur x, [x, #-24]
	moveLoad       = 0xf85e8c00             // ldr x, [x, #-24]!
	moveMask, move = 0xffe0ffe0, 0xaa0003e0 // mov from a register
	callMask, call = 0xfffffc1f, 0xd63f0000 // blr
	pageMask, adrp = 0x9f000000, 0x90000000
	addMask, add   = 0xffc00000, 0x91000000 // add, of an unsigned number
	loadWord       = 0xf9400000             // ldr x, at an unsigned offset

	instructionBytes = 4
	maxBetween       = 4 // instructions from the load to the call
)

// findLinkedCall finds "ldur x1, [link, #-24]", or "mov x21, link" and "ldr x1, [x21, #-24]!",
// and, soon after, "blr x1", with the link in a register that is kept by what is called. There
// is exactly one such call.
func findLinkedCall(code []byte) (c Call, found bool) {
	const firstSaved, lastSaved = 19, 28
	isSaved := func(register uint32) bool { return register >= firstSaved && register <= lastSaved }
	loaded, link, between := uint32(0), uint32(0), maxBetween
	before := uint32(0) // the instruction
	for at := 0; at+2*instructionBytes <= len(code); at += instructionBytes {
		word := binary.LittleEndian.Uint32(code[at:])
		base, from := word>>5&31, before>>16&31
		switch {
		case word&loadMask == load && isSaved(base):
			loaded, link, between = word&31, base, 0
		case word&loadMask == moveLoad && before&moveMask == move && before&31 == base && isSaved(from):
			loaded, link, between = word&31, from, 0
		case word&callMask == call && between < maxBetween && base == loaded:
			if found {
				return c, false
			}
			c, found = Call{Before: at, After: at + instructionBytes, Register: int(link)}, true
			between = maxBetween
		default:
			between++
		}
		before = word
	}
	return c, found
}

// refers reports whether code at an address computes another: adrp, and add soon after.
func refers(code []byte, address, to uint64) bool {
	for _, v := range addresses(code, address) {
		if v == to {
			return true
		}
	}
	return false
}

// addresses yields the places in code at an address that compute another, by adrp and then
// add, or load from it, and that one.
func addresses(code []byte, address uint64) iter.Seq2[uint64, uint64] {
	return func(yield func(at, to uint64) bool) {
		var pages [32]uint64
		var known uint32 // which registers have a page
		for at := 0; at+instructionBytes <= len(code); at += instructionBytes {
			word := binary.LittleEndian.Uint32(code[at:])
			place, base := address+uint64(at), word>>5&31
			if word&pageMask == adrp {
				distance := int64(int32(word<<8)>>13)<<2 | int64(word>>29&3)
				pages[word&31] = place & ^uint64(0xfff) + uint64(distance<<12)
				known |= 1 << (word & 31)
				continue
			}
			number := uint64(word >> 10 & 0xfff)
			switch {
			case known>>base&1 == 0:
				continue
			case word&addMask == loadWord:
				number *= 8
			case word&addMask != add:
				continue
			}
			if !yield(place, pages[base]+number) {
				return
			}
		}
	}
}
