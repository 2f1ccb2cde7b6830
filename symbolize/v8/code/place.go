package code

import (
	"cmp"
	"errors"
	"fmt"

	"ustack/symbolize/v8"
)

// A Place is the source position of a call, or of the next instruction.
type Place struct {
	Shared  v8.Value // the function's SharedFunctionInfo
	Offset  int      // in UTF-16 code units from the script's start; -1 if not known
	Nearest bool     // it is that of the nearest instruction whose place V8 keeps

	closure v8.Value // the function itself, if it is inlined and V8 keeps which it is; or 0
}

// Function returns the function of an inlined place. Its name is the one that the program
// has set, if V8 keeps which of the function's closures runs; or else the one in the source.
func Function(h *v8.Heap, p Place) (v8.Function, error) {
	if o, err := h.Object(p.closure); err == nil && h.IsFunction(o) {
		shared, err := h.Field(o, int(h.Binary().Layout.FunctionShared))
		if fn, nameErr := h.Function(o); err == nil && shared == p.Shared && nameErr == nil {
			return fn, nil
		}
	}
	return h.FunctionOf(p.Shared)
}

var errNotTable = errors.New("read source positions: there is no table")

// Interpreted returns the current position of the function at the frame pointer
// fp, which V8's interpreter runs.
func (f *Finder) Interpreted(fp uint64) (int, error) {
	array, err := f.bytecodes(fp)
	if err != nil {
		return -1, err
	}
	tagged, err := f.slot(fp, int(f.layout.FPBytecodeOffset))
	if err != nil {
		return -1, err
	}
	offset, ok := tagged.Smi()
	if !ok {
		return -1, fmt.Errorf("read frame at %#x: the bytecode's offset is %#x", fp, uint64(tagged))
	}
	return bytecodePosition(f.heap, array, offset-int(f.code.bytecodes)+tag)
}

// IsBaseline reports whether the function at the frame pointer fp, on whose
// behalf one of V8's builtins runs, has baseline code. The builtin builds or
// removes the function's frame, which has no bytecode offset.
func (f *Finder) IsBaseline(fp uint64) bool {
	tagged, err := f.slot(fp, int(f.layout.FPBytecodeOffset))
	if err != nil {
		return false
	}
	_, err = f.heap.Object(tagged)
	return err == nil
}

// Returning is Interpreted for a function that is returning: V8 reports the
// position of its end.
func (f *Finder) Returning(fp uint64) (int, error) {
	array, err := f.bytecodes(fp)
	if err != nil {
		return -1, err
	}
	return bytecodePosition(f.heap, array, maxBytecodes)
}

// Baseline is Interpreted for baseline code, which is compiled bytecode by
// bytecode. pc is the instruction, or the return address.
func (f *Finder) Baseline(code Code, fp, pc uint64) (int, error) {
	array, err := f.bytecodes(fp)
	if err != nil {
		return -1, err
	}
	var t Table
	t.start, t.unsigned = -1, f.code.UnsignedSteps
	if err := f.addBaseline(&t, code, array); err != nil {
		return -1, err
	}
	places, err := t.At(int(pc-code.Start) - 1)
	if err != nil || len(places) == 0 {
		return -1, cmp.Or(err, errNotTable)
	}
	return places[0].Offset, nil
}

// bytecodes returns the BytecodeArray of the frame at fp.
func (f *Finder) bytecodes(fp uint64) (v8.Object, error) {
	tagged, err := f.slot(fp, int(f.layout.FPBytecodeArray))
	if err != nil {
		return v8.Object{}, err
	}
	o, err := f.heap.Object(tagged)
	if err != nil {
		return v8.Object{}, err
	}
	if o.Map.Type != f.layout.BytecodeArray {
		return v8.Object{}, fmt.Errorf("read bytecodes at %#x: it has type %d", o.Address, o.Map.Type)
	}
	return o, nil
}

// Optimized returns the places that the instruction at pc stands for: first that
// of the innermost inlined function, last that of the code's own function. pc is
// the address of the call, not its return address. If V8 keeps no positions with
// the code, they are the nearest places that are known. If its positions are doubtful, offsets
// are -1 and functions inlined there are not found.
func (f *Finder) Optimized(code Code, pc uint64) ([]Place, error) {
	t, err := f.optimizedTable(code)
	if t.Shared == 0 {
		return nil, err
	}
	places, atErr := t.At(int(pc - code.Start))
	if errors.Is(atErr, ErrDoubtful) { // the offset says so
		atErr = nil
	}
	if len(places) == 0 {
		places = []Place{t.place(t.Shared, -1)}
	}
	return places, cmp.Or(err, atErr)
}
