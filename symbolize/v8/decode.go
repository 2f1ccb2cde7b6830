package v8

import (
	"debug/elf"
	"encoding/binary"
	"fmt"
	"iter"

	"golang.org/x/arch/x86/x86asm"

	"ustack/symbolize/elfsym"
)

// What neither symbols nor metadata say is decoded from functions that use it:
// offsets in the Isolate change with each release of Node.js, even if V8's
// version is the same.
const (
	addCallback   = "_ZN2v87Isolate24AddNearHeapLimitCallbackE" // Isolate -> Heap, then a jump
	gcPrologue    = "_ZN2v88internal4Heap36GarbageCollectionPrologueInSafepointE"
	callsC        = "Builtins_CEntry_Return1_" // stores fp to c_entry_fp_
	tableAddress  = "_ZN2v88internal17ExternalReference25js_dispatch_table_addressE"
	napiVersion   = "napi_get_node_version"
	wasmState     = "_ZN2v88internal4wasm12_GLOBAL__N_117global_wasm_stateE"
	codeManager   = "_ZN2v88internal4wasm18GetWasmCodeManagerEv" // returns global_wasm_state
	rootBias      = 0x80                                         // the root register, r13, less the Isolate
	maxFunction   = 1 << 10                                      // bytes of a function that are decoded: the longest has 824
	maxIsolate    = 1 << 20                                      // size of an Isolate, about 64 KiB
	maxVersionLen = 3 * 4                                        // node's version: three u32
)

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

// function returns the function whose name starts with prefix; parameters follow
// it.
func function(f *elfsym.File, prefix string) (elfsym.Symbol, bool) {
	for s := range f.Symbols(prefix) {
		if s.Type == elf.STT_FUNC || s.Type == elf.STT_NOTYPE {
			return s, true
		}
	}
	return elfsym.Symbol{}, false
}

// findHeap finds the fields of the Isolate and the dispatch table: in the code of
// functions, or by the release if the file does not say which code that is.
// Collections are counted only if the state that shows one in progress is known
// too.
func (b *Binary) findHeap(f *elfsym.File) {
	l, r := &b.Layout, &b.Release.Isolate
	heap := heapOffset(f)
	count, entry := gcCount(f), cEntryFP(f)
	if count == 0 && heap != 0 {
		count = heap + r.GCCount
	}
	if at := r.EntryFP.In(heap); entry == 0 && at != 0 && b.storesFP(f, at) {
		entry = at
	}
	if count <= r.GCState {
		b.lacks(gcPrologue, "no function is remembered: each sample costs more")
	}
	if entry == 0 {
		b.lacks(callsC, "no function is remembered, and JavaScript below a library without frame pointers is not found")
	} else {
		l.CEntryFP, l.VMState = entry, entry+r.VMState
	}
	if count > r.GCState && entry != 0 {
		l.GCCount, l.GCState = count, count-r.GCState
	}
	if l.DispatchHandle == 0 {
		return
	}
	d, ok := findDispatch(f)
	if !ok {
		d.isolate = r.DispatchTable.In(heap)
	}
	if d == (dispatch{}) {
		b.lacks(tableAddress, "the tier of JavaScript frames is not known")
	}
	b.dispatch = d
	l.DispatchTable = d.isolate
}

// gcCount returns the offset of Heap::gc_count_ in the Isolate: the only counter
// that the collector's prologue increments by one, plus the offset of the Heap.
func gcCount(f *elfsym.File) uint32 {
	s, ok := function(f, gcPrologue)
	heap := heapOffset(f)
	if !ok || heap == 0 {
		return 0
	}
	var found int64
	for inst := range instructions(f, s) {
		disp, ok := increment(inst)
		if !ok {
			continue
		}
		if found != 0 && found != disp {
			return 0
		}
		found = disp
	}
	if found <= 0 || found > maxIsolate {
		return 0
	}
	return heap + uint32(found)
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

// heapOffset returns the offset of the Heap in the Isolate: "add rdi, imm".
func heapOffset(f *elfsym.File) uint32 {
	s, ok := function(f, addCallback)
	if !ok {
		return 0
	}
	for inst := range instructions(f, s) {
		if inst.Op == x86asm.JMP || inst.Op == x86asm.CALL {
			break
		}
		imm, ok := inst.Args[1].(x86asm.Imm)
		if inst.Op == x86asm.ADD && inst.Args[0] == x86asm.RDI && ok && imm > 0 && imm < maxIsolate {
			return uint32(imm)
		}
	}
	return 0
}

// cEntryFP returns the offset of the Isolate's c_entry_fp_: the first field to
// which the builtin that calls C++ stores rbp.
func cEntryFP(f *elfsym.File) uint32 {
	s, ok := function(f, callsC)
	if !ok {
		return 0
	}
	for inst := range instructions(f, s) {
		m, ok := inst.Args[0].(x86asm.Mem)
		if !ok || inst.Op != x86asm.MOV || inst.Args[1] != x86asm.RBP || m.Base != x86asm.R13 {
			continue
		}
		if m.Disp <= -rootBias || m.Disp > maxIsolate {
			return 0
		}
		return uint32(m.Disp + rootBias)
	}
	return 0
}

// A dispatch says how to find the dispatch table's first entry: through an
// isolate group, or through the isolate.
type dispatch struct {
	group   uint64 // address of the pointer to the default isolate group; 0: none
	offset  int64  // in the group
	isolate uint32 // in the Isolate
}

// findDispatch decodes V8's own accessor: "mov rax, [rip+group]" and
// "mov rax, [rax+offset]", or "mov rax, [rdi+isolate]".
func findDispatch(f *elfsym.File) (dispatch, bool) {
	s, ok := function(f, tableAddress)
	if !ok {
		return dispatch{}, false
	}
	var d dispatch
	for inst, next := range instructions(f, s) {
		m, ok := inst.Args[1].(x86asm.Mem)
		if inst.Op != x86asm.MOV || !ok || inst.Args[0] != x86asm.RAX {
			continue
		}
		switch {
		case m.Base == x86asm.RIP && d.group == 0:
			d.group = next + uint64(m.Disp)
		case m.Base == x86asm.RAX && d.group != 0:
			d.offset = m.Disp
			return d, true
		case m.Base == x86asm.RDI && m.Disp > 0 && m.Disp < maxIsolate:
			return dispatch{isolate: uint32(m.Disp)}, true
		}
	}
	return dispatch{}, false
}

// DispatchBase returns the address of the dispatch table's first entry if one
// table serves the whole process, and 0 if V8 has none or each isolate has its
// own (Layout.DispatchTable). mem and bias are as for TLSIsolate.
func (b *Binary) DispatchBase(mem Memory, bias uint64) (uint64, error) {
	if b.dispatch.group == 0 {
		return 0, nil
	}
	group, err := ReadWord(mem, b.dispatch.group+bias)
	if err != nil {
		return 0, fmt.Errorf("read the isolate group: %w", err)
	}
	if group == 0 { // V8 has not started yet
		return 0, nil
	}
	base, err := ReadWord(mem, group+uint64(b.dispatch.offset))
	if err != nil {
		return 0, fmt.Errorf("read the dispatch table's address: %w", err)
	}
	return base, nil
}

// nodeVersion returns the version that the file reports to native add-ons: the
// constant whose address napi_get_node_version stores.
func nodeVersion(f *elfsym.File) string {
	s, ok := f.Symbol(napiVersion)
	if !ok {
		return ""
	}
	var constant uint64
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
	var b [maxVersionLen]byte
	if _, err := f.ReadAt(b[:], constant); err != nil {
		return ""
	}
	u := binary.LittleEndian.Uint32
	return fmt.Sprintf("v%d.%d.%d", u(b[:]), u(b[4:]), u(b[8:]))
}

// findWasm returns the address of the pointer to V8's global WebAssembly state:
// the variable itself, or what the exported accessor loads; 0 if the file has
// neither.
func findWasm(f *elfsym.File) uint64 {
	if s, ok := f.Symbol(wasmState); ok {
		return s.Address
	}
	s, ok := f.Symbol(codeManager)
	if !ok {
		return 0
	}
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
