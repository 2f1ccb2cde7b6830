package v8

import (
	"fmt"
	"math"
	"slices"
)

// An Element is a property of an object with an integer index.
type Element struct {
	Index    int
	Value    Value   // unset if the element is a number that V8 keeps unboxed
	Number   float64 // the unboxed number
	IsNumber bool
}

// holeNaN is the value by which V8 marks a missing element in an array of
// doubles.
const holeNaN = 0xfff7fffffff7ffff

// Length returns the length of a JSArray; ok is false for other objects.
func (h *Heap) Length(o Object) (length int, ok bool) {
	if o.Map.Kind != "JSArray" {
		return 0, false
	}
	v, err := h.FieldOf(o, "JSArray", "length")
	if err != nil {
		return 0, false
	}
	n, ok := h.Number(v)
	if !ok || n < 0 || n > math.MaxUint32 {
		return 0, false
	}
	return int(n), true
}

// Elements visits o's own properties with an integer index, in order, until visit
// returns false. The elements of typed arrays and of string wrappers are
// elsewhere.
func (h *Heap) Elements(o Object, visit func(Element) bool) error {
	raw, err := h.Field(o, h.at.elements)
	if err != nil {
		return err
	}
	array, err := h.Object(raw)
	if err != nil {
		return fmt.Errorf("read elements at %#x: %w", o.Address, err)
	}
	limit := maxElements
	if length, ok := h.Length(o); ok {
		limit = min(limit, length)
	}
	switch {
	case array.Map.Kind == "NumberDictionary" || o.Map.ElementsKind == h.at.dictionaryElements:
		return h.sparseElements(array, visit)
	case array.Map.Kind == "SloppyArgumentsElements":
		return h.mappedArguments(array, visit)
	case array.Map.Kind == "FixedArray", array.Map.Kind == "FixedDoubleArray":
		return h.denseElements(array, limit, visit)
	}
	return nil
}

func (h *Heap) denseElements(array Object, limit int, visit func(Element) bool) error {
	length, err := h.SmiField(array, arrayLength)
	if err != nil {
		return err
	}
	doubles := array.Map.Kind == "FixedDoubleArray"
	limit = min(limit, length)
	for at := 0; at < limit; {
		words, err := h.words(array.Address+arrayFirst+uint64(at)*wordSize, min(maxBlock, limit-at))
		for i, w := range words {
			e := Element{Index: at + i, Value: w}
			if doubles {
				e = Element{Index: at + i, Number: math.Float64frombits(uint64(w)), IsNumber: true}
			}
			if doubles && w == holeNaN || !doubles && h.isHole(w) {
				continue
			}
			if !visit(e) {
				return nil
			}
		}
		if err != nil {
			return fmt.Errorf("read elements at %#x: %w", array.Address, err)
		}
		at += len(words)
	}
	return nil
}

func (h *Heap) isHole(v Value) bool {
	_, smi := v.Smi()
	return !smi && h.Oddball(v) == "hole"
}

// sparseElements visits a NumberDictionary.
func (h *Heap) sparseElements(table Object, visit func(Element) bool) error {
	var found []Element
	err := h.tableEntries(table, dictionaryEntry, func(entry []Value) bool {
		index, ok := h.Number(entry[0])
		if ok && index >= 0 && index <= math.MaxUint32 {
			found = append(found, Element{Index: int(index), Value: entry[1]})
		}
		return len(found) < maxProperties
	})
	slices.SortFunc(found, func(a, b Element) int { return a.Index - b.Index })
	for _, e := range found {
		if !visit(e) {
			return nil
		}
	}
	return err
}

// mappedArguments visits the arguments of a function in sloppy mode: named ones
// are in its context, the rest in an array.
func (h *Heap) mappedArguments(mapped Object, visit func(Element) bool) error {
	const (
		contextAt, argumentsAt = 16, 24
		entries                = 32
	)
	length, err := h.SmiField(mapped, arrayLength)
	if err != nil {
		return err
	}
	context, err := h.Field(mapped, contextAt)
	if err != nil {
		return err
	}
	rest, err := h.Field(mapped, argumentsAt)
	if err != nil {
		return err
	}
	aliased, err := h.words(mapped.Address+entries, max(0, min(length, maxBlock)))
	goesOn := true
	for i, slot := range aliased {
		n, ok := slot.Smi()
		if !ok {
			continue
		}
		value, err := h.Word(context.Address() + arrayFirst + uint64(n)*wordSize)
		if err != nil {
			return err
		}
		if goesOn = visit(Element{Index: i, Value: Value(value)}); !goesOn {
			return nil
		}
	}
	if err != nil {
		return err
	}
	array, err := h.Object(rest)
	if err != nil {
		return err
	}
	return h.denseElements(array, maxElements, visit)
}
