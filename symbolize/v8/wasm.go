package v8

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"

	"golang.org/x/arch/x86/x86asm"

	"ustack/symbolize"
	"ustack/symbolize/elfsym"
)

// V8's symbols that lead to the code of WebAssembly modules.
const (
	wasmState   = "_ZN2v88internal4wasm12_GLOBAL__N_117global_wasm_stateE"
	codeManager = "_ZN2v88internal4wasm18GetWasmCodeManagerEv" // returns global_wasm_state
)

// Bounds on what a process may claim to have.
const (
	maxTreeDepth    = 64      // a balanced tree of 2^32 entries is that deep
	maxState        = 0x200   // bytes of the global state that hold the map of code: 0x28 to 0x50 in 9.4 to 14.6
	maxFreshCode    = 1 << 20 // V8 allows 1,000,000 functions in a module
	maxKnownCode    = 1 << 14 // pieces of code cached for lookups after the process has ended
	maxNamedModules = 256     // modules whose names are cached
	maxWasmRegion   = 4 << 30 // bytes of one module's code space: V8 allows 4 GiB in a process
	retries         = 3       // of a lookup if the process changes the data being read
)

var (
	// ErrNoWasm means that an address is not in a WebAssembly module's code.
	ErrNoWasm = errors.New("no WebAssembly code at this address")
	// errWasmShape means that V8's objects do not have the shape of any known
	// version.
	errWasmShape = errors.New("V8's WebAssembly code objects are not recognized")
)

// A WasmCode is one piece of a WebAssembly module's machine code.
type WasmCode struct {
	Module     uint64         // identifies the module while it exists
	Start, End uint64         // addresses of the code
	Index      int            // of the function, imports first; below 0 for code that does not belong to a function
	Tier       symbolize.Tier // Liftoff or Turbofan for a function
}

// A Wasm finds the WebAssembly function at an address of a process. It may be
// used concurrently.
//
// V8 keeps, for the whole process, a std::map from the start of each code space
// to its module (WasmCodeManager::lookup_map_), and in each module one from the
// start of each piece of code to its WasmCode (NativeModule::owned_code_). The
// offsets of these maps differ between versions of V8 and are not in the
// metadata, so they are recognized by their shape. Only these offsets are cached,
// so that code which V8 has freed is not reported as what it was.
type Wasm struct {
	mutex    sync.Mutex
	mem      Memory
	pointer  uint64 // address of the pointer to the global state
	kindBits int
	shape    wasmShape
	known    []namedWasm // by start, not overlapping: used once the process has ended
	names    map[uint64]*wasmNames
	fresh    freshCode
}

type namedWasm struct {
	WasmCode
	name string
}

// Wasm returns a reader of the WebAssembly code in mem, where the binary is
// loaded bias above the addresses in its file; nil if the binary does not say
// where V8 keeps it.
func (b *Binary) Wasm(mem Memory, bias uint64) *Wasm {
	if b.wasmState == 0 {
		return nil
	}
	return &Wasm{mem: mem, pointer: b.wasmState + bias, kindBits: int(b.Layout.WasmKindBits), names: map[uint64]*wasmNames{}}
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

// Lookup returns the code at pc and the name of its function: the one in the
// module's name section, or else "wasm-function[12]". It returns ErrNoWasm if pc
// is not in a module's code. Once the process has ended, it answers from earlier
// lookups.
func (w *Wasm) Lookup(pc uint64) (code WasmCode, name string, err error) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	for range retries {
		code, err = w.lookup(pc)
		if err == nil {
			break
		}
		w.fresh = freshCode{} // its addresses may hold other code by now
	}
	if err == nil {
		name = w.name(code)
		w.remember(namedWasm{code, name})
		return code, name, nil
	}
	if k, ok := w.recall(pc); ok && !errors.Is(err, ErrNoWasm) {
		return k.WasmCode, k.name, nil
	}
	return WasmCode{}, "", err
}

// lookup finds the code at pc in the process's current memory.
func (w *Wasm) lookup(pc uint64) (WasmCode, error) {
	state, err := readWord(w.mem, w.pointer)
	if err != nil {
		return WasmCode{}, err
	}
	if state == 0 { // V8 has not started
		return WasmCode{}, ErrNoWasm
	}
	region, err := w.region(state, pc)
	if err != nil {
		return WasmCode{}, err
	}
	if region.module == 0 || pc >= region.end {
		return WasmCode{}, ErrNoWasm
	}
	if !w.shape.known {
		shape, err := findShape(w.mem, region.module, w.kindBits)
		if err != nil {
			return WasmCode{}, err
		}
		shape.lookup = w.shape.lookup
		w.shape = shape
	}
	at, err := w.codeAt(region.module, pc)
	if err != nil {
		return WasmCode{}, err
	}
	code, err := w.shape.code(w.mem, at)
	if err != nil {
		return WasmCode{}, err
	}
	if pc < code.Start || pc >= code.End || code.Module != region.module {
		return WasmCode{}, ErrNoWasm
	}
	return code, nil
}

// A wasmRegion is one code space of a module.
type wasmRegion struct{ start, end, module uint64 }

// region returns the last code space that starts at or before pc; its module is 0
// if none does.
func (w *Wasm) region(state, pc uint64) (wasmRegion, error) {
	if w.shape.lookup == 0 {
		offset, err := findRegions(w.mem, state)
		if err != nil || offset == 0 {
			return wasmRegion{}, err
		}
		w.shape.lookup = offset
	}
	n, err := floor(w.mem, state+w.shape.lookup, pc)
	if err != nil || n.key == 0 {
		return wasmRegion{}, err
	}
	return wasmRegion{n.key, n.values[0], n.values[1]}, nil
}

// codeAt returns the address of the WasmCode whose instructions hold pc, or start
// before it: in the map, or among those that V8 has not added to the map yet.
func (w *Wasm) codeAt(module, pc uint64) (uint64, error) {
	n, err := floor(w.mem, module+w.shape.owned, pc)
	if err != nil {
		return 0, err
	}
	fresh, err := w.fresh.floor(w.mem, module+w.shape.owned+treeBytes, pc)
	if err != nil {
		return 0, err
	}
	if fresh.start > n.key {
		return fresh.code, nil
	}
	if n.key == 0 {
		return 0, ErrNoWasm
	}
	return n.values[0], nil
}

// freshCode is a copy of NativeModule::new_owned_code_, a vector of code that is
// not in the map yet: what V8 has compiled since it last looked code up.
type freshCode struct {
	pointers []uint64
	codes    []freshEntry // by start
}

type freshEntry struct{ start, code uint64 }

// floor returns the entry of the vector at an address that starts last at or
// before pc; the zero entry if none does.
func (f *freshCode) floor(mem Memory, at, pc uint64) (freshEntry, error) {
	var v [3]uint64
	if err := readWords(mem, at, v[:]); err != nil {
		return freshEntry{}, err
	}
	begin, end := v[0], v[1]
	if end < begin || (end-begin)%wordSize != 0 || (end-begin)/wordSize > maxFreshCode {
		return freshEntry{}, errWasmShape
	}
	pointers := make([]uint64, (end-begin)/wordSize)
	if err := readWords(mem, begin, pointers); err != nil {
		return freshEntry{}, err
	}
	if !slices.Equal(f.pointers, pointers) {
		codes := make([]freshEntry, 0, len(pointers))
		for _, p := range pointers {
			start, err := readWord(mem, p+codeInstructions)
			if err != nil {
				return freshEntry{}, err
			}
			codes = append(codes, freshEntry{start, p})
		}
		slices.SortFunc(codes, func(a, b freshEntry) int { return cmp.Compare(a.start, b.start) })
		*f = freshCode{pointers, codes}
	}
	i, ok := slices.BinarySearchFunc(f.codes, pc, func(e freshEntry, pc uint64) int { return cmp.Compare(e.start, pc) })
	if !ok {
		i--
	}
	if i < 0 {
		return freshEntry{}, nil
	}
	return f.codes[i], nil
}

// remember caches k and drops what it overlaps.
func (w *Wasm) remember(k namedWasm) {
	byStart := func(e namedWasm, at uint64) int { return cmp.Compare(e.Start, at) }
	last, _ := slices.BinarySearchFunc(w.known, k.End, byStart)
	first := last
	for first > 0 && w.known[first-1].End > k.Start {
		first--
	}
	if last-first == 1 && w.known[first] == k {
		return
	}
	if len(w.known) >= maxKnownCode {
		w.known, first, last = nil, 0, 0
	}
	w.known = slices.Replace(w.known, first, last, k)
}

func (w *Wasm) recall(pc uint64) (namedWasm, bool) {
	i, ok := slices.BinarySearchFunc(w.known, pc, func(e namedWasm, at uint64) int { return cmp.Compare(e.Start, at) })
	if !ok {
		i--
	}
	if i < 0 || pc >= w.known[i].End {
		return namedWasm{}, false
	}
	return w.known[i], true
}

// name returns the name of the code's function.
func (w *Wasm) name(c WasmCode) string {
	if c.Index < 0 {
		return WasmStub
	}
	names := w.names[c.Module]
	if names == nil {
		held := 0
		for _, n := range w.names {
			held += len(n.entries)
		}
		if len(w.names) >= maxNamedModules || held > maxNames {
			clear(w.names)
		}
		names = &wasmNames{}
		w.names[c.Module] = names
	}
	if name, ok := names.lookup(w.mem, c.Module, c.Index); ok {
		return name
	}
	return fmt.Sprintf("wasm-function[%d]", c.Index)
}

// WasmStub is the name of a module's code outside of functions: its jump tables.
const WasmStub = "wasm jump table"

// readWords fills words from memory at an address.
func readWords(mem Memory, at uint64, words []uint64) error {
	if len(words) == 0 {
		return nil
	}
	b := make([]byte, len(words)*wordSize)
	if _, err := mem.ReadAt(b, at); err != nil {
		return err
	}
	for i := range words {
		words[i] = binary.LittleEndian.Uint64(b[i*wordSize:])
	}
	return nil
}
