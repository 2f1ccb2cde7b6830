package code

import (
	"errors"
	"fmt"
	"strings"

	"ustack/symbolize/v8"
)

// Suspended returns the position in its script, in UTF-16 code units, of the yield
// or await at which a generator is suspended; -1 if it is not, or if V8 keeps none.
func Suspended(h *v8.Heap, g v8.Generator) (int, error) {
	if g.Bytecode < 0 {
		return -1, nil
	}
	fn, err := h.Object(g.Function)
	if err != nil {
		return -1, err
	}
	shared, err := h.SharedOf(fn)
	if err != nil {
		return -1, err
	}
	array, ok, err := bytecodes(h, shared)
	if err != nil || !ok {
		return -1, err
	}
	first, ok := h.Offset("BytecodeArray", "data")
	if !ok {
		return -1, nil
	}
	return positionOf(h, array, g.Bytecode-(first-tag))
}

// maxIndirect bounds the objects between a function and its bytecodes.
const maxIndirect = 4

// bytecodes returns the BytecodeArray of a SharedFunctionInfo, if it has one.
func bytecodes(h *v8.Heap, shared v8.Object) (array v8.Object, ok bool, err error) {
	data, err := h.Field(shared, int(h.Binary().Layout.SharedData))
	if err != nil {
		return v8.Object{}, false, err
	}
	return bytecodesBehind(h, data)
}

// bytecodesBehind returns the BytecodeArray that data is or leads to, if any.
func bytecodesBehind(h *v8.Heap, data v8.Value) (array v8.Object, ok bool, err error) {
	for range maxIndirect {
		if err != nil || !data.IsObject() {
			return v8.Object{}, false, err
		}
		o, objectErr := h.Object(data)
		if objectErr != nil {
			return v8.Object{}, false, objectErr
		}
		switch o.Map.Kind {
		case "BytecodeArray":
			return o, true, nil
		case "InterpreterData":
			data, err = h.FieldOf(o, "InterpreterData", "bytecode_array")
		case "BytecodeWrapper":
			data, err = h.FieldOf(o, "BytecodeWrapper", "bytecode")
		case "Code", "BaselineData": // baseline code; or code without bytecodes
			at, ok := h.Offset(o.Map.Kind, "bytecode_or_interpreter_data")
			if !ok {
				return v8.Object{}, false, nil
			}
			data, err = h.Field(o, at)
		default:
			return v8.Object{}, false, nil
		}
	}
	return v8.Object{}, false, nil
}

// positionOf is bytecodePosition for a function that may have no table: it is at -1.
func positionOf(h *v8.Heap, array v8.Object, offset int) (int, error) {
	position, err := bytecodePosition(h, array, offset)
	if errors.Is(err, errNotTable) {
		return -1, nil
	}
	return position, err
}

// bytecodePosition returns the script position of the bytecode at an offset; -1 if
// the table begins later.
func bytecodePosition(h *v8.Heap, array v8.Object, offset int) (int, error) {
	v, err := h.FieldOf(array, "BytecodeArray", "source_position_table")
	if err != nil {
		return -1, err
	}
	table, err := tableOf(h, v)
	if err != nil {
		return -1, err
	}
	p, ok, err := positionAt(table, offset, h.Binary().Release.Code.UnsignedSteps)
	if err != nil || !ok {
		return -1, err
	}
	return p.offset(), nil
}

// tableOf returns the bytes of a table of positions. It returns errNotTable if V8
// has not made one.
func tableOf(h *v8.Heap, v v8.Value) ([]byte, error) {
	if !v.IsObject() {
		return nil, errNotTable
	}
	o, err := h.Object(v)
	if err != nil {
		return nil, err
	}
	if !strings.HasSuffix(o.Map.Kind, "ByteArray") {
		return nil, errNotTable
	}
	n, err := h.SmiField(o, arrayLength)
	if err != nil {
		return nil, err
	}
	if n < 0 || n > maxTable {
		return nil, fmt.Errorf("read source positions at %#x: %d bytes", o.Address, n)
	}
	table, err := h.Bytes(o.Address+arrayFirst, uint64(n), maxTable)
	if err != nil {
		return nil, fmt.Errorf("read source positions at %#x: %w", o.Address, err)
	}
	return table, nil
}

// Bytecodes returns where the bytecodes of a SharedFunctionInfo's function are. It returns
// an error if V8 has not compiled the function, or has dropped its bytecodes.
func Bytecodes(h *v8.Heap, shared v8.Value) (start, size uint64, err error) {
	o, err := h.Object(shared)
	if err != nil {
		return 0, 0, err
	}
	array, ok, err := bytecodes(h, o)
	if err != nil {
		return 0, 0, err
	}
	first, known := h.Offset("BytecodeArray", "data")
	if !ok || !known {
		return 0, 0, fmt.Errorf("find bytecodes of %#x: it has none", o.Address)
	}
	n, err := h.SmiField(array, arrayLength)
	if err != nil {
		return 0, 0, err
	}
	if n < 0 || n > maxBytecodes {
		return 0, 0, fmt.Errorf("read bytecodes at %#x: %d bytes", array.Address, n)
	}
	return array.Address + uint64(first), uint64(n), nil
}
