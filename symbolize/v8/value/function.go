package value

import (
	"fmt"
	"strings"

	"ustack/symbolize/v8"
)

// ObjectOf reads v and checks that it is one of the kinds.
func ObjectOf(h *v8.Heap, v v8.Value, kinds ...string) (v8.Object, error) {
	o, err := h.Object(v)
	if err != nil {
		return o, err
	}
	for _, kind := range kinds {
		if o.Map.Kind == kind || kind == "JSFunction" && h.IsFunction(o) || kind == "Context" && strings.HasSuffix(o.Map.Kind, "Context") {
			return o, nil
		}
	}
	return o, fmt.Errorf("it is a %s, no %s", o.Map.KindName(), strings.Join(kinds, " or "))
}

// FunctionOf reads a JSFunction, the target of a JSBoundFunction, or a SharedFunctionInfo.
func FunctionOf(h *v8.Heap, v v8.Value) (v8.Function, error) {
	o, err := ObjectOf(h, Unbound(h, v), "JSFunction", "SharedFunctionInfo")
	if err != nil {
		return v8.Function{}, err
	}
	if h.IsFunction(o) {
		return h.Function(o)
	}
	return h.Shared(o)
}

// maxBinds bounds how many times a function is bound.
const maxBinds = 16

// Unbound returns the function that v finally calls, if v was made by bind(); otherwise v
// itself.
func Unbound(h *v8.Heap, v v8.Value) v8.Value {
	for range maxBinds {
		o, err := h.Object(v)
		if err != nil {
			return v
		}
		b, err := h.Bound(o)
		if err != nil {
			return v
		}
		v = b.Target
	}
	return v
}
