// Package wasm finds the WebAssembly functions of a process by the addresses of
// their machine code, and their names in the modules that V8 compiled.
package wasm

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"

	"ustack/symbolize"
	"ustack/symbolize/v8"
)

const wordSize = 8

// Bounds on what a process may claim to have.
const (
	maxTreeDepth    = 64      // a balanced tree of 2^32 entries is that deep
	maxState        = 0x200   // bytes of the global state that hold the map of code: 0x28 to 0x50 in 9.4 to 14.6
	maxFreshCode    = 1 << 20 // V8 allows 1,000,000 functions in a module
	maxKnownCode    = 1 << 14 // pieces of code cached for lookups after the process has ended
	maxNamedModules = 256     // modules whose names are cached
	maxRegion       = 4 << 30 // bytes of one module's code space: V8 allows 4 GiB in a process
	retries         = 3       // of a lookup if the process changes the data being read
)

var (
	// ErrNoCode means that an address is not in a WebAssembly module's code.
	ErrNoCode = errors.New("no WebAssembly code at this address")
	// errShape means that V8's objects do not have the shape of any known
	// version.
	errShape = errors.New("V8's WebAssembly code objects are not recognized")
)

// A Code is one piece of a WebAssembly module's machine code.
type Code struct {
	Module     uint64         // identifies the module while it exists
	Start, End uint64         // addresses of the code
	Index      int            // of the function, imports first; below 0 for code that does not belong to a function
	Tier       symbolize.Tier // Liftoff or Turbofan for a function
}

// A Reader finds the WebAssembly function at an address of a process. It may be
// used concurrently.
//
// V8 keeps, for the whole process, a std::map from the start of each code space
// to its module (WasmCodeManager::lookup_map_), and in each module one from the
// start of each piece of code to its WasmCode (NativeModule::owned_code_). The
// offsets of these maps differ between versions of V8 and are not in the
// metadata, so they are recognized by their shape. Only these offsets are cached,
// until code that they do not fit is met, so that code which V8 has freed is not
// reported as what it was.
type Reader struct {
	mutex    sync.Mutex
	mem      v8.Memory
	pointer  uint64 // address of the pointer to the global state
	kindBits int
	shape    shape
	misfit   uint64      // code that the last shape did not fit, from which the next is derived; 0: none
	known    []namedCode // by start, not overlapping: used once the process has ended
	names    map[uint64]*moduleNames
	fresh    freshCode
}

type namedCode struct {
	Code
	name string
}

// NewReader returns a Reader of mem, in which the binary b is loaded bias above the
// addresses in its file; nil if the binary does not say where V8 keeps the code.
func NewReader(mem v8.Memory, b *v8.Binary, bias uint64) *Reader {
	if b.WasmState == 0 {
		return nil
	}
	return &Reader{
		mem: mem, pointer: b.WasmState + bias, kindBits: int(b.Layout.WasmKindBits),
		names: map[uint64]*moduleNames{},
	}
}

// Lookup returns the code at pc and the name of its function: the one in the
// module's name section, or else "wasm-function[12]". It returns ErrNoCode if pc
// is not in a module's code. Once the process has ended, it answers from earlier
// lookups.
func (r *Reader) Lookup(pc uint64) (code Code, name string, err error) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	for range retries {
		code, err = r.lookup(pc)
		if err == nil {
			break
		}
		r.fresh = freshCode{} // its addresses may hold other code by now
	}
	if err == nil {
		name = r.name(code)
		r.remember(namedCode{code, name})
		return code, name, nil
	}
	if k, ok := r.recall(pc); ok && !errors.Is(err, ErrNoCode) {
		return k.Code, k.name, nil
	}
	return Code{}, "", err
}

// lookup finds the code at pc in the process's current memory.
func (r *Reader) lookup(pc uint64) (Code, error) {
	state, err := v8.ReadWord(r.mem, r.pointer)
	if err != nil {
		return Code{}, err
	}
	if state == 0 { // V8 has not started
		return Code{}, ErrNoCode
	}
	region, err := r.region(state, pc)
	if err != nil {
		return Code{}, err
	}
	if region.module == 0 || pc >= region.end {
		return Code{}, ErrNoCode
	}
	if !r.shape.known {
		misfit := r.misfit
		r.misfit = 0
		shape, err := findShape(r.mem, region.module, misfit, r.kindBits)
		if err != nil {
			return Code{}, err
		}
		shape.lookup = r.shape.lookup
		r.shape = shape
	}
	at, err := r.codeAt(region.module, pc)
	if err != nil {
		return Code{}, err
	}
	code, fits, err := r.shape.code(r.mem, at)
	if err != nil {
		return Code{}, err
	}
	if pc < code.Start || pc >= code.End || code.Module != region.module {
		return Code{}, ErrNoCode
	}
	if !fits { // the shape fitted other code by chance, or V8 is changing this code
		r.shape.known, r.misfit = false, at
		return Code{}, errShape
	}
	return code, nil
}

// A codeSpace is one code space of a module.
type codeSpace struct{ start, end, module uint64 }

// region returns the last code space that starts at or before pc; its module is 0
// if none does.
func (r *Reader) region(state, pc uint64) (codeSpace, error) {
	if r.shape.lookup == 0 {
		offset, err := findRegions(r.mem, state)
		if err != nil || offset == 0 {
			return codeSpace{}, err
		}
		r.shape.lookup = offset
	}
	n, err := floor(r.mem, state+r.shape.lookup, pc)
	if err != nil || n.key == 0 {
		return codeSpace{}, err
	}
	return codeSpace{n.key, n.values[0], n.values[1]}, nil
}

// codeAt returns the address of the WasmCode whose instructions hold pc, or start
// before it: in the map, or among those that V8 has not added to the map yet.
func (r *Reader) codeAt(module, pc uint64) (uint64, error) {
	n, err := floor(r.mem, module+r.shape.owned, pc)
	if err != nil {
		return 0, err
	}
	fresh, err := r.fresh.floor(r.mem, module+r.shape.owned+treeBytes, pc)
	if err != nil {
		return 0, err
	}
	if fresh.start > n.key {
		return fresh.code, nil
	}
	if n.key == 0 {
		return 0, ErrNoCode
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
func (f *freshCode) floor(mem v8.Memory, at, pc uint64) (freshEntry, error) {
	var v [3]uint64
	if err := v8.ReadWords(mem, at, v[:]); err != nil {
		return freshEntry{}, err
	}
	begin, end := v[0], v[1]
	if end < begin || (end-begin)%wordSize != 0 || (end-begin)/wordSize > maxFreshCode {
		return freshEntry{}, errShape
	}
	pointers := make([]uint64, (end-begin)/wordSize)
	if err := v8.ReadWords(mem, begin, pointers); err != nil {
		return freshEntry{}, err
	}
	if !slices.Equal(f.pointers, pointers) {
		codes := make([]freshEntry, 0, len(pointers))
		for _, p := range pointers {
			start, err := v8.ReadWord(mem, p+codeInstructions)
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
func (r *Reader) remember(k namedCode) {
	byStart := func(e namedCode, at uint64) int { return cmp.Compare(e.Start, at) }
	last, _ := slices.BinarySearchFunc(r.known, k.End, byStart)
	first := last
	for first > 0 && r.known[first-1].End > k.Start {
		first--
	}
	if last-first == 1 && r.known[first] == k {
		return
	}
	if len(r.known) >= maxKnownCode {
		r.known, first, last = nil, 0, 0
	}
	r.known = slices.Replace(r.known, first, last, k)
}

func (r *Reader) recall(pc uint64) (namedCode, bool) {
	i, ok := slices.BinarySearchFunc(r.known, pc, func(e namedCode, at uint64) int { return cmp.Compare(e.Start, at) })
	if !ok {
		i--
	}
	if i < 0 || pc >= r.known[i].End {
		return namedCode{}, false
	}
	return r.known[i], true
}

// name returns the name of the code's function.
func (r *Reader) name(c Code) string {
	if c.Index < 0 {
		return stub
	}
	names := r.names[c.Module]
	if names == nil {
		held := 0
		for _, n := range r.names {
			held += len(n.entries)
		}
		if len(r.names) >= maxNamedModules || held > maxNames {
			clear(r.names)
		}
		names = &moduleNames{}
		r.names[c.Module] = names
	}
	if name, ok := names.lookup(r.mem, c.Module, c.Index); ok {
		return name
	}
	return fmt.Sprintf("wasm-function[%d]", c.Index)
}

// stub is the name of a module's code outside of functions: its jump tables.
const stub = "wasm jump table"
