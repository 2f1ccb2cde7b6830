package disasm

import (
	"encoding/binary"
	"iter"

	"ustack/symbolize/arm64"
	"ustack/symbolize/elfsym"
)

// armCode decodes code of arm64, by following what is known of registers from instruction to
// instruction. Its root register is x26.
type armCode struct{}

const (
	rootRegister = 26
	armBias      = 0x100
	wordBytes    = 8
)

func (armCode) rootBias() int64 { return armBias }

// trace yields what each instruction of the function s does, with the registers before it.
func (armCode) trace(f *elfsym.File, s elfsym.Symbol) iter.Seq2[*arm64.Registers, arm64.Event] {
	size := s.Size
	if size == 0 || size > maxFunction {
		size = maxFunction
	}
	code := make([]byte, size)
	n, _ := f.ReadAt(code, s.Address) // a function at a segment's end is shorter
	return arm64.Trace(code[:n], s.Address)
}

// counter finds a load of a u32, one added to it, and the store of the sum.
func (d armCode) counter(f *elfsym.File, s elfsym.Symbol) (offset int64) {
	for _, e := range d.trace(f, s) {
		for _, a := range e.Accesses {
			if !a.Store || a.Size != 4 || a.What.Of != arm64.Field || a.What.N != 1 || a.Base.Of != arm64.Opaque && a.Base.Of != arm64.Argument {
				continue
			}
			at := a.Address()
			if loaded := (arm64.Value{Of: arm64.Field, At: at.N<<8 | at.At&0xff, N: 1}); a.What != loaded {
				continue
			}
			if offset != 0 && offset != at.N {
				return 0
			}
			offset = at.N
		}
	}
	return offset
}

// passed finds a call or jump with the first argument moved.
func (d armCode) passed(f *elfsym.File, s elfsym.Symbol) (offset int64) {
	for r, e := range d.trace(f, s) {
		if e.Target == 0 {
			continue
		}
		if r[0].Of == arm64.Argument && r[0].At == 0 {
			return r[0].N
		}
		break
	}
	return 0
}

func (d armCode) savesFP(f *elfsym.File, s elfsym.Symbol) (offset int64, ok bool) {
	for _, e := range d.trace(f, s) {
		for _, a := range e.Accesses {
			at := a.Address()
			if a.Store && a.Register == arm64.FP && at.Of == arm64.Opaque && at.At == rootRegister {
				return at.N, true
			}
		}
	}
	return 0, false
}

func (armCode) savesFPAt(builtins []byte, offset int64) bool {
	for _, e := range arm64.Trace(builtins, 0) {
		for _, a := range e.Accesses {
			if a.Store && a.Register == arm64.FP && a.Address() == (arm64.Value{Of: arm64.Opaque, At: rootRegister, N: offset}) {
				return true
			}
		}
	}
	return false
}

// dispatch decodes "adrp x0; ldr x0, [x0, group]; ldr x0, [x0, offset]", or
// "ldr x0, [x0, isolate]".
func (d armCode) dispatch(f *elfsym.File, s elfsym.Symbol) (Dispatch, bool) {
	for _, e := range d.trace(f, s) {
		for _, a := range e.Accesses {
			at := a.Address()
			switch {
			case a.Store || a.Register != 0:
			case at.Of == arm64.Variable && at.N > 0:
				return Dispatch{Group: uint64(at.At), Offset: at.N}, true
			case at.Of == arm64.Argument && at.At == 0 && at.N > 0 && at.N < maxIsolate:
				return Dispatch{Isolate: uint32(at.N)}, true
			}
		}
		if e.Leaves {
			break
		}
	}
	return Dispatch{}, false
}

// stores finds the first address of a constant that is stored where the second argument, or
// what was kept of it, says.
func (d armCode) stores(f *elfsym.File, s elfsym.Symbol) (constant uint64) {
	for _, e := range d.trace(f, s) {
		for _, a := range e.Accesses {
			if a.Store && a.Size == wordBytes && a.What.Of == arm64.Number && a.What.N > maxIsolate && a.Address() == (arm64.Value{Of: arm64.Argument, At: 1}) {
				return uint64(a.What.N)
			}
		}
	}
	return 0
}

// loads finds "adrp x0; ldr x0, [x0, variable]" before the function returns.
func (d armCode) loads(f *elfsym.File, s elfsym.Symbol) uint64 {
	for r, e := range d.trace(f, s) {
		if e.Leaves {
			if r[0].Of == arm64.Variable && r[0].N == 0 {
				return uint64(r[0].At)
			}
			break
		}
	}
	return 0
}

func (d armCode) returned(f *elfsym.File, address uint64) uint64 {
	return d.loads(f, elfsym.Symbol{Address: address})
}

// stored decodes what GetEmbeddedCodeRange stores where its second and third argument say.
func (d armCode) stored(f *elfsym.File, s elfsym.Symbol) (words BlobWords) {
	var result uint64 // of the last call: a variable
	for _, e := range d.trace(f, s) {
		if e.Call {
			result = 0
			if e.Target != 0 {
				result = d.returned(f, e.Target)
			}
		}
		for _, a := range e.Accesses {
			what := uint64(a.What.At)
			if a.What == (arm64.Value{Of: arm64.Opaque}) {
				what = result
			} else if a.What.Of != arm64.Variable {
				continue
			}
			switch at := a.Address(); {
			case !a.Store:
			case at == arm64.Value{Of: arm64.Argument, At: 1}:
				words.Code = what
			case at == arm64.Value{Of: arm64.Argument, At: 2}:
				words.Size = what
			}
		}
		if e.Leaves {
			break
		}
	}
	return words
}

// Instructions of the builtin that builds frames. Its arguments are the function (x1), its
// context (x27) and the size of its frame (x2).
const (
	armPushesFunction = 0xa9bf6fe1 // stp x1, x27, [sp, #-16]!
	armReturns        = 0xd65f03c0
	armInstruction    = 4
)

// frameBuilder finds the builtin. Code of the baseline compiler saves the frame pointer and the
// return address itself: the frame is complete when the builtin returns.
func (armCode) frameBuilder(builtins []byte) FrameBuilder {
	return onlyFrameBuilder(builtins, binary.LittleEndian.AppendUint32(nil, armPushesFunction), armFrameBuilderAround)
}

// armFrameBuilderAround decodes the builtin that pushes its function at an offset: it begins by
// loading what the function has counted, and makes room for the frame before it returns.
func armFrameBuilderAround(builtins []byte, at int) (b FrameBuilder, ok bool) {
	word := func(at int) uint32 { return binary.LittleEndian.Uint32(builtins[at:]) }
	start, first := (at-armInstruction)/builtinAlignment*builtinAlignment, max(at-maxBuilder, 1)
	for start >= first && !armLoadsFeedback(word(start), word(start+armInstruction)) {
		start -= builtinAlignment
	}
	if start < first {
		return b, false
	}
	room := false
	for next := at; next+armInstruction <= len(builtins) && next < start+maxBuilder; next += armInstruction {
		const mask, takesSize = 0xffffffe0, 0xcb2263e0 // sub xN, sp, x2
		switch w := word(next); {
		case w&mask == takesSize:
			room = true
		case w == armReturns:
			return FrameBuilder{Start: uint32(start), ReturnsTo: uint16(next - start)}, room
		}
	}
	return b, false
}

// armLoadsFeedback reports whether two instructions load the feedback cell of the function,
// and its value.
func armLoadsFeedback(first, second uint32) bool {
	const (
		ofFunction, loadsCell  = 0xffe00fe0, 0xf8400020 // ldur xN, [x1, #n]
		ofRegister, loadsValue = 0xfffffc00, 0xf8407000 // ldur xM, [xN, #7]
		register, base         = 0x1f, 5
	)
	return first&ofFunction == loadsCell && second&ofRegister == loadsValue && first&register == second>>base&register
}

const threadHeader = 16 // bytes at the thread pointer, before a program's variables

func (armCode) threadOffset(f *elfsym.File, variable uint64) int64 {
	align := max(f.TLSAlign(), 1)
	return int64((threadHeader+align-1)/align*align + variable)
}

// threadVariable decodes "mrs x0, tpidr_el0" and a load at an offset from it, which is in the
// instructions or in a variable.
func (d armCode) threadVariable(f *elfsym.File, at elfsym.Symbol) Slot {
	for _, e := range d.trace(f, at) { // it may merely jump to another
		if e.Leaves && e.Target != 0 {
			at = elfsym.Symbol{Address: e.Target}
		}
		break
	}
	for _, e := range d.trace(f, at) {
		for _, a := range e.Accesses {
			from := a.Address()
			switch {
			case a.Store || a.Register != 0:
			case from.Of == arm64.Thread && from.N != 0:
				return Slot{Offset: from.N}
			case from.Of == arm64.Field && from.N == -1:
				return Slot{GOT: uint64(from.At)}
			}
		}
		if e.Leaves {
			break
		}
	}
	return Slot{}
}

func (d armCode) accesses(f *elfsym.File, s elfsym.Symbol, indirect bool) map[int64]bool {
	offsets := map[int64]bool{}
	for _, e := range d.trace(f, s) {
		for _, a := range e.Accesses {
			at := a.Address()
			isFrame := at.Of == arm64.Opaque && (at.At == arm64.SP || at.At == arm64.FP)
			if isFrame || at.Of == arm64.Number || indirect && at.Of == arm64.Argument && at.At == 0 {
				continue
			}
			offsets[at.N] = true
		}
	}
	return offsets
}

func (d armCode) constants(f *elfsym.File, s elfsym.Symbol) map[int64]bool {
	constants := map[int64]bool{}
	for r, e := range d.trace(f, s) {
		if e.HasConstant {
			constants[e.Constant] = true
		}
		for _, v := range r {
			if v.Of == arm64.Number {
				constants[v.N] = true
			}
		}
	}
	return constants
}

// table finds "ldr x0, [table, index]".
func (d armCode) table(f *elfsym.File, s elfsym.Symbol) (address uint64, ok bool) {
	var last int64
	for r, e := range d.trace(f, s) {
		for _, v := range r[:arm64.SavedFrom] {
			if v.Of == arm64.Number && v.N > maxIsolate {
				last = v.N
			}
		}
		if len(e.Accesses) == 1 && !e.Accesses[0].Store && e.Accesses[0].Register == 0 && last != 0 {
			return uint64(last), true
		}
	}
	return 0, false
}
