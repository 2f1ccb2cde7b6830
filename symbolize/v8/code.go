package v8

import (
	"encoding/binary"
	"errors"
	"fmt"

	"ustack/symbolize"
	"ustack/symbolize/elfsym"
)

// Codes finds the machine code that a stack address belongs to, and the line and
// function that run there. It must not be used concurrently.
type Codes struct {
	*Heap
	code     codeLayout
	dispatch uint64 // the process's dispatch table; 0: each isolate has its own, or V8 has none
}

// NewCodes returns the Codes of the process that h reads. f is the file of its V8,
// bias the difference between loaded addresses and those in the file.
func NewCodes(h *Heap, f *elfsym.File, bias uint64) (*Codes, error) {
	base, err := h.binary.DispatchBase(h.mem, bias)
	if err != nil {
		err = fmt.Errorf("%w (only functions entered in the middle of a loop have their line)", err)
	}
	return &Codes{h, codeLayoutOf(f, h.binary.Release), base}, err
}

// A Code is a piece of machine code that V8 made for a function, or one of its
// builtins.
type Code struct {
	Address     uint64 // of the object, untagged
	Start, Size uint64 // of the instructions
	Tier        symbolize.Tier
	Builtin     bool // it is one of V8's own, including the interpreter's

	deopt, positions Value
}

// Holds reports whether pc points to one of the code's instructions.
func (c Code) Holds(pc uint64) bool { return pc-c.Start < c.Size }

// OfFunction returns the code that runs when a function of isolate is called. A
// function that was entered in the middle of a loop, or recompiled since, may be
// running other code: At finds it.
func (c *Codes) OfFunction(function Value, isolate uint64) (Code, error) {
	o, err := c.Object(function)
	if err != nil {
		return Code{}, err
	}
	l := c.layout
	if !c.IsFunction(o) {
		return Code{}, fmt.Errorf("read function at %#x: it has type %d", o.Address, o.Map.Type)
	}
	if l.DispatchHandle == 0 {
		code, err := c.Field(o, int(l.FunctionCode))
		if err != nil {
			return Code{}, err
		}
		return c.read(code)
	}
	handle, err := c.Uint32(o, int(l.FunctionCode))
	if err != nil {
		return Code{}, err
	}
	code, err := c.dispatched(handle, isolate)
	if err != nil {
		return Code{}, err
	}
	return c.read(code)
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
func (c *Codes) dispatched(handle uint32, isolate uint64) (Value, error) {
	base := c.dispatch
	if base == 0 && c.layout.DispatchTable != 0 && isolate != 0 {
		var err error
		if base, err = c.Word(isolate + uint64(c.layout.DispatchTable)); err != nil {
			return 0, fmt.Errorf("read the isolate's dispatch table: %w", err)
		}
	}
	if base == 0 {
		return 0, errNoTable
	}
	w, err := c.Word(base + uint64(handle>>handleShift)*entrySize + wordSize)
	if err != nil {
		return 0, fmt.Errorf("read the dispatch table: %w", err)
	}
	return Ref(w >> entryShift), nil
}

// read reads a Code object.
func (c *Codes) read(v Value) (Code, error) {
	o, err := c.Object(v)
	if err != nil {
		return Code{}, err
	}
	l := c.layout
	if o.Map.Type != l.Code {
		return Code{}, fmt.Errorf("read code at %#x: it has type %d", o.Address, o.Map.Type)
	}
	code := Code{Address: o.Address, Start: o.Address + uint64(l.CodeStart)}
	if l.CodeStartPointer != 0 {
		start, err := c.Field(o, int(l.CodeStart))
		if err != nil {
			return Code{}, err
		}
		code.Start = uint64(start)
	}
	size, err := c.Uint32(o, int(l.CodeSize))
	if err != nil {
		return Code{}, err
	}
	flags, err := c.Uint32(o, int(l.CodeFlags))
	if err != nil {
		return Code{}, err
	}
	code.Size = uint64(size)
	code.Tier, code.Builtin = c.tier(flags & uint32(l.CodeKindMask))
	if code.deopt, err = c.Field(o, int(c.code.Deopt)); err != nil {
		return Code{}, err
	}
	code.positions, err = c.Field(o, int(c.code.Positions))
	return code, err
}

func (c *Codes) tier(kind uint32) (tier symbolize.Tier, builtin bool) {
	l := c.layout
	switch {
	case kind <= c.code.kindInterpreted:
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
func (c *Codes) At(pc, low uint64) (Code, error) {
	if pc > maxCodeSearch {
		low = max(low, pc-maxCodeSearch)
	}
	maps := make(map[uint64]bool) // words seen, and whether they are the map looked for
	step := make([]byte, searchStep)
	for end := pc &^ (wordSize - 1); end > low; {
		b := step[:min(searchStep, end-low)]
		end -= uint64(len(b))
		if _, err := c.mem.ReadAt(b, end); err != nil {
			return Code{}, fmt.Errorf("read code before %#x: %w", pc, err)
		}
		for at := len(b) - wordSize; at >= 0; at -= wordSize {
			w := binary.LittleEndian.Uint64(b[at:])
			if w&heapTagMask != heapTag || !c.isInstructions(w, maps) {
				continue
			}
			if code, err := c.around(end + uint64(at)); err == nil && code.Holds(pc) {
				return code, nil
			}
		}
	}
	return Code{}, errNoCode
}

// isInstructions reports whether w is the map of objects that hold machine code.
func (c *Codes) isInstructions(w uint64, known map[uint64]bool) bool {
	is, ok := known[w]
	if !ok {
		typ, err := c.uint16(w - heapTag + uint64(c.layout.MapInstanceType))
		is = err == nil && typ == c.code.instructionsObject
		known[w] = is
	}
	return is
}

// around returns the code whose instructions are in the object at address.
func (c *Codes) around(address uint64) (Code, error) {
	code := Ref(address)
	if c.code.Streams {
		w, err := c.Word(address + streamCode)
		if err != nil {
			return Code{}, err
		}
		code = Value(w)
	}
	return c.read(code)
}
