// Package code finds the machine code and the bytecodes of V8's functions, and the
// lines of source that they come from: of frames, of functions that are inlined
// there, and of the calls that an error recorded.
package code

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"

	"ustack/symbolize"
	"ustack/symbolize/v8"
)

// maxFlagSlots are the bits that have the words of a frame in a Code's flags, after its
// kind and whether TurboFan made it.
const maxFlagSlots = 1<<24 - 1

// A Finder finds the machine code that a stack address belongs to, and the line and
// function that run there. It must not be used concurrently.
type Finder struct {
	heap     *v8.Heap
	layout   *v8.Layout
	code     codeLayout
	dispatch uint64            // the process's dispatch table; 0: each isolate has its own, or V8 has none
	exits    map[uint64]*exits // by address of the code
}

// NewFinder returns the Finder of the process that h reads. Bias is the difference
// between loaded addresses of V8's and those in its file.
func NewFinder(h *v8.Heap, bias uint64) (*Finder, error) {
	base, err := h.Binary().DispatchBase(h, bias)
	if err != nil {
		err = fmt.Errorf("%w (only functions entered in the middle of a loop have their line)", err)
	}
	return &Finder{heap: h, layout: &h.Binary().Layout, code: codeLayoutOf(h.Binary()), dispatch: base}, err
}

// A Code is a piece of machine code that V8 made for a function, or one of its
// builtins.
type Code struct {
	Address     uint64 // of the object, untagged
	Start, Size uint64 // of the instructions
	Tier        symbolize.Tier
	Builtin     bool // it is one of V8's own, including the interpreter's

	slots            uint32 // words of its frame, unless the table of safepoints has them
	deopt, positions v8.Value
}

// Holds reports whether pc points to one of the code's instructions.
func (c Code) Holds(pc uint64) bool { return pc-c.Start < c.Size }

// OfFunction returns the code that runs when a function of isolate is called. A
// function that was entered in the middle of a loop, or recompiled since, may be
// running other code: At finds it.
func (f *Finder) OfFunction(function v8.Value, isolate uint64) (Code, error) {
	o, err := f.heap.Object(function)
	if err != nil {
		return Code{}, err
	}
	l := f.layout
	if !f.heap.IsFunction(o) {
		return Code{}, fmt.Errorf("read function at %#x: it has type %d", o.Address, o.Map.Type)
	}
	if l.DispatchHandle == 0 {
		code, err := f.heap.Field(o, int(l.FunctionCode))
		if err != nil {
			return Code{}, err
		}
		return f.Code(code)
	}
	handle, err := f.heap.Uint32(o, int(l.FunctionCode))
	if err != nil {
		return Code{}, err
	}
	code, err := f.dispatched(handle, isolate)
	if err != nil {
		return Code{}, err
	}
	return f.Code(code)
}

// An entry of the dispatch table has the address of the instructions, then the
// Code in the upper 48 bits of the second word.
const (
	handleShift = 8
	entrySize   = 16
	entryShift  = 16
)

var errNoTable = errors.New("read code: the dispatch table is not known")

// dispatched returns the Code that handle refers to in the dispatch table.
func (f *Finder) dispatched(handle uint32, isolate uint64) (v8.Value, error) {
	base := f.dispatch
	if base == 0 && f.layout.DispatchTable != 0 && isolate != 0 {
		var err error
		if base, err = f.heap.Word(isolate + uint64(f.layout.DispatchTable)); err != nil {
			return 0, fmt.Errorf("read the isolate's dispatch table: %w", err)
		}
	}
	if base == 0 {
		return 0, errNoTable
	}
	w, err := f.heap.Word(base + uint64(handle>>handleShift)*entrySize + wordSize)
	if err != nil {
		return 0, fmt.Errorf("read the dispatch table: %w", err)
	}
	return v8.Ref(w >> entryShift), nil
}

// Code reads a Code object.
func (f *Finder) Code(v v8.Value) (Code, error) {
	o, err := f.heap.Object(v)
	if err != nil {
		return Code{}, err
	}
	l := f.layout
	if o.Map.Type != l.Code {
		return Code{}, fmt.Errorf("read code at %#x: it has type %d", o.Address, o.Map.Type)
	}
	code := Code{Address: o.Address, Start: o.Address + uint64(l.CodeStart)}
	if l.CodeStartPointer != 0 {
		start, err := f.heap.Field(o, int(l.CodeStart))
		if err != nil {
			return Code{}, err
		}
		code.Start = uint64(start)
	}
	size, err := f.heap.Uint32(o, int(l.CodeSize))
	if err != nil {
		return Code{}, err
	}
	flags, err := f.heap.Uint32(o, int(l.CodeFlags))
	if err != nil {
		return Code{}, err
	}
	code.Size = uint64(size)
	code.Tier, code.Builtin = f.tier(flags & uint32(l.CodeKindMask))
	code.slots = flags >> (bits.Len8(l.CodeKindMask) + 1) & maxFlagSlots
	if code.deopt, err = f.heap.Field(o, int(f.code.Deopt)); err != nil {
		return Code{}, err
	}
	code.positions, err = f.heap.Field(o, int(f.code.Positions))
	return code, err
}

func (f *Finder) tier(kind uint32) (tier symbolize.Tier, builtin bool) {
	l := f.layout
	switch {
	case kind <= f.code.kindInterpreted:
		return symbolize.NoTier, true
	case kind == uint32(l.KindBaseline):
		return symbolize.Baseline, false
	case l.KindMaglev != 0 && kind == uint32(l.KindMaglev):
		return symbolize.Maglev, false
	case kind == uint32(l.KindTurbofan):
		return symbolize.Turbofan, false
	}
	return symbolize.Optimized, false
}

// Limits on the search for the object that contains machine code.
const (
	maxCodeSearch = 4 << 20 // bytes before the pc; larger functions are not compiled
	searchStep    = 64 << 10
)

var errNoCode = errors.New("read code: no object before the instruction holds it")

// At returns the code that holds the instruction at pc, in memory that starts at
// low. It searches backward from pc for the start of the object.
func (f *Finder) At(pc, low uint64) (Code, error) {
	if pc > maxCodeSearch {
		low = max(low, pc-maxCodeSearch)
	}
	maps := make(map[uint64]bool) // words seen, and whether they are the map looked for
	step := make([]byte, searchStep)
	for end := pc &^ (wordSize - 1); end > low; {
		b := step[:min(searchStep, end-low)]
		end -= uint64(len(b))
		if _, err := f.heap.ReadAt(b, end); err != nil {
			return Code{}, fmt.Errorf("read code before %#x: %w", pc, err)
		}
		for at := len(b) - wordSize; at >= 0; at -= wordSize {
			w := binary.LittleEndian.Uint64(b[at:])
			if w&tagMask != tag || !f.isInstructions(w, maps) {
				continue
			}
			if code, err := f.around(end + uint64(at)); err == nil && code.Holds(pc) {
				return code, nil
			}
		}
	}
	return Code{}, errNoCode
}

// isInstructions reports whether w is the map of objects that hold machine code.
func (f *Finder) isInstructions(w uint64, known map[uint64]bool) bool {
	is, ok := known[w]
	if !ok {
		m, err := f.heap.MapAt(w - tag)
		is = err == nil && m.Kind == f.code.instructions
		known[w] = is
	}
	return is
}

// around returns the code whose instructions are in the object at address.
func (f *Finder) around(address uint64) (Code, error) {
	code := v8.Ref(address)
	if f.code.Streams {
		w, err := f.heap.Word(address + streamCode)
		if err != nil {
			return Code{}, err
		}
		code = v8.Value(w)
	}
	return f.Code(code)
}
