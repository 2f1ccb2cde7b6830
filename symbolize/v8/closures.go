package v8

import "fmt"

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
	err = h.Contexts(context, func(_ Object, c Context) bool {
		scopes = append(scopes, c)
		return true
	})
	return scopes, err
}
