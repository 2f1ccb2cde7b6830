package code

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

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
	tier      symbolize.Tier // of the code
	returns   returns        // of optimized code

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

var (
	errNoSizes   = errors.New("read baseline code: the binary's table of bytecodes' sizes was not found")
	errOtherCode = errors.New("read baseline code: it is another function's")

	// ErrDoubtful means that calls contradict the positions that V8 keeps with code.
	ErrDoubtful = errors.New("the code's calls are not where its positions are")
)

// Bytes returns about how much memory the table takes.
func (t *Table) Bytes() int {
	return len(t.positions) + len(t.lengths) + len(t.bytecodes) + len(t.inlinings)*inliningSize + len(t.Inlined)*wordSize + t.returns.size()
}

// HasPositions reports whether V8 keeps positions with the code.
func (t *Table) HasPositions() bool { return len(t.positions) > 0 }

// At returns the places that the code at an offset stands for: first that of the
// innermost inlined function, last that of the code's own function. The offset is that
// of an instruction, or of the last byte of a call; in bytecodes, as V8 stores it in
// frames. If V8 keeps no positions with the code, it returns the nearest places that are
// known, if any; and ErrDoubtful with the code's own function if what V8 keeps is
// contradictory.
func (t *Table) At(offset int) ([]Place, error) {
	if places, ok, err := t.inCall(offset + 1); ok || err != nil {
		return places, err
	}
	if len(t.positions) == 0 {
		return t.near(offset)
	}
	offset -= t.first
	if t.lengths != nil {
		var err error
		offset, err = bytecodeAt(t.lengths, uint64(offset)+1, func(at int) int { return t.sizes.next(t.bytecodes, at) })
		if err != nil {
			return nil, err
		}
	}
	r, ok, err := rangeAt(t.positions, offset, t.unsigned)
	if err != nil {
		return nil, err
	}
	if !ok { // before the first, the function has not begun
		return []Place{t.place(t.Shared, t.start)}, nil
	}
	places, err := t.placesOf(r.position)
	if err == nil && t.isDoubtful(offset, r, places) {
		return []Place{t.place(t.Shared, -1)}, ErrDoubtful
	}
	return places, err
}

// placesOf returns the places of a position, and of the calls that it is inlined in.
func (t *Table) placesOf(p sourcePosition) (places []Place, err error) {
	for p.inlining() != 0 && len(places) < maxInlined {
		shared, err := t.functionAt(p)
		if err != nil {
			return nil, err
		}
		places = append(places, t.place(shared, t.offsetOf(shared, p)))
		p = t.inlinings[p.inlining()-1].call
	}
	return append(places, t.place(t.Shared, t.offsetOf(t.Shared, p))), nil
}

// place returns a place in a function.
func (t *Table) place(shared v8.Value, offset int) Place {
	p := Place{Shared: shared, Offset: offset}
	if i := slices.Index(t.Inlined, shared); i >= 0 && i < len(t.returns.closures) {
		p.closure = t.returns.closures[i]
	}
	return p
}

// Functions returns a place without a position in each function that is inlined.
func (t *Table) Functions() []Place {
	places := make([]Place, len(t.Inlined))
	for i, shared := range t.Inlined {
		places[i] = t.place(shared, -1)
	}
	return places
}

// offsetOf returns where in its script a position in a function is, -1 if that is not
// known: then Maglev (V8 14) says 0, where only a whole script's code can be.
func (t *Table) offsetOf(shared v8.Value, p sourcePosition) int {
	if offset := p.offset(); offset > 0 || shared == t.Shared && t.start == 0 {
		return offset
	}
	return -1
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
	check := func(shared v8.Value, p sourcePosition) error {
		offset := p.offset()
		if start, end := bounds(shared); offset > 0 && (offset < start || offset > end) {
			return fmt.Errorf("read source positions: %d is not within %d and %d", offset, start, end)
		}
		return nil
	}
	checkInlined := func(p sourcePosition) error {
		shared, err := t.functionAt(p)
		if err != nil {
			return err
		}
		return check(shared, p)
	}
	for _, i := range t.inlinings {
		if err := checkInlined(i.call); err != nil {
			return err
		}
	}
	if err := t.checkEach(t.positions, checkInlined); err != nil {
		return err
	}
	for i, shared := range append(slices.Clone(t.Inlined), t.Shared) {
		if i >= len(t.returns.bytecodes) {
			break
		}
		err := t.checkEach(t.returns.bytecodes[i], func(p sourcePosition) error { return check(shared, p) })
		if err != nil {
			return err
		}
	}
	return nil
}

// checkEach returns the first error of check for the positions of a table.
func (t *Table) checkEach(positions []byte, check func(sourcePosition) error) error {
	var err error
	return cmp.Or(eachPosition(positions, t.unsigned, func(_ int64, p sourcePosition) bool {
		err = check(p)
		return err == nil
	}), err)
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
	t, err := f.optimizedTable(code)
	if errors.Is(err, errNoDeoptimization) && shared != 0 {
		return f.plainTable(code, shared)
	}
	return t, err
}

// plainTable reads the table of optimized code that V8 never leaves for other code.
// Functions that are inlined in it cannot be found: positions in them are errors.
func (f *Finder) plainTable(code Code, shared v8.Value) (Table, error) {
	fn, err := f.heap.FunctionOf(shared)
	if err != nil {
		return Table{}, err
	}
	t := Table{Shared: shared, start: fn.Start, unsigned: f.code.UnsignedSteps}
	t.positions, err = tableOf(f.heap, code.positions)
	if errors.Is(err, errNotTable) {
		return t, nil
	}
	return t, err
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
	if own, ok, err := bytecodesBehind(f.heap, code.deopt); err != nil || ok && own.Address != array.Address {
		return Table{}, cmp.Or(err, errOtherCode)
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
	t := Table{Shared: d.shared, start: -1, unsigned: f.code.UnsignedSteps, tier: code.Tier}
	fn, err := f.heap.FunctionOf(d.shared)
	if err != nil {
		return t, err
	}
	t.start = fn.Start
	if t.Inlined, err = f.inlinedIn(d); err != nil {
		return t, err
	}
	var starts []uint32
	if t.returns, starts, err = f.returnsOf(code, d, t.Inlined); err != nil {
		return t, err
	}
	positions, err := tableOf(f.heap, code.positions)
	switch {
	case err != nil && !errors.Is(err, errNotTable):
		return t, err
	case len(positions) == 0:
		t.returns.known, err = f.known(&t.returns, code, d, starts)
		return t, err
	}
	if t.inlinings, err = f.inliningsOf(d); err != nil {
		return t, err
	}
	t.positions = positions
	return t, nil
}

// inlinedIn returns the SharedFunctionInfos of the functions that are inlined in code.
func (f *Finder) inlinedIn(d deoptimization) ([]v8.Value, error) {
	if d.inlined < 0 || d.inlined > maxFunctions {
		return nil, fmt.Errorf("read inlined functions: %d", d.inlined)
	}
	var all []v8.Value
	for i := range d.inlined {
		shared, err := f.heap.Field(d.literals, arrayFirst+i*wordSize)
		if err != nil {
			return nil, err
		}
		all = append(all, shared.Strong())
	}
	return all, nil
}

// inliningsOf reads the calls that were replaced by their callees' bodies.
func (f *Finder) inliningsOf(d deoptimization) ([]inlining, error) {
	if d.inliningsN < 0 || d.inliningsN > maxInlinings*inliningSize {
		return nil, fmt.Errorf("read inlinings: %d bytes", d.inliningsN)
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
