package libuv

import (
	"debug/elf"
	"iter"

	"golang.org/x/arch/x86/x86asm"
)

// A function that submits in tail position is not on the stack: the compiler turned the
// call into a jump. Its caller is on the stack instead. That a function was left this
// way shows in the caller, which called something other than what submits jobs. The
// job's work shows which function it was: only one function in the add-on refers to it.

// Limits on what is searched of an add-on: larger ones are not searched.
const (
	maxText   = 64 << 20 // bytes of code
	maxData   = 1 << 20  // bytes of data, read word by word
	maxPlaces = 64       // that refer to one function, or seem to
)

// Submitter returns the start of the function that was left by a tail call before the
// frame that returned, an address in its caller, belongs to; 0 if there was none or it
// is not known for certain. work is the function that the job runs.
func (im *Image) Submitter(returned, work uint64) uint64 {
	if !im.callsWithin(returned) {
		return 0 // nothing but its frames is known
	}
	return im.submitterOf(work)
}

// callsWithin reports whether the call that returns to address calls a function of the
// same file, or goes through a register.
func (im *Image) callsWithin(address uint64) bool {
	if im.file.Machine == elf.EM_AARCH64 {
		return im.callsWithinARM(address)
	}
	start := im.start(address - 1)
	for at, inst := range instructions(im.code(start)) {
		next := start + uint64(at+inst.Len)
		if next < address {
			continue
		}
		if next > address || inst.Op != x86asm.CALL {
			return false
		}
		switch to := inst.Args[0].(type) {
		case x86asm.Rel:
			return im.starts(next+uint64(to)) || im.linksWithin(next+uint64(to))
		case x86asm.Mem:
			return !isFixed(to) || im.pointsWithin(next+distance(to))
		}
		return true
	}
	return false
}

// linksWithin reports whether at address, in the procedure linkage table, is a jump to
// a function of the same file.
func (im *Image) linksWithin(address uint64) bool {
	var code [16]byte // the size of an entry
	if !im.read(code[:], address) {
		return false
	}
	for at, inst := range instructions(code[:]) {
		to, ok := inst.Args[0].(x86asm.Mem)
		if inst.Op == x86asm.JMP && ok && isFixed(to) {
			return im.pointsWithin(address + uint64(at+inst.Len) + distance(to))
		}
		if inst.Op != x86asm.NOP {
			break
		}
	}
	return false
}

// pointsWithin reports whether the loader has stored the address of a function of the
// same file at an address.
func (im *Image) pointsWithin(at uint64) bool {
	address, ok := im.pointer(at)
	return ok && im.starts(address)
}

// submitterOf returns the only function that passes work to another as an argument and
// is left by a tail call; 0 if there is not exactly one, or another refers to work.
func (im *Image) submitterOf(work uint64) uint64 {
	var submitter uint64
	for _, place := range im.references(work) {
		start := im.start(place)
		if start == 0 || start == submitter || !im.isOperand(start, place) {
			continue
		}
		if submitter != 0 || !im.submits(start, work) {
			return 0
		}
		submitter = start
	}
	return submitter
}

func (im *Image) submits(start, work uint64) bool {
	gives, leaves := false, false
	for _, s := range im.trace(start).calls {
		for _, v := range s.arguments {
			gives = gives || v == value{number, work}
		}
		leaves = leaves || s.leaves
	}
	return gives && leaves
}

// isOperand reports whether the bytes at place, in the function at start, are the
// distance in an instruction that does more than call its target, or may be.
func (im *Image) isOperand(start, place uint64) bool {
	if im.file.Machine == elf.EM_AARCH64 {
		return true
	}
	for at, inst := range instructions(im.code(start)) {
		if start+uint64(at+inst.Len) > place {
			calls := inst.Op == x86asm.CALL || inst.Op == x86asm.JMP
			return !calls && inst.PCRel == 4 && start+uint64(at+inst.PCRelOff) == place
		}
	}
	return true
}

// references returns the places in the code that hold the distance to an address, or to
// where the loader has stored it: they need not be operands of instructions. It returns
// none if there are too many, or if the address is stored elsewhere, for unknown uses.
func (im *Image) references(address uint64) []uint64 {
	kept, ok := im.kept(address)
	if !ok {
		return nil
	}
	used := make(map[uint64]bool)
	var places []uint64
	for _, p := range im.file.Progs {
		if p.Type != elf.PT_LOAD || p.Flags&elf.PF_X == 0 {
			continue
		}
		if p.Filesz > maxText {
			return nil
		}
		text := make([]byte, p.Filesz)
		if _, err := p.ReadAt(text, 0); err != nil {
			return nil
		}
		for at, to := range im.distances(text, p.Vaddr) {
			if to != address && !kept[to] {
				continue
			}
			used[to] = true
			places = append(places, at)
			if len(places) > maxPlaces {
				return nil
			}
		}
	}
	delete(used, address)
	if len(used) < len(kept) {
		return nil
	}
	return places
}

// distances yields the places in code at an address that may hold the distance to another, and
// that one.
func (im *Image) distances(text []byte, address uint64) iter.Seq2[uint64, uint64] {
	if im.file.Machine == elf.EM_AARCH64 {
		return addresses(text, address)
	}
	return func(yield func(at, to uint64) bool) {
		for i := 0; i+4 <= len(text); i++ {
			at := address + uint64(i)
			if !yield(at, relative(text[i:], at+4)) {
				return
			}
		}
	}
}

// kept returns where in the file's data an address is, false if there is too much data
// to search.
func (im *Image) kept(address uint64) (at map[uint64]bool, ok bool) {
	at = make(map[uint64]bool)
	for _, p := range im.file.Progs {
		if p.Type != elf.PT_LOAD || p.Flags&elf.PF_W == 0 {
			continue
		}
		if p.Filesz > maxData {
			return nil, false
		}
		const pointer = 8 // bytes, and their alignment
		for i := (p.Vaddr + pointer - 1) &^ (pointer - 1); i < p.Vaddr+p.Filesz; i += pointer {
			if v, ok := im.pointer(i); ok && v == address {
				at[i] = true
			}
		}
	}
	return at, true
}
