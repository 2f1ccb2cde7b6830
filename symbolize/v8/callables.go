package v8

import (
	"cmp"
	"fmt"
	"strings"
)

// maxBound bounds the arguments bound to a function.
const maxBound = 1 << 16

// A Proxy is the content of a JSProxy. Both fields are null once it was revoked.
type Proxy struct {
	Target, Handler Value
	Revoked         bool
}

// Proxy reads a JSProxy.
func (h *Heap) Proxy(o Object) (Proxy, error) {
	if o.Map.Kind != "JSProxy" {
		return Proxy{}, fmt.Errorf("read proxy at %#x: it is a %s", o.Address, o.Map.Kind)
	}
	var p Proxy
	err := h.Fields(o, "JSProxy", map[string]*Value{"target": &p.Target, "handler": &p.Handler})
	p.Revoked = err == nil && h.Oddball(p.Handler) == "null"
	return p, err
}

// A Bound is a function made by bind: it calls Target with This and Args first.
type Bound struct {
	Target, This Value
	Args         []Value
}

// Bound reads a JSBoundFunction.
func (h *Heap) Bound(o Object) (Bound, error) {
	if o.Map.Kind != "JSBoundFunction" {
		return Bound{}, fmt.Errorf("read bound function at %#x: it is a %s", o.Address, o.Map.Kind)
	}
	var b Bound
	var args Value
	err := h.Fields(o, "JSBoundFunction", map[string]*Value{
		"bound_target_function": &b.Target, "bound_this": &b.This, "bound_arguments": &args,
	})
	if err != nil {
		return b, err
	}
	b.Args, err = h.FixedArray(args, maxBound)
	return b, err
}

// FixedArray reads a FixedArray of at most limit elements.
func (h *Heap) FixedArray(v Value, limit int) ([]Value, error) {
	o, err := h.Object(v)
	if err != nil {
		return nil, err
	}
	n, err := h.SmiField(o, arrayLength)
	if err != nil {
		return nil, err
	}
	if o.Map.Kind != "FixedArray" || n < 0 || n > limit {
		return nil, fmt.Errorf("read array at %#x: a %s of %d", o.Address, o.Map.Kind, n)
	}
	return h.words(o.Address+arrayFirst, n)
}

// A Callable describes a function beyond its name and position.
type Callable struct {
	Function
	Kind    string // "function", "class", "async arrow", "generator method" …
	Static  bool   // a static method or accessor
	Builtin bool   // V8 implements it
	API     bool   // implemented in C++ by an embedder or a native add-on
}

// functionKinds has the kinds of functions by V8's numbers, the same in V8 9.4 to
// 14.6.
var functionKinds = [...]string{
	"function", "module", "async module",
	"class", "class", "class", "class",
	"getter", "static getter", "setter", "static setter",
	"arrow", "async arrow", "async function", "async method", "static async method",
	"async generator method", "static async generator method",
	"async generator", "generator", "generator method", "static generator method",
	"method", "static method",
}

// functionKindMask covers a function's kind in the flags of its SharedFunctionInfo.
const functionKindMask = 1<<5 - 1

// Callable reads a JSFunction and describes it.
func (h *Heap) Callable(o Object) (Callable, error) {
	f, err := h.Function(o)
	c := Callable{Function: f, Kind: "function"}
	if err != nil {
		return c, err
	}
	shared, err := h.SharedOf(o)
	if err != nil {
		return c, err
	}
	_, kind, err := h.KindOf(shared)
	if err != nil {
		return c, err
	}
	c.Kind, c.Static = strings.CutPrefix(cmp.Or(kind, "class fields"), "static ")
	if c.Script != 0 {
		return c, nil
	}
	c.Kind = "function"
	data, err := h.Field(shared, int(h.layout.SharedID))
	if err != nil {
		return c, err
	}
	if _, builtin := data.Smi(); builtin {
		c.Builtin = true
		return c, nil
	}
	d, err := h.Object(data)
	c.API = err == nil && d.Map.Kind == "FunctionTemplateInfo"
	return c, nil
}

// KindOf returns the kind of a SharedFunctionInfo's function: V8's number, and a name such
// as "async arrow" or "static getter"; "" if it initializes fields of a class.
func (h *Heap) KindOf(shared Object) (number uint8, name string, err error) {
	flags, err := h.Uint32(shared, int(h.layout.SharedFlags))
	if number = uint8(flags & functionKindMask); int(number) < len(functionKinds) {
		name = functionKinds[number]
	}
	return number, name, err
}

// SharedOf returns a JSFunction's SharedFunctionInfo.
func (h *Heap) SharedOf(fn Object) (Object, error) {
	if !h.IsFunction(fn) {
		return Object{}, fmt.Errorf("read function at %#x: it is a %s", fn.Address, fn.Map.Kind)
	}
	v, err := h.Field(fn, int(h.layout.FunctionShared))
	if err != nil {
		return Object{}, err
	}
	o, err := h.Object(v)
	if err == nil && o.Map.Type != h.layout.SharedFunctionInfo {
		err = fmt.Errorf("read shared function at %#x: it is a %s", o.Address, o.Map.Kind)
	}
	return o, err
}

// tokenUnknown means that the distance from the start of a function's text to its
// Function.Start is not known.
const tokenUnknown = 1<<16 - 1

// SourceText returns at most limit characters of a function's text, as its
// toString would, and the text's full length in UTF-16 code units. For a function
// without a script it returns nothing.
func (h *Heap) SourceText(fn Object, limit int) (text string, length int, err error) {
	f, err := h.Function(fn)
	if err != nil || f.Script == 0 || f.Start < 0 || f.End < f.Start {
		return "", 0, err
	}
	from, to, err := h.extent(fn, f)
	if err != nil {
		return "", 0, err
	}
	script, err := h.Object(Ref(f.Script))
	if err != nil {
		return "", 0, err
	}
	source, err := h.Field(script, int(h.layout.ScriptSource))
	if err != nil || !source.IsObject() {
		return "", 0, err
	}
	text, err = h.TextBetween(source, from, min(to, from+max(limit, 0)))
	return text, to - from, err
}

// extent returns where a function's text begins and ends. For a class constructor
// it is the text of the class.
func (h *Heap) extent(fn Object, f Function) (from, to int, err error) {
	properties, _ := h.Properties(fn) // without readable positions it is treated as no class
	for _, p := range properties {
		if !p.Symbol || p.Accessor {
			continue
		}
		o, err := h.Object(p.Value)
		if err != nil || o.Map.Kind != "ClassPositions" {
			continue
		}
		return h.smiPair(o, "ClassPositions", "start", "end")
	}
	shared, err := h.SharedOf(fn)
	if err != nil {
		return 0, 0, err
	}
	at, ok := h.Offset("SharedFunctionInfo", "raw_function_token_offset")
	if !ok {
		return f.Start, f.End, nil
	}
	token, err := h.uint16(shared.Address + uint64(at))
	if err != nil {
		return 0, 0, err
	}
	if token == tokenUnknown || int(token) > f.Start {
		token = 0
	}
	return f.Start - int(token), f.End, nil
}

// smiPair reads two small integers of o.
func (h *Heap) smiPair(o Object, class, first, second string) (a, b int, err error) {
	var v, w Value
	if err := h.Fields(o, class, map[string]*Value{first: &v, second: &w}); err != nil {
		return 0, 0, err
	}
	a, ok1 := v.Smi()
	b, ok2 := w.Smi()
	if !ok1 || !ok2 || a < 0 || b < a {
		return 0, 0, fmt.Errorf("read %s at %#x: %#x to %#x", class, o.Address, uint64(v), uint64(w))
	}
	return a, b, nil
}
