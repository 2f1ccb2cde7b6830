package v8

import (
	"fmt"
	"strings"
)

// A GeneratorState says whether a generator or an async function is suspended,
// running or finished.
type GeneratorState int

// States of a generator.
const (
	Suspended GeneratorState = iota // also before its first step
	Running
	Closed
)

func (s GeneratorState) String() string {
	switch s {
	case Suspended:
		return "suspended"
	case Running:
		return "running"
	case Closed:
		return "closed"
	}
	return fmt.Sprintf("GeneratorState(%d)", int(s))
}

// Values of a generator's continuation if it is not suspended.
const (
	generatorRunning = -2
	generatorClosed  = -1
)

// A Generator is the state of a generator, or of a call of an async function.
type Generator struct {
	Function, Context, Receiver Value
	State                       GeneratorState
	Offset                      int   // in the script, in UTF-16 code units, of the yield or await; -1 if not suspended, or not known
	Promise                     Value // of an async function's call; 0 for others
}

// isGenerator reports whether Generator can read o.
func isGenerator(o Object) bool {
	switch o.Map.Kind {
	case "JSGeneratorObject", "JSAsyncFunctionObject", "JSAsyncGeneratorObject":
		return true
	}
	return false
}

// Generator reads a JSGeneratorObject, of any kind.
func (h *Heap) Generator(o Object) (Generator, error) {
	g := Generator{Offset: -1}
	if !isGenerator(o) {
		return g, fmt.Errorf("read generator at %#x: it is a %s", o.Address, o.Map.Kind)
	}
	var continuation, position Value
	err := h.fields(o, "JSGeneratorObject", map[string]*Value{
		"function": &g.Function, "context": &g.Context, "receiver": &g.Receiver,
		"continuation": &continuation, "input_or_debug_pos": &position,
	})
	if err != nil {
		return g, err
	}
	n, ok := continuation.Smi()
	if !ok {
		return g, fmt.Errorf("read generator at %#x: it continues at %#x", o.Address, uint64(continuation))
	}
	if o.Map.Kind == "JSAsyncFunctionObject" {
		if g.Promise, err = h.FieldOf(o, "JSAsyncFunctionObject", "promise"); err != nil {
			return g, err
		}
	}
	switch n {
	case generatorRunning:
		g.State = Running
	case generatorClosed:
		g.State = Closed
	default:
		if at, ok := position.Smi(); ok {
			g.Offset, err = h.bytecodeOffset(g.Function, at)
		}
	}
	return g, err
}

// bytecodeOffset returns the script position of the bytecode at byte offset at of
// a function's BytecodeArray; -1 if V8 has none.
func (h *Heap) bytecodeOffset(function Value, at int) (int, error) {
	fn, err := h.Object(function)
	if err != nil {
		return -1, err
	}
	shared, err := h.sharedOf(fn)
	if err != nil {
		return -1, err
	}
	array, ok, err := h.bytecodes(shared)
	if err != nil || !ok {
		return -1, err
	}
	first, ok := h.Offset("BytecodeArray", "data")
	if !ok {
		return -1, nil
	}
	return h.positionOf(array, at-(first-heapTag))
}

// maxIndirect bounds the objects between a function and its bytecodes.
const maxIndirect = 4

// bytecodes returns the BytecodeArray of a SharedFunctionInfo, if it has one.
func (h *Heap) bytecodes(shared Object) (array Object, ok bool, err error) {
	data, err := h.Field(shared, int(h.layout.SharedData))
	if err != nil {
		return Object{}, false, err
	}
	return h.bytecodesBehind(data)
}

// bytecodesBehind returns the BytecodeArray that data is or leads to, if any.
func (h *Heap) bytecodesBehind(data Value) (array Object, ok bool, err error) {
	for range maxIndirect {
		if err != nil || !data.IsObject() {
			return Object{}, false, err
		}
		o, objectErr := h.Object(data)
		if objectErr != nil {
			return Object{}, false, objectErr
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
				return Object{}, false, nil
			}
			data, err = h.Field(o, at)
		default:
			return Object{}, false, nil
		}
	}
	return Object{}, false, nil
}

// positionOf returns the script position of the bytecode at an offset; -1 if V8
// keeps none.
func (h *Heap) positionOf(array Object, offset int) (int, error) {
	v, err := h.FieldOf(array, "BytecodeArray", "source_position_table")
	if err != nil || !v.IsObject() {
		return -1, err
	}
	table, err := h.Object(v)
	if err != nil || !strings.HasSuffix(table.Map.Kind, "ByteArray") {
		return -1, err
	}
	n, err := h.SmiField(table, arrayLength)
	if err != nil {
		return -1, err
	}
	if n < 0 || n > maxTable {
		return -1, fmt.Errorf("read source positions at %#x: %d bytes", table.Address, n)
	}
	b, err := h.Bytes(table.Address+arrayFirst, uint64(n), maxTable)
	if err != nil {
		return -1, fmt.Errorf("read source positions at %#x: %w", table.Address, err)
	}
	p, ok, err := positionAt(b, offset, h.release.Code.UnsignedSteps)
	if err != nil || !ok {
		return -1, err
	}
	return p.offset(), nil
}
