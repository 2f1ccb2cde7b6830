package disasm

import (
	"debug/elf"

	"ustack/symbolize/elfsym"
)

// A decoder reads the machine code of an architecture.
type decoder interface {
	rootBias() int64 // the root register less the Isolate

	// counter returns the offset of the only u32 that a function increments by one; 0 if there
	// is none, or several.
	counter(f *elfsym.File, s elfsym.Symbol) (field int64)
	// passed returns how far beyond its first argument the first one is that a function calls
	// another with; 0 if that is not known.
	passed(f *elfsym.File, s elfsym.Symbol) (offset int64)
	// savesFP returns the first offset from the root register at which a builtin stores the
	// frame pointer.
	savesFP(f *elfsym.File, s elfsym.Symbol) (offset int64, ok bool)
	// savesFPAt reports whether code stores the frame pointer there.
	savesFPAt(builtins []byte, offset int64) bool
	dispatch(f *elfsym.File, s elfsym.Symbol) (Dispatch, bool)
	// stores returns the address of a constant that a function stores; 0 if there is none.
	stores(f *elfsym.File, s elfsym.Symbol) (constant uint64)
	// loads returns the address of the variable that a function loads; 0 if there is none.
	loads(f *elfsym.File, s elfsym.Symbol) (variable uint64)

	returned(f *elfsym.File, address uint64) (variable uint64)
	stored(f *elfsym.File, s elfsym.Symbol) BlobWords
	frameBuilder(builtins []byte) FrameBuilder

	threadOffset(f *elfsym.File, variable uint64) int64
	threadVariable(f *elfsym.File, at elfsym.Symbol) Slot

	accesses(f *elfsym.File, s elfsym.Symbol, indirect bool) map[int64]bool
	constants(f *elfsym.File, s elfsym.Symbol) map[int64]bool
	table(f *elfsym.File, s elfsym.Symbol) (address uint64, ok bool)
}

// decoderOf returns the decoder of f's code.
func decoderOf(f *elfsym.File) decoder {
	if f.Machine() == elf.EM_AARCH64 {
		return armCode{}
	}
	return x86{}
}

// x86 decodes code of x86-64. Its root register is r13.
type x86 struct{}

func (x86) rootBias() int64 { return 0x80 }
