package v8

import "fmt"

// An Export is a name that a module exports.
type Export struct {
	Name  string
	Value Value // a hole: the module has not initialized it yet
}

// exportEntry is the number of words in an entry of a module's table of exports.
const exportEntry = 2

// Exports reads a JSModuleNamespace: the exports of its module, in no particular
// order.
func (h *Heap) Exports(o Object) ([]Export, error) {
	if o.Map.Kind != "JSModuleNamespace" && o.Map.Kind != "JSDeferredModuleNamespace" {
		return nil, fmt.Errorf("read exports at %#x: it is a %s", o.Address, o.Map.Kind)
	}
	v, err := h.FieldOf(o, "JSModuleNamespace", "module")
	if err != nil {
		return nil, err
	}
	module, err := h.Object(v)
	if err != nil {
		return nil, fmt.Errorf("read exports at %#x: %w", o.Address, err)
	}
	if v, err = h.FieldOf(module, "Module", "exports"); err != nil {
		return nil, err
	}
	table, err := h.Object(v)
	if err != nil {
		return nil, fmt.Errorf("read exports at %#x: %w", o.Address, err)
	}
	var exports []Export
	err = h.tableEntries(table, exportEntry, func(entry []Value) bool {
		cell, err := h.Object(entry[1])
		if err != nil || cell.Map.Kind != "Cell" {
			return true
		}
		name, _ := h.keyName(entry[0])
		value, err := h.FieldOf(cell, "Cell", "value")
		if err == nil {
			exports = append(exports, Export{name, value})
		}
		return len(exports) < maxProperties
	})
	return exports, err
}
