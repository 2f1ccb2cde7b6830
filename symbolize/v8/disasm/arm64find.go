package disasm

import (
	"encoding/binary"

	"ustack/symbolize/elfsym"
)

// counter finds a load of a u32, one added to it, and the store of the sum.
func (d arm64) counter(f *elfsym.File, s elfsym.Symbol) (offset int64) {
	for _, e := range d.trace(f, s) {
		for _, a := range e.accesses {
			if !a.store || a.size != 4 || a.what.of != field || a.what.n != 1 || a.base.of != opaque && a.base.of != argument {
				continue
			}
			at := a.address()
			if loaded := (value{of: field, at: at.n<<8 | at.at&0xff, n: 1}); a.what != loaded {
				continue
			}
			if offset != 0 && offset != at.n {
				return 0
			}
			offset = at.n
		}
	}
	return offset
}

// passed finds a call or jump with the first argument moved.
func (d arm64) passed(f *elfsym.File, s elfsym.Symbol) (offset int64) {
	for r, e := range d.trace(f, s) {
		if e.target == 0 {
			continue
		}
		if r[0].of == argument && r[0].at == 0 {
			return r[0].n
		}
		break
	}
	return 0
}

func (d arm64) savesFP(f *elfsym.File, s elfsym.Symbol) (offset int64, ok bool) {
	for _, e := range d.trace(f, s) {
		for _, a := range e.accesses {
			at := a.address()
			if a.store && a.register == armFP && at.of == opaque && at.at == rootRegister {
				return at.n, true
			}
		}
	}
	return 0, false
}

func (arm64) savesFPAt(builtins []byte, offset int64) bool {
	for _, e := range traceCode(builtins, 0) {
		for _, a := range e.accesses {
			if a.store && a.register == armFP && a.address() == (value{of: opaque, at: rootRegister, n: offset}) {
				return true
			}
		}
	}
	return false
}

// dispatch decodes "adrp x0; ldr x0, [x0, group]; ldr x0, [x0, offset]", or
// "ldr x0, [x0, isolate]".
func (d arm64) dispatch(f *elfsym.File, s elfsym.Symbol) (Dispatch, bool) {
	for _, e := range d.trace(f, s) {
		for _, a := range e.accesses {
			at := a.address()
			switch {
			case a.store || a.register != 0:
			case at.of == variable && at.n > 0:
				return Dispatch{Group: uint64(at.at), Offset: at.n}, true
			case at.of == argument && at.at == 0 && at.n > 0 && at.n < maxIsolate:
				return Dispatch{Isolate: uint32(at.n)}, true
			}
		}
		if e.leaves {
			break
		}
	}
	return Dispatch{}, false
}

// stores finds the first address of a constant that is stored where the second argument, or
// what was kept of it, says.
func (d arm64) stores(f *elfsym.File, s elfsym.Symbol) (constant uint64) {
	for _, e := range d.trace(f, s) {
		for _, a := range e.accesses {
			if a.store && a.size == wordBytes && a.what.of == number && a.what.n > maxIsolate && a.address() == (value{of: argument, at: 1}) {
				return uint64(a.what.n)
			}
		}
	}
	return 0
}

// loads finds "adrp x0; ldr x0, [x0, variable]" before the function returns.
func (d arm64) loads(f *elfsym.File, s elfsym.Symbol) uint64 {
	for r, e := range d.trace(f, s) {
		if e.leaves {
			if r[0].of == variable && r[0].n == 0 {
				return uint64(r[0].at)
			}
			break
		}
	}
	return 0
}

func (d arm64) returned(f *elfsym.File, address uint64) uint64 {
	return d.loads(f, elfsym.Symbol{Address: address})
}

// stored decodes what GetEmbeddedCodeRange stores where its second and third argument say.
func (d arm64) stored(f *elfsym.File, s elfsym.Symbol) (words BlobWords) {
	var result uint64 // of the last call: a variable
	for _, e := range d.trace(f, s) {
		if e.call {
			result = 0
			if e.target != 0 {
				result = d.returned(f, e.target)
			}
		}
		for _, a := range e.accesses {
			what := uint64(a.what.at)
			if a.what == (value{of: opaque}) {
				what = result
			} else if a.what.of != variable {
				continue
			}
			switch at := a.address(); {
			case !a.store:
			case at == value{of: argument, at: 1}:
				words.Code = what
			case at == value{of: argument, at: 2}:
				words.Size = what
			}
		}
		if e.leaves {
			break
		}
	}
	return words
}

// frameBuilderName is the symbol of the builtin, without which it is not found.
const frameBuilderName = "Builtins_BaselineOutOfLinePrologue"

// frameBuilder finds the builtin by its symbol. Code of the baseline compiler saves the frame
// pointer and the return address itself: the frame is complete when the builtin returns.
func (arm64) frameBuilder(f *elfsym.File, builtins []byte, offset uint64) FrameBuilder {
	s, ok := f.Symbol(frameBuilderName)
	start, inFile := f.Address(offset)
	if !ok || !inFile || s.Address <= start || s.Address-start >= uint64(len(builtins)) {
		return FrameBuilder{}
	}
	code := builtins[s.Address-start:]
	const ret = 0xd65f03c0
	for at := 0; at+4 <= len(code) && at < maxFunction; at += 4 {
		if binary.LittleEndian.Uint32(code[at:]) == ret {
			return FrameBuilder{Start: uint32(s.Address - start), ReturnsTo: uint16(at)}
		}
	}
	return FrameBuilder{}
}

const threadHeader = 16 // bytes at the thread pointer, before a program's variables

func (arm64) threadOffset(f *elfsym.File, variable uint64) int64 {
	align := max(f.TLSAlign(), 1)
	return int64((threadHeader+align-1)/align*align + variable)
}

// threadVariable decodes "mrs x0, tpidr_el0" and a load at an offset from it, which is in the
// instructions or in a variable.
func (d arm64) threadVariable(f *elfsym.File, at elfsym.Symbol) Slot {
	for _, e := range d.trace(f, at) { // it may merely jump to another
		if e.leaves && e.target != 0 {
			at = elfsym.Symbol{Address: e.target}
		}
		break
	}
	for _, e := range d.trace(f, at) {
		for _, a := range e.accesses {
			from := a.address()
			switch {
			case a.store || a.register != 0:
			case from.of == thread && from.n != 0:
				return Slot{Offset: from.n}
			case from.of == field && from.n == -1:
				return Slot{GOT: uint64(from.at)}
			}
		}
		if e.leaves {
			break
		}
	}
	return Slot{}
}

func (d arm64) accesses(f *elfsym.File, s elfsym.Symbol, indirect bool) map[int64]bool {
	offsets := map[int64]bool{}
	for _, e := range d.trace(f, s) {
		for _, a := range e.accesses {
			at := a.address()
			isFrame := at.of == opaque && (at.at == armSP || at.at == armFP)
			if isFrame || at.of == number || indirect && at.of == argument && at.at == 0 {
				continue
			}
			offsets[at.n] = true
		}
	}
	return offsets
}

func (d arm64) constants(f *elfsym.File, s elfsym.Symbol) map[int64]bool {
	constants := map[int64]bool{}
	for r, e := range d.trace(f, s) {
		if e.has {
			constants[e.constant] = true
		}
		for _, v := range r {
			if v.of == number {
				constants[v.n] = true
			}
		}
	}
	return constants
}

// table finds "ldr x0, [table, index]".
func (d arm64) table(f *elfsym.File, s elfsym.Symbol) (address uint64, ok bool) {
	var last int64
	for r, e := range d.trace(f, s) {
		for _, v := range r[:savedFrom] {
			if v.of == number && v.n > maxIsolate {
				last = v.n
			}
		}
		if len(e.accesses) == 1 && !e.accesses[0].store && e.accesses[0].register == 0 && last != 0 {
			return uint64(last), true
		}
	}
	return 0, false
}
