package code

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"

	"ustack/symbolize"
	"ustack/symbolize/v8"
)

// A Table maps places in one piece of code to the source. It is a copy: V8 may replace
// the code, or move what it refers to. The zero value knows no position.
type Table struct {
	Shared  v8.Value   // SharedFunctionInfo of the function that the code was made for
	Inlined []v8.Value // those of functions that are inlined in it

	start     int    // of the function in its script, in UTF-16 code units; -1 if not known
	positions []byte // of the code, or of the function's bytecodes
	unsigned  bool   // how steps in positions are coded
	inlinings []inlining

	first     int    // of bytecodes: the offset of the first, as it is in frames
	lengths   []byte // of baseline code: of each bytecode's instructions
	bytecodes []byte // of baseline code
	sizes     bytecodeSizes
}

// An inlining is a call that was replaced by its callee's body.
type inlining struct {
	call     sourcePosition
	function int // index in the literals; below 0: the function itself
}

var errNoSizes = errors.New("read baseline code: the binary's table of bytecodes' sizes was not found")

// Bytes returns about how much memory the table takes.
func (t *Table) Bytes() int {
	return len(t.positions) + len(t.lengths) + len(t.bytecodes) + len(t.inlinings)*inliningSize + len(t.Inlined)*wordSize
}

// At returns the places that the code at an offset stands for: first that of the
// innermost inlined function, last that of the code's own function. The offset is that
// of an instruction, or of the last byte of a call; in bytecodes, as V8 stores it in
// frames. It returns nil if V8 keeps no positions with the code.
func (t *Table) At(offset int) ([]Place, error) {
	if len(t.positions) == 0 {
		return nil, nil
	}
	offset -= t.first
	if t.lengths != nil {
		var err error
		offset, err = bytecodeAt(t.lengths, uint64(offset)+1, func(at int) int { return t.sizes.next(t.bytecodes, at) })
		if err != nil {
			return nil, err
		}
	}
	p, ok, err := positionAt(t.positions, offset, t.unsigned)
	if err != nil {
		return nil, err
	}
	if !ok { // before the first, the function has not begun
		return []Place{{t.Shared, t.start}}, nil
	}
	var places []Place
	for p.inlining() != 0 && len(places) < maxInlined {
		shared, err := t.functionAt(p)
		if err != nil {
			return nil, err
		}
		places = append(places, Place{shared, p.offset()})
		p = t.inlinings[p.inlining()-1].call
	}
	return append(places, Place{t.Shared, p.offset()}), nil
}

// functionAt returns the SharedFunctionInfo of the function that a position is in.
func (t *Table) functionAt(p sourcePosition) (v8.Value, error) {
	at := p.inlining() - 1
	if at < 0 {
		return t.Shared, nil
	}
	if at >= len(t.inlinings) {
		return 0, fmt.Errorf("read inlining %d of %d", at, len(t.inlinings))
	}
	function := t.inlinings[at].function
	if function >= len(t.Inlined) {
		return 0, fmt.Errorf("read inlining %d: function %d of %d", at, function, len(t.Inlined))
	}
	if function < 0 {
		return t.Shared, nil
	}
	return t.Inlined[function], nil
}

// Check returns an error if a position is outside of the text of its function, which
// bounds returns: the table was read while V8 was moving or replacing parts of it.
func (t *Table) Check(bounds func(shared v8.Value) (start, end int)) error {
	var err error
	check := func(_ int64, p sourcePosition) bool {
		var shared v8.Value
		if shared, err = t.functionAt(p); err != nil {
			return false
		}
		offset := p.offset()
		if start, end := bounds(shared); offset >= 0 && (offset < start || offset > end) {
			err = fmt.Errorf("read source positions: %d is not within %d and %d", offset, start, end)
		}
		return err == nil
	}
	for _, i := range t.inlinings {
		if !check(0, i.call) {
			return err
		}
	}
	return cmp.Or(eachPosition(t.positions, t.unsigned, check), err)
}

// Table reads the table of a piece of code; shared is its function's
// SharedFunctionInfo.
func (f *Finder) Table(code Code, shared v8.Value) (Table, error) {
	if code.Builtin {
		return Table{}, errNotTable
	}
	if code.Tier == symbolize.Baseline {
		return f.baselineTable(code, shared)
	}
	return f.optimizedTable(code)
}

// BytecodeTable reads the table of a function's bytecodes.
func (f *Finder) BytecodeTable(shared v8.Value) (Table, error) {
	array, t, err := f.bytecodesOf(shared)
	if err != nil {
		return Table{}, err
	}
	t.first = int(f.code.bytecodes) - tag
	t.positions, err = f.positionsOf(array)
	return t, err
}

// bytecodesOf returns a function's BytecodeArray, and a table that has no positions yet.
func (f *Finder) bytecodesOf(shared v8.Value) (v8.Object, Table, error) {
	o, err := f.heap.Object(shared)
	if err != nil {
		return v8.Object{}, Table{}, err
	}
	fn, err := f.heap.Shared(o)
	if err != nil {
		return v8.Object{}, Table{}, err
	}
	array, ok, err := bytecodes(f.heap, o)
	if err == nil && !ok {
		err = fmt.Errorf("read function at %#x: it has no bytecodes", o.Address)
	}
	return array, Table{Shared: o.Ref(), start: fn.Start, unsigned: f.code.UnsignedSteps}, err
}

// positionsOf returns the positions of bytecodes; nil if V8 has not made them.
func (f *Finder) positionsOf(array v8.Object) ([]byte, error) {
	v, err := f.heap.FieldOf(array, "BytecodeArray", "source_position_table")
	if err != nil {
		return nil, err
	}
	table, err := tableOf(f.heap, v)
	if errors.Is(err, errNotTable) {
		return nil, nil
	}
	return table, err
}

func (f *Finder) baselineTable(code Code, shared v8.Value) (Table, error) {
	array, t, err := f.bytecodesOf(shared)
	if err != nil {
		return Table{}, err
	}
	err = f.addBaseline(&t, code, array)
	return t, err
}

// addBaseline adds to a table what it takes to find positions in the baseline code of
// the bytecodes in array.
func (f *Finder) addBaseline(t *Table, code Code, array v8.Object) (err error) {
	if len(f.code.sizes) == 0 {
		return errNoSizes
	}
	t.sizes = f.code.sizes
	if t.lengths, err = tableOf(f.heap, code.positions); err != nil {
		return err
	}
	if t.bytecodes, err = f.bytesOf(array); err != nil {
		return err
	}
	t.positions, err = f.positionsOf(array)
	return err
}

// bytesOf returns the bytes of a BytecodeArray.
func (f *Finder) bytesOf(array v8.Object) ([]byte, error) {
	length, err := f.heap.SmiField(array, bytecodeLength)
	if err != nil {
		return nil, err
	}
	if length < 0 || length > maxBytecodes {
		return nil, fmt.Errorf("read bytecodes at %#x: %d bytes", array.Address, length)
	}
	b, err := f.heap.Bytes(array.Address+f.code.bytecodes, uint64(length), maxBytecodes)
	if err != nil {
		return nil, fmt.Errorf("read bytecodes at %#x: %w", array.Address, err)
	}
	return b, nil
}

// optimizedTable reads the table of code that TurboFan or Maglev made. With an error it
// says at least which function the code is for, if that is known.
func (f *Finder) optimizedTable(code Code) (Table, error) {
	d, err := f.deoptimization(code)
	if err != nil {
		return Table{}, err
	}
	t := Table{Shared: d.shared, start: -1, unsigned: f.code.UnsignedSteps}
	positions, err := tableOf(f.heap, code.positions)
	if errors.Is(err, errNotTable) {
		return t, nil
	}
	if err != nil {
		return t, err
	}
	fn, err := f.heap.FunctionOf(d.shared)
	if err != nil {
		return t, err
	}
	if t.inlinings, err = f.inliningsOf(d); err != nil {
		return t, err
	}
	for _, i := range t.inlinings {
		for i.function >= len(t.Inlined) {
			shared, err := f.heap.Field(d.literals, arrayFirst+len(t.Inlined)*wordSize)
			if err != nil {
				return t, err
			}
			t.Inlined = append(t.Inlined, shared.Strong())
		}
	}
	t.start, t.positions = fn.Start, positions
	return t, nil
}

// inliningsOf reads the calls that were replaced by their callees' bodies.
func (f *Finder) inliningsOf(d deoptimization) ([]inlining, error) {
	if d.inliningsN < 0 || d.inliningsN > maxInlinings*inliningSize || d.inlined < 0 || d.inlined > maxFunctions {
		return nil, fmt.Errorf("read inlinings: %d bytes, %d functions", d.inliningsN, d.inlined)
	}
	b, err := f.heap.Bytes(d.inlinings.Address+arrayFirst, uint64(d.inliningsN), maxInlinings*inliningSize)
	if err != nil {
		return nil, fmt.Errorf("read inlinings: %w", err)
	}
	var all []inlining
	for ; len(b) >= inliningSize; b = b[inliningSize:] {
		i := inlining{
			call:     sourcePosition(binary.LittleEndian.Uint64(b)),
			function: int(int32(binary.LittleEndian.Uint32(b[inliningIndex:]))),
		}
		if i.function >= d.inlined {
			return nil, fmt.Errorf("read inlining %d: function %d of %d", len(all), i.function, d.inlined)
		}
		all = append(all, i)
	}
	return all, nil
}
