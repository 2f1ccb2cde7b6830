package value

import (
	"fmt"
	"regexp"
	"strings"

	"ustack/symbolize/v8"
	"ustack/symbolize/v8/code"
)

// call returns the line for a call, without "at", as V8 writes it.
func (r *errorReader) call(s code.CallSite) string {
	fn, err := r.heap.Object(s.Function)
	if err != nil {
		return fmt.Sprintf("<bad function %#x>", uint64(s.Function))
	}
	f, err := r.heap.Function(fn)
	if err != nil {
		return fmt.Sprintf("<bad function %#x>", uint64(s.Function))
	}
	where := r.location(f, s.Offset)
	name := f.String()
	if name == v8.Anonymous {
		name = ""
	}
	if initializes := initializer(r.heap, fn); initializes != "" {
		name = initializes
	}
	if _, evaluated := code.EvalCaller(r.heap, f); evaluated && name == "" {
		name = "eval"
	}
	receiver := r.typeName(s.Receiver)
	switch {
	case s.Async && f.Script == 0 && strings.HasPrefix(name, "a"): // all, allSettled, any
		return fmt.Sprintf("async Promise.%s (index %d)", name, s.Index)
	case s.Construct && name == "":
		name = "new <anonymous>"
	case s.Construct:
		name = "new " + name
	case receiver != "":
		name = r.methodCall(s.Receiver, fn, name, receiver)
	}
	text := where
	if name != "" {
		text = name + " (" + where + ")"
	}
	if s.Async {
		return "async " + text
	}
	return text
}

// initializer returns the name that V8 12 and later write for a function that
// initializes fields of a class, and "" for others.
func initializer(h *v8.Heap, fn v8.Object) string {
	l := &h.Binary().Layout
	shared, err := h.SharedOf(fn)
	if err != nil || l.KindMembers == 0 {
		return ""
	}
	switch kind, _, err := h.KindOf(shared); {
	case err != nil:
	case kind == l.KindMembers:
		return "<instance_members_initializer>"
	case kind == l.KindStatic:
		return "<static_initializer>"
	}
	return ""
}

// location returns the file, line and column of a position in a function's script.
func (r *errorReader) location(f v8.Function, offset int) string {
	text := "<anonymous>"
	name := r.scriptName(f)
	if _, evaluated := code.EvalCaller(r.heap, f); evaluated && name == "" {
		text = r.evalOrigin(f, 0) + ", " + text
	} else if name != "" {
		text = name
	}
	if line, column := r.position(f, offset); line > 0 {
		text += fmt.Sprintf(":%d:%d", line, column)
	}
	return text
}

// position returns the line and column of an offset in f's script, 0 if not
// known.
func (r *errorReader) position(f v8.Function, offset int) (line, column int) {
	if f.Script == 0 || offset < 0 {
		return 0, 0
	}
	source, ok := r.sources[f.Script]
	if !ok && len(r.sources) < maxScripts {
		if s, err := code.ReadScript(r.heap, f.Script, f.ScriptID); err == nil {
			source = &s
		}
		r.sources[f.Script] = source
	}
	if source == nil {
		return 0, 0
	}
	return source.Position(offset)
}

// scriptName returns the URL that a script's source declares, or else the name
// that it was loaded by; empty if it has neither.
func (r *errorReader) scriptName(f v8.Function) string {
	if f.Script == 0 {
		return ""
	}
	l := &r.heap.Binary().Layout
	for _, offset := range []uint16{l.ScriptSourceURL, l.ScriptName} {
		v, err := r.heap.Field(v8.Object{Address: v8.Value(f.Script).Address()}, int(offset))
		if err != nil {
			continue
		}
		if text, err := r.heap.Name(v); err == nil && text != "" {
			return text
		}
	}
	return ""
}

// evalOrigin says where eval was called with f's script.
func (r *errorReader) evalOrigin(f v8.Function, depth int) string {
	shared, ok := code.EvalCaller(r.heap, f)
	if !ok || depth > maxEvals {
		return "eval"
	}
	caller, err := r.heap.Shared(shared)
	if err != nil {
		return "eval"
	}
	name := caller.String()
	if name == v8.Anonymous {
		name = "<anonymous>"
	}
	where := "unknown source"
	if _, evaluated := code.EvalCaller(r.heap, caller); evaluated {
		where = r.evalOrigin(caller, depth+1)
	} else if file := r.scriptName(caller); file != "" {
		where = file
		if line, column := r.position(caller, code.EvalOffset(r.heap, f, shared)); line > 0 {
			where += fmt.Sprintf(":%d:%d", line, column)
		}
	}
	return "eval at " + name + " (" + where + ")"
}

// typeName returns the class that V8 shows before a method's name: "" if the
// receiver is undefined, null or the global object.
func (r *errorReader) typeName(receiver v8.Value) string {
	h := r.heap
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
	if tag := r.tag(o); name == "Object" && tag != "" {
		return tag
	}
	return name
}

// tag returns the string that o or its prototypes have under Symbol.toStringTag, as
// JSON has; "" if they have none.
func (r *errorReader) tag(o v8.Object) string {
	for _, properties := range r.chain(o) {
		for _, p := range properties {
			if p.Symbol && p.Name == "Symbol.toStringTag" && !p.Accessor {
				return BriefText(r.heap, p.Value)
			}
		}
	}
	return ""
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
