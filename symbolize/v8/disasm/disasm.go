// Package disasm finds in the machine code of V8 and of Node.js what neither symbols
// nor metadata say: where the Isolate is and where in it V8 keeps what is read,
// where the builtins are, and the version of Node.js.
package disasm

import (
	"debug/elf"
	"encoding/binary"
	"fmt"
	"iter"
	"strings"

	"golang.org/x/arch/x86/x86asm"

	"ustack/symbolize/elfsym"
)

// What neither symbols nor metadata say is decoded from functions that use it:
// offsets in the Isolate change with each release of Node.js, even if V8's
// version is the same.
const (
	addCallback   = "_ZN2v87Isolate24AddNearHeapLimitCallbackE" // Isolate -> Heap, then a jump
	GCPrologue    = "_ZN2v88internal4Heap36GarbageCollectionPrologueInSafepointE"
	CallsC        = "Builtins_CEntry_Return1_" // stores fp to c_entry_fp_
	TableAddress  = "_ZN2v88internal17ExternalReference25js_dispatch_table_addressE"
	napiVersion   = "napi_get_node_version"
	wasmState     = "_ZN2v88internal4wasm12_GLOBAL__N_117global_wasm_stateE"
	codeManager   = "_ZN2v88internal4wasm18GetWasmCodeManagerEv" // returns global_wasm_state
	maxFunction   = 1 << 10                                      // bytes of a function that are decoded: the longest has 824
	maxIsolate    = 1 << 20                                      // size of an Isolate, about 64 KiB
	maxVersionLen = 3 * 4                                        // node's version: three u32
)

// Names are those of the symbols that are decoded, or what they start with.
var Names = []string{
	addCallback, GCPrologue, CallsC, TableAddress, napiVersion, wasmState, codeManager,
	embeddedRange, embeddedCode, embeddedSize, currentGetter, isolateKey, currentIsolate, bytecodeSizesOf,
	SetIdle, SetGCState, BuiltinExitFunction, APIExitTemplate, TemplateShared, UpdateDataCache,
	SourceURL, SourceMapURL, PositionInfo, WasmScript, ScopeLocals, KindNames,
}

// instructions yields the instructions at the start of the function s, with the
// address after each.
func instructions(f *elfsym.File, s elfsym.Symbol) iter.Seq2[x86asm.Inst, uint64] {
	return func(yield func(x86asm.Inst, uint64) bool) {
		size := s.Size
		if size == 0 || size > maxFunction {
			size = maxFunction
		}
		code := make([]byte, size)
		n, _ := f.ReadAt(code, s.Address) // a function at a segment's end is shorter
		for at := 0; at < n; {
			inst, err := x86asm.Decode(code[at:n], 64)
			if err != nil {
				return
			}
			at += inst.Len
			if !yield(inst, s.Address+uint64(at)) {
				return
			}
		}
	}
}

// Functions are those of V8 in a file that are decoded.
type Functions struct {
	file     *elfsym.File
	byPrefix map[string]elfsym.Symbol
}

// FindFunctions finds V8's functions in f, which it reads once for all of them.
func FindFunctions(f *elfsym.File) Functions {
	prefixes := []string{addCallback, GCPrologue, CallsC, TableAddress} // parameters follow
	found := make(map[string]elfsym.Symbol)
	for s := range f.Symbols(prefixes...) {
		for _, prefix := range prefixes {
			_, known := found[prefix]
			if !known && strings.HasPrefix(s.Name, prefix) && (s.Type == elf.STT_FUNC || s.Type == elf.STT_NOTYPE) {
				found[prefix] = s
			}
		}
	}
	return Functions{f, found}
}

// GCCount returns the offset of Heap::gc_count_ in the Isolate: the only counter
// that the collector's prologue increments by one, plus the offset of the Heap.
func (f Functions) GCCount() uint32 {
	s, ok := f.byPrefix[GCPrologue]
	heap := f.HeapOffset()
	if !ok || heap == 0 {
		return 0
	}
	found := decoderOf(f.file).counter(f.file, s)
	if found <= 0 || found > maxIsolate {
		return 0
	}
	return heap + uint32(found)
}

// counter finds an instruction that increments.
func (x86) counter(f *elfsym.File, s elfsym.Symbol) (field int64) {
	for inst := range instructions(f, s) {
		disp, ok := increment(inst)
		if !ok {
			continue
		}
		if field != 0 && field != disp {
			return 0
		}
		field = disp
	}
	return field
}

// increment returns the displacement of an instruction that adds one to a u32 in
// an object.
func increment(inst x86asm.Inst) (int64, bool) {
	adds := inst.Op == x86asm.INC || inst.Op == x86asm.ADD && inst.Args[1] == x86asm.Imm(1)
	m, ok := inst.Args[0].(x86asm.Mem)
	if !adds || !ok || inst.MemBytes != 4 || m.Base == x86asm.RIP || m.Base == x86asm.RSP || m.Index != 0 {
		return 0, false
	}
	return m.Disp, true
}

// HeapOffset returns the offset of the Heap in the Isolate.
func (f Functions) HeapOffset() uint32 {
	s, ok := f.byPrefix[addCallback]
	if !ok {
		return 0
	}
	offset := decoderOf(f.file).passed(f.file, s)
	if offset <= 0 || offset >= maxIsolate {
		return 0
	}
	return uint32(offset)
}

// passed finds "add rdi, imm".
func (x86) passed(f *elfsym.File, s elfsym.Symbol) (offset int64) {
	for inst := range instructions(f, s) {
		if inst.Op == x86asm.JMP || inst.Op == x86asm.CALL {
			break
		}
		imm, ok := inst.Args[1].(x86asm.Imm)
		if inst.Op == x86asm.ADD && inst.Args[0] == x86asm.RDI && ok && imm > 0 && imm < maxIsolate {
			return int64(imm)
		}
	}
	return 0
}

// CEntryFP returns the offset of the Isolate's c_entry_fp_: the first field to
// which the builtin that calls C++ stores the frame pointer.
func (f Functions) CEntryFP() uint32 {
	s, ok := f.byPrefix[CallsC]
	if !ok {
		return 0
	}
	d := decoderOf(f.file)
	offset, ok := d.savesFP(f.file, s)
	if !ok || offset <= -d.rootBias() || offset > maxIsolate {
		return 0
	}
	return uint32(offset + d.rootBias())
}

// savesFP finds the first "mov [r13+offset], rbp".
func (x86) savesFP(f *elfsym.File, s elfsym.Symbol) (offset int64, ok bool) {
	for inst := range instructions(f, s) {
		m, ok := inst.Args[0].(x86asm.Mem)
		if ok && inst.Op == x86asm.MOV && inst.Args[1] == x86asm.RBP && m.Base == x86asm.R13 {
			return m.Disp, true
		}
	}
	return 0, false
}

// A Dispatch says how to find the Dispatch table's first entry: through an
// isolate group, or through the isolate.
type Dispatch struct {
	Group   uint64 // address of the pointer to the default isolate group; 0: none
	Offset  int64  // in the group
	Isolate uint32 // in the Isolate
}

// DispatchTable decodes V8's own accessor.
func (f Functions) DispatchTable() (Dispatch, bool) {
	s, ok := f.byPrefix[TableAddress]
	if !ok {
		return Dispatch{}, false
	}
	return decoderOf(f.file).dispatch(f.file, s)
}

// dispatch decodes "mov rax, [rip+group]" and "mov rax, [rax+offset]", or
// "mov rax, [rdi+isolate]".
func (x86) dispatch(f *elfsym.File, s elfsym.Symbol) (Dispatch, bool) {
	var d Dispatch
	for inst, next := range instructions(f, s) {
		m, ok := inst.Args[1].(x86asm.Mem)
		if inst.Op != x86asm.MOV || !ok || inst.Args[0] != x86asm.RAX {
			continue
		}
		switch {
		case m.Base == x86asm.RIP && d.Group == 0:
			d.Group = next + uint64(m.Disp)
		case m.Base == x86asm.RAX && d.Group != 0:
			d.Offset = m.Disp
			return d, true
		case m.Base == x86asm.RDI && m.Disp > 0 && m.Disp < maxIsolate:
			return Dispatch{Isolate: uint32(m.Disp)}, true
		}
	}
	return Dispatch{}, false
}

// NodeVersion returns the version that the file reports to native add-ons: the
// constant whose address napi_get_node_version stores.
func NodeVersion(f *elfsym.File) string {
	s, ok := f.Symbol(napiVersion)
	if !ok {
		return ""
	}
	constant := decoderOf(f).stores(f, s)
	var b [maxVersionLen]byte
	if _, err := f.ReadAt(b[:], constant); err != nil {
		return ""
	}
	u := binary.LittleEndian.Uint32
	return fmt.Sprintf("v%d.%d.%d", u(b[:]), u(b[4:]), u(b[8:]))
}

// stores returns the first address that a function stores or computes.
func (x86) stores(f *elfsym.File, s elfsym.Symbol) (constant uint64) {
	for inst, next := range instructions(f, s) {
		imm, isImm := inst.Args[1].(x86asm.Imm)
		m, isMem := inst.Args[1].(x86asm.Mem)
		switch {
		case inst.Op == x86asm.MOV && isImm && inst.MemBytes == 8 && imm > 0:
			constant = uint64(imm)
		case inst.Op == x86asm.LEA && isMem && m.Base == x86asm.RIP:
			constant = next + uint64(m.Disp)
		}
		if constant != 0 {
			break
		}
	}
	return constant
}

// WasmState returns the address of the pointer to V8's global WebAssembly state:
// the variable itself, or what the exported accessor loads; 0 if the file has
// neither.
func WasmState(f *elfsym.File) uint64 {
	if s, ok := f.Symbol(wasmState); ok {
		return s.Address
	}
	s, ok := f.Symbol(codeManager)
	if !ok {
		return 0
	}
	return decoderOf(f).loads(f, s)
}

// loads finds "mov rax, [rip+variable]" before the function returns.
func (x86) loads(f *elfsym.File, s elfsym.Symbol) (variable uint64) {
	for inst, next := range instructions(f, s) {
		m, ok := inst.Args[1].(x86asm.Mem)
		if inst.Op == x86asm.MOV && inst.Args[0] == x86asm.RAX && ok && m.Base == x86asm.RIP {
			return next + uint64(m.Disp)
		}
		if inst.Op == x86asm.RET {
			break
		}
	}
	return 0
}
