package code

import (
	"errors"
	"fmt"

	"ustack/symbolize/v8"
)

// maxRegisters bounds the registers of a function; V8's bytecodes can address more.
const maxRegisters = 1 << 16

// Registers returns how many registers frames of a function have that run its bytecodes.
func Registers(h *v8.Heap, shared v8.Object) (int, error) {
	array, ok, err := bytecodes(h, shared)
	if err != nil {
		return 0, err
	}
	if !ok {
		return 0, errors.New("read registers: the function has no bytecodes")
	}
	size, err := h.Uint32(array, h.Binary().Release.Sizes.BytecodeArrayTagged)
	if err != nil {
		return 0, err
	}
	if size%wordSize != 0 || size > maxRegisters*wordSize {
		return 0, fmt.Errorf("read registers: a frame of %d bytes", size)
	}
	return int(size / wordSize), nil
}

// Parameters returns how many parameters a function declares, without its rest parameter.
func Parameters(h *v8.Heap, shared v8.Object) (int, error) {
	at, ok := h.Offset("SharedFunctionInfo", "internal_formal_parameter_count")
	if !ok {
		return 0, errors.New("read parameters: where V8 keeps their number is not known")
	}
	w, err := h.Uint32(shared, at)
	if err != nil {
		return 0, err
	}
	count := int(w & 0xffff)
	if h.Binary().Release.Frames.CountsReceiver {
		count--
	}
	return count, nil
}

// Register returns a register of the unoptimized function whose frame is at fp.
func Register(h *v8.Heap, fp uint64, number int) (v8.Value, error) {
	first := h.Binary().Release.Frames.Registers
	if first == 0 || number < 0 || number >= maxRegisters {
		return 0, errors.New("read register: where V8 keeps it is not known")
	}
	w, err := h.Word(fp + uint64(int64(first)) - uint64(number)*wordSize)
	return v8.Value(w), err
}

// Argument returns the argument that was passed for a parameter to the function whose
// frame is at fp; V8 passes undefined for those that are missing.
func Argument(h *v8.Heap, fp uint64, index int) (v8.Value, error) {
	w, err := h.Word(fp + slotReceiver + uint64(index+1)*wordSize)
	return v8.Value(w), err
}

// Saved is what a suspended generator has saved.
type Saved struct {
	Parameters []v8.Value
	Registers  []v8.Value // nil if some may be of an earlier suspension
}

// SavedBy returns the parameters and the registers that a suspended generator has saved.
// Optimized code saves only the registers that are needed later and leaves old values in the
// others; so there are no registers if the function may have been optimized, for which it
// needs a FeedbackVector (V8 9.4 to 14.6).
func SavedBy(h *v8.Heap, generator v8.Object) (Saved, error) {
	v, err := h.FieldOf(generator, "JSGeneratorObject", "parameters_and_registers")
	if err != nil {
		return Saved{}, err
	}
	words, err := h.FixedArray(v, 2*maxRegisters)
	if err != nil {
		return Saved{}, err
	}
	function, err := h.FieldOf(generator, "JSGeneratorObject", "function")
	if err != nil {
		return Saved{}, err
	}
	fn, err := h.Object(function)
	if err != nil {
		return Saved{}, err
	}
	shared, err := h.SharedOf(fn)
	if err != nil {
		return Saved{}, err
	}
	count, err := Parameters(h, shared)
	if err != nil {
		return Saved{}, err
	}
	if count < 0 || count > len(words) {
		return Saved{}, fmt.Errorf("read generator: %d parameters in %d words", count, len(words))
	}
	saved := Saved{Parameters: words[:count]}
	if neverOptimized(h, fn) {
		saved.Registers = words[count:]
	}
	return saved, nil
}

// neverOptimized reports whether a function has never had what V8 needs to optimize it.
func neverOptimized(h *v8.Heap, function v8.Object) bool {
	v, err := h.FieldOf(function, "JSFunction", "raw_feedback_cell")
	if err != nil {
		return false
	}
	cell, err := h.Object(v)
	if err != nil || cell.Map.Kind != "FeedbackCell" {
		return false
	}
	if v, err = h.FieldOf(cell, "FeedbackCell", "value"); err != nil {
		return false
	}
	o, err := h.Object(v)
	return err == nil && (o.Map.Kind == "ClosureFeedbackCellArray" || h.Oddball(v) == "undefined")
}

// WrappedParameters returns the parameters of the function that V8 has made of a script's
// whole text.
func WrappedParameters(h *v8.Heap, f v8.Function) ([]string, error) {
	for _, field := range evalFields {
		v, err := h.FieldOf(v8.Object{Address: v8.Value(f.Script).Address()}, "Script", field)
		if err != nil {
			continue
		}
		words, err := h.FixedArray(v, maxArguments)
		if err != nil {
			return nil, err
		}
		names := make([]string, len(words))
		for i, w := range words {
			if names[i], err = h.Name(w); err != nil {
				return nil, err
			}
			if names[i] == "" {
				return nil, fmt.Errorf("read parameters: %#x is the name of none", uint64(w))
			}
		}
		return names, nil
	}
	return nil, errors.New("read parameters: where V8 keeps them is not known")
}
