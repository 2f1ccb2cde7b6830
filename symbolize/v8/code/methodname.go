package code

import (
	"regexp"
	"strings"

	"ustack/symbolize/v8"
)

// typeName returns the class that V8 shows before a method's name: "" if the
// receiver is undefined, null or the global object.
func typeName(h *v8.Heap, receiver v8.Value) string {
	if _, ok := h.Number(receiver); ok {
		return "Number"
	}
	switch h.Oddball(receiver) {
	case "true", "false":
		return "Boolean"
	case "":
	default:
		return ""
	}
	o, err := h.Object(receiver)
	if err != nil {
		return ""
	}
	switch {
	case o.Map.Kind == "JSGlobalProxy":
		return ""
	case o.Map.Kind == "JSProxy":
		return "Proxy"
	case h.IsString(o):
		return "String"
	case o.Map.Kind == "Symbol", o.Map.Kind == "BigInt":
		return o.Map.Kind
	}
	if name := functionType(h, o); name != "" {
		return name
	}
	name, err := h.Class(o)
	if err != nil {
		return ""
	}
	return name
}

// functionType returns the name that V8 writes for a receiver that is itself a
// function: that of a class, or of any function.
func functionType(h *v8.Heap, o v8.Object) string {
	if !h.Binary().Release.Traces.ClassReceivers || !h.IsFunction(o) {
		return ""
	}
	c, err := h.Callable(o)
	if err != nil || c.Kind != "class" && !h.Binary().Release.Traces.FunctionReceivers {
		return ""
	}
	return c.Name
}

// methodCall formats the call of a function as a method as V8 does: its class,
// its name, and the property that holds it if named differently.
func (r *errorReader) methodCall(receiver v8.Value, fn v8.Object, function, class string) string {
	method := r.methodName(receiver, fn, function)
	if function == "" {
		if method == "" {
			method = "<anonymous>"
		}
		return class + "." + method
	}
	text := function
	if showsClass(r.heap, function, class) {
		text = class + "." + function
	}
	accessor := r.heap.Binary().Release.Traces.AccessorsPlain && strings.HasSuffix(function, " "+method)
	if method == "" || function == method || strings.HasSuffix(function, "."+method) || accessor {
		return text
	}
	return text + " [as " + method + "]"
}

// identifier matches a name without a dot or a space in it.
var identifier = regexp.MustCompile(`^[\pL\pN_$]+$`)

// showsClass reports whether V8 writes a method's class before a function's name.
func showsClass(h *v8.Heap, function, class string) bool {
	if h.Binary().Release.Traces.ClassByPrefix {
		return !strings.HasPrefix(function, class)
	}
	return identifier.MatchString(function)
}

// methodName returns the name of the property, on the receiver or its prototypes,
// that holds a function; "" if several do.
func (r *errorReader) methodName(receiver v8.Value, fn v8.Object, name string) string {
	o, err := r.heap.Object(receiver)
	if err != nil {
		return ""
	}
	for _, accessor := range []string{"get ", "set "} {
		name = strings.TrimPrefix(name, accessor)
	}
	if name != "" {
		if p, ok := r.lookup(o, name); ok && holds(p, fn) {
			return name
		}
	}
	for _, properties := range r.chain(o) {
		found := ""
		for _, p := range properties {
			if p.Symbol || p.Hidden || !holds(p, fn) {
				continue
			}
			if found != "" {
				return ""
			}
			found = p.Name
		}
		if found != "" {
			return found
		}
	}
	return ""
}

// holds reports whether the property is fn, or has fn as its getter or setter.
func holds(p v8.Property, fn v8.Object) bool {
	ref := fn.Ref()
	return p.Value == ref || p.Getter == ref || p.Setter == ref
}
