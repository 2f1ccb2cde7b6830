package v8

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// A Place is the source position of a call, or of the next instruction.
type Place struct {
	Shared Value // the function's SharedFunctionInfo
	Offset int   // in UTF-16 code units from the script's start; -1 if not known
}

var errNotTable = errors.New("read source positions: there is no table")

// Interpreted returns the current position of the function at the frame pointer
// fp, which V8's interpreter runs.
func (c *Codes) Interpreted(fp uint64) (int, error) {
	array, err := c.bytecodes(fp)
	if err != nil {
		return -1, err
	}
	tagged, err := c.slot(fp, int(c.layout.FPBytecodeOffset))
	if err != nil {
		return -1, err
	}
	offset, ok := tagged.Smi()
	if !ok {
		return -1, fmt.Errorf("read frame at %#x: the bytecode's offset is %#x", fp, uint64(tagged))
	}
	return c.bytecodePosition(array, offset-int(c.code.bytecodes)+heapTag)
}

// IsBaseline reports whether the function at the frame pointer fp, on whose
// behalf one of V8's builtins runs, has baseline code. The builtin builds or
// removes the function's frame, which has no bytecode offset.
func (c *Codes) IsBaseline(fp uint64) bool {
	tagged, err := c.slot(fp, int(c.layout.FPBytecodeOffset))
	if err != nil {
		return false
	}
	_, err = c.Object(tagged)
	return err == nil
}

// Returning is Interpreted for a function that is returning: V8 reports the
// position of its end.
func (c *Codes) Returning(fp uint64) (int, error) {
	array, err := c.bytecodes(fp)
	if err != nil {
		return -1, err
	}
	return c.bytecodePosition(array, maxBytecodes)
}

// Baseline is Interpreted for baseline code, which is compiled bytecode by
// bytecode. pc is the instruction, or the return address.
func (c *Codes) Baseline(code Code, fp, pc uint64) (int, error) {
	array, err := c.bytecodes(fp)
	if err != nil {
		return -1, err
	}
	if len(c.code.sizes) == 0 {
		return -1, fmt.Errorf("read baseline code: no symbol %s", bytecodeSizesOf)
	}
	table, err := c.table(code.positions)
	if err != nil {
		return -1, err
	}
	length, err := c.SmiField(array, bytecodeLength)
	if err != nil {
		return -1, err
	}
	if length < 0 || length > maxBytecodes {
		return -1, fmt.Errorf("read bytecodes at %#x: %d bytes", array.Address, length)
	}
	bytecodes := make([]byte, length)
	if _, err := c.mem.ReadAt(bytecodes, array.Address+c.code.bytecodes); err != nil {
		return -1, fmt.Errorf("read bytecodes at %#x: %w", array.Address, err)
	}
	at, err := bytecodeAt(table, pc-code.Start, func(at int) int { return c.code.sizes.next(bytecodes, at) })
	if err != nil {
		return -1, err
	}
	return c.bytecodePosition(array, at)
}

// bytecodes returns the BytecodeArray of the frame at fp.
func (c *Codes) bytecodes(fp uint64) (Object, error) {
	tagged, err := c.slot(fp, int(c.layout.FPBytecodeArray))
	if err != nil {
		return Object{}, err
	}
	o, err := c.Object(tagged)
	if err != nil {
		return Object{}, err
	}
	if o.Map.Type != c.layout.BytecodeArray {
		return Object{}, fmt.Errorf("read bytecodes at %#x: it has type %d", o.Address, o.Map.Type)
	}
	return o, nil
}

func (c *Codes) bytecodePosition(array Object, offset int) (int, error) {
	v, err := c.Field(array, int(c.code.bytecodePositions))
	if err != nil {
		return -1, err
	}
	table, err := c.table(v)
	if err != nil {
		return -1, err
	}
	p, ok, err := positionAt(table, offset, c.code.UnsignedSteps)
	if err != nil || !ok {
		return -1, err
	}
	return p.offset(), nil
}

// table returns the bytes of a table of positions, which V8 may not have made.
func (c *Codes) table(v Value) ([]byte, error) {
	o, err := c.Object(v)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(c.code.byteArrays, o.Map.Type) {
		return nil, errNotTable
	}
	n, err := c.SmiField(o, arrayLength)
	if err != nil {
		return nil, err
	}
	if n < 0 || n > maxTable {
		return nil, fmt.Errorf("read source positions at %#x: %d bytes", o.Address, n)
	}
	table := make([]byte, n)
	if _, err := c.mem.ReadAt(table, o.Address+arrayFirst); err != nil {
		return nil, fmt.Errorf("read source positions at %#x: %w", o.Address, err)
	}
	return table, nil
}

// Optimized returns the places that the instruction at pc stands for: first that
// of the innermost inlined function, last that of the code's own function. pc is
// the address of the call, not its return address. If V8 keeps no positions with
// the code, offsets are -1 and functions inlined there are not found.
func (c *Codes) Optimized(code Code, pc uint64) ([]Place, error) {
	d, err := c.deoptimization(code)
	if err != nil {
		return nil, err
	}
	outermost := Place{Shared: d.shared, Offset: -1}
	table, err := c.table(code.positions)
	if errors.Is(err, errNotTable) {
		return []Place{outermost}, nil
	}
	if err != nil {
		return []Place{outermost}, err
	}
	p, ok, err := positionAt(table, int(pc-code.Start), c.code.UnsignedSteps)
	if err != nil || len(table) == 0 {
		return []Place{outermost}, err
	}
	if !ok { // the frame's prologue
		f, err := c.FunctionOf(d.shared)
		outermost.Offset = f.Start
		return []Place{outermost}, err
	}
	var places []Place
	for p.inlining() != 0 && len(places) < maxInlined {
		place, call, err := c.inlined(d, p)
		if err != nil {
			return append(places, outermost), err
		}
		places = append(places, place)
		p = call
	}
	outermost.Offset = p.offset()
	return append(places, outermost), nil
}

// A deoptimization is the data that V8 keeps to return from optimized code to the
// functions it was compiled from.
type deoptimization struct {
	shared     Value
	inlined    int
	literals   Object // the inlined functions, then others
	inlinings  Object
	inliningsN int // bytes
}

func (c *Codes) deoptimization(code Code) (deoptimization, error) {
	var d deoptimization
	data, err := c.Object(code.deopt)
	if err != nil {
		return d, err
	}
	element := func(i int) (Value, error) { return c.Field(data, arrayFirst+i*wordSize) }
	n, err := c.SmiField(data, arrayLength)
	if err != nil {
		return d, err
	}
	if n <= c.code.DeoptInlinings {
		return d, fmt.Errorf("read code at %#x: it has no deoptimization data", code.Address)
	}
	shared, err := element(c.code.DeoptShared)
	if err != nil {
		return d, err
	}
	if c.code.SharedWrapped {
		wrapper, err := c.Object(shared)
		if err != nil {
			return d, err
		}
		if shared, err = c.Field(wrapper, wrappedShared); err != nil {
			return d, err
		}
	}
	d.shared = shared
	inlined, err := element(c.code.DeoptInlined)
	if err != nil {
		return d, err
	}
	d.inlined, _ = inlined.Smi()
	for _, part := range []struct {
		index int
		to    *Object
	}{{c.code.DeoptLiterals, &d.literals}, {c.code.DeoptInlinings, &d.inlinings}} {
		tagged, err := element(part.index)
		if err != nil {
			return d, err
		}
		if *part.to, err = c.Object(tagged); err != nil {
			return d, err
		}
	}
	d.inliningsN, err = c.SmiField(d.inlinings, arrayLength)
	return d, err
}

// inlined returns the place p in an inlined function, and the position of its
// call.
func (c *Codes) inlined(d deoptimization, p sourcePosition) (Place, sourcePosition, error) {
	at := p.inlining() - 1
	if (at+1)*inliningSize > d.inliningsN {
		return Place{}, 0, fmt.Errorf("read inlining %d of %d", at, d.inliningsN/inliningSize)
	}
	var entry [inliningSize]byte
	if _, err := c.mem.ReadAt(entry[:], d.inlinings.Address+arrayFirst+uint64(at)*inliningSize); err != nil {
		return Place{}, 0, fmt.Errorf("read inlining %d: %w", at, err)
	}
	call := sourcePosition(binary.LittleEndian.Uint64(entry[:]))
	index := int(int32(binary.LittleEndian.Uint32(entry[inliningIndex:])))
	place := Place{Shared: d.shared, Offset: p.offset()}
	if index < 0 {
		return place, call, nil
	}
	if index >= d.inlined {
		return Place{}, 0, fmt.Errorf("read inlining %d: function %d of %d", at, index, d.inlined)
	}
	shared, err := c.Field(d.literals, arrayFirst+index*wordSize)
	place.Shared = shared.Strong()
	return place, call, err
}
