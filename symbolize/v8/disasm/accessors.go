package disasm

import (
	"slices"

	"golang.org/x/arch/x86/x86asm"

	"ustack/symbolize/elfsym"
)

// Functions of V8 whose code shows where fields are.
const (
	SetIdle             = "_ZN2v88internal7Isolate7SetIdleEb"
	SetGCState          = "_ZN2v88internal4Heap10SetGCStateENS1_9HeapStateE"
	BuiltinExitFunction = "_ZNK2v88internal16BuiltinExitFrame8functionEv"
	APIExitTemplate     = "_ZNK2v88internal20ApiCallbackExitFrame23GetFunctionTemplateInfoEv"
	TemplateShared      = "_ZN2v88internal20FunctionTemplateInfo29GetOrCreateSharedFunctionInfoEPNS0_7IsolateENS0_12DirectHandleIS1_EENS0_17MaybeDirectHandleINS0_4NameEEE"
	UpdateDataCache     = "_ZN2v86String29ExternalOneByteStringResource15UpdateDataCacheEv"
	SourceURL           = "_ZN2v813UnboundScript12GetSourceURLEv"
	SourceMapURL        = "_ZN2v813UnboundScript19GetSourceMappingURLEv"
	PositionInfo        = "_ZNK2v88internal6Script15GetPositionInfoEiPNS1_12PositionInfoENS1_10OffsetFlagE"
	WasmScript          = "_ZNK2v88internal9WasmFrame6scriptEv"
	ScopeLocals         = "_ZNK2v88internal9ScopeInfo22ContextLocalInfosIndexEv"
	KindNames           = "_ZN2v88internal16CodeKindToStringENS0_8CodeKindE"
)

// Accesses returns the offsets at which the function called name accesses objects; ok is
// false if f has no such function. indirect leaves out accesses relative to the first
// argument, for a function whose argument points to the object's address.
func Accesses(f *elfsym.File, name string, indirect bool) (offsets map[int64]bool, ok bool) {
	s, ok := f.Symbol(name)
	if !ok {
		return nil, false
	}
	return decoderOf(f).accesses(f, s, indirect), true
}

func (x86) accesses(f *elfsym.File, s elfsym.Symbol, indirect bool) map[int64]bool {
	others := []x86asm.Reg{0, x86asm.RIP, x86asm.RSP, x86asm.RBP} // that do not hold an object's address
	if indirect {
		others = append(others, x86asm.RDI)
	}
	offsets := map[int64]bool{}
	for inst := range instructions(f, s) {
		for _, arg := range inst.Args {
			if m, ok := arg.(x86asm.Mem); ok && !slices.Contains(others, m.Base) {
				offsets[m.Disp] = true
			}
		}
	}
	return offsets
}

// Constants returns the immediate operands in the function called name; ok is false if f
// has no such function.
func Constants(f *elfsym.File, name string) (constants map[int64]bool, ok bool) {
	s, ok := f.Symbol(name)
	if !ok {
		return nil, false
	}
	return decoderOf(f).constants(f, s), true
}

func (x86) constants(f *elfsym.File, s elfsym.Symbol) map[int64]bool {
	constants := map[int64]bool{}
	for inst := range instructions(f, s) {
		for _, arg := range inst.Args {
			if imm, ok := arg.(x86asm.Imm); ok {
				constants[int64(imm)] = true
			}
		}
	}
	return constants
}

// Table returns the address of the table from which the function called name loads its
// result, a word at an index. ok is false if f has no such function, or if no table is at a
// fixed address.
func Table(f *elfsym.File, name string) (address uint64, ok bool) {
	s, ok := f.Symbol(name)
	if !ok {
		return 0, false
	}
	return decoderOf(f).table(f, s)
}

// table finds "mov rax, [index*8+table]".
func (x86) table(f *elfsym.File, s elfsym.Symbol) (address uint64, ok bool) {
	for inst := range instructions(f, s) {
		const word = 8
		m, ok := inst.Args[1].(x86asm.Mem)
		if inst.Op == x86asm.MOV && ok && m.Base == 0 && m.Scale == word && m.Disp > 0 {
			return uint64(m.Disp), true
		}
	}
	return 0, false
}
