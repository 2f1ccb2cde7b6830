package addonlat

import (
	"debug/elf"

	"golang.org/x/arch/x86/x86asm"

	"ustack/tools/ustack"
)

// A function that hands a job over as the last thing it does has no frame any more
// when it does: its call has become a jump. Its caller is the one on the stack then.
// That a function was left so is seen in the caller, which called something else than
// what hands jobs over; and which one it was, by the job's work: there is but one
// function in the add-on that speaks of it.

// Bounds on what is searched of an add-on: larger ones are not.
const (
	maxText   = 64 << 20 // bytes of code
	maxData   = 1 << 20  // bytes of data, which is read word by word
	maxPlaces = 64       // that refer to one function, or seem to
)

// jumpedFrom returns the name of the function that was left by a jump before the
// stack's first frame, empty if none was or if it is not known for certain. The
// second frame is the job's work.
func jumpedFrom(t *ustack.Table, stack ustack.Stack) string {
	m, addresses := t.Leaf(stack)
	if m == nil || len(addresses) < 2 {
		return ""
	}
	im, err := openImage(m, m.Pointer)
	if err != nil || !im.callsWithin(addresses[0]) {
		return "" // its frames are all that is known
	}
	return m.Name(im.submitterOf(addresses[1]))
}

// callsWithin reports whether the call that returns to address is of a function of
// the same file, or through a register.
func (im *image) callsWithin(address uint64) bool {
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

// linksWithin reports whether at address, in the linkage table, is a jump to a
// function of the same file.
func (im *image) linksWithin(address uint64) bool {
	var code [16]byte // an entry has as many
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

// pointsWithin reports whether the loader has put the address of a function of the
// same file at an address.
func (im *image) pointsWithin(at uint64) bool {
	address, ok := im.pointer(at)
	return ok && im.starts(address)
}

// submitterOf returns the only function that gives work as an argument to another
// and is left by a jump; 0 if there is not one, or another speaks of work.
func (im *image) submitterOf(work uint64) uint64 {
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

func (im *image) submits(start, work uint64) bool {
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
// distance in an instruction that does not just call what is there; or may be, for all
// that is known.
func (im *image) isOperand(start, place uint64) bool {
	for at, inst := range instructions(im.code(start)) {
		if start+uint64(at+inst.Len) > place {
			calls := inst.Op == x86asm.CALL || inst.Op == x86asm.JMP
			return !calls && inst.PCRel == 4 && start+uint64(at+inst.PCRelOff) == place
		}
	}
	return true
}

// references returns the places in the code that hold the distance to an address, or
// to where the loader has put it: they need not be instructions' operands. None if
// they are too many, or if it is kept somewhere else, to be used who knows where.
func (im *image) references(address uint64) []uint64 {
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
		for i := 0; i+4 <= len(text); i++ {
			at := p.Vaddr + uint64(i)
			to := relative(text[i:], at+4)
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

// kept returns where in the file's data an address is, false if that is too much to
// be searched.
func (im *image) kept(address uint64) (at map[uint64]bool, ok bool) {
	at = make(map[uint64]bool)
	for _, p := range im.file.Progs {
		if p.Type != elf.PT_LOAD || p.Flags&elf.PF_W == 0 {
			continue
		}
		if p.Filesz > maxData {
			return nil, false
		}
		const pointer = 8 // bytes, and what they are aligned to
		for i := (p.Vaddr + pointer - 1) &^ (pointer - 1); i < p.Vaddr+p.Filesz; i += pointer {
			if v, ok := im.pointer(i); ok && v == address {
				at[i] = true
			}
		}
	}
	return at, true
}
