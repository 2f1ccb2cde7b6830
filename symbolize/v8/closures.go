package v8

import (
	"errors"
	"fmt"
)

// Closure returns the scopes that a function sees, from the innermost outward,
// without the native context, which every function sees.
func (h *Heap) Closure(fn Object) ([]Context, error) {
	if !h.IsFunction(fn) {
		return nil, fmt.Errorf("read closure of object at %#x: it is a %s", fn.Address, fn.Map.Kind)
	}
	context, err := h.FieldOf(fn, "JSFunction", "context")
	if err != nil {
		return nil, err
	}
	var scopes []Context
	var moreErr error
	err = h.Contexts(context, func(o Object, c *Context) bool {
		more, err := h.unlisted(o)
		c.Variables = append(c.Variables, more...)
		moreErr = errors.Join(moreErr, err)
		scopes = append(scopes, *c)
		return true
	})
	return scopes, errors.Join(err, moreErr)
}

// unlisted returns the variables of a context that are not among its scope's
// locals: those that eval declared, and a function expression's own name.
func (h *Heap) unlisted(context Object) ([]Variable, error) {
	info, err := h.Field(context, arrayFirst)
	if err != nil {
		return nil, err
	}
	scope, err := h.Object(info)
	if err != nil {
		return nil, err
	}
	s := &scopeReader{Heap: h, scope: scope}
	flags, err := s.flags()
	if err != nil {
		return nil, err
	}
	var variables []Variable
	if flags&contextExtended != 0 {
		if variables, err = h.declared(context); err != nil {
			return nil, err
		}
	}
	if flags&scopeFunctionName != functionInContext {
		return variables, nil
	}
	own, err := h.ownVariable(context, s, flags)
	return append(variables, own), err
}

// declared returns the variables that eval declared in a context: properties of
// an object in the slot after the fixed ones.
func (h *Heap) declared(context Object) ([]Variable, error) {
	extension, err := h.Field(context, arrayFirst+contextSlots*wordSize)
	if err != nil {
		return nil, err
	}
	o, err := h.Object(extension)
	if err != nil || o.Map.Kind != "JSContextExtensionObject" {
		return nil, nil
	}
	properties, err := h.Properties(o)
	var variables []Variable
	for _, p := range properties {
		variables = append(variables, Variable{Name: p.Name, Slot: contextSlots, Value: p.Value})
	}
	return variables, err
}

// Values of the flag scopeFunctionName if a function expression's own name is a variable:
// in a register of each frame, or one that closures share.
const (
	functionInRegister = 1 << 12
	functionInContext  = 2 << 12
)

// ownVariable returns the variable that holds a function expression itself, as in
// function again() { return () => again }.
func (h *Heap) ownVariable(context Object, s *scopeReader, flags uint32) (Variable, error) {
	if err := s.skipLocals(flags); err != nil {
		return Variable{}, err
	}
	name, err := s.take()
	if err != nil {
		return Variable{}, err
	}
	slot, err := s.take()
	if err != nil {
		return Variable{}, err
	}
	n, ok := slot.Smi()
	if !ok || n < contextSlots || n > maxContextSlots {
		return Variable{}, fmt.Errorf("read scope at %#x: the function is in slot %#x", s.scope.Address, uint64(slot))
	}
	v := Variable{Slot: n}
	if v.Name, err = h.Name(name); err != nil {
		return v, err
	}
	v.Value, err = h.Field(context, arrayFirst+n*wordSize)
	return v, err
}
