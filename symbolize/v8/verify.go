package v8

import (
	"fmt"
	"strings"
)

// nodeScripts starts the names of the scripts that are part of Node.js.
const nodeScripts = "node:"

// maxDeclaration bounds the text before a function's parameters in which its name is
// searched, in UTF-16 code units: "static async *name" or "name = function".
const maxDeclaration = 1 << 8

// scriptTypes is the number of types of scripts.
const scriptTypes = 8

// A NodeFunction is a JSFunction that a script of Node.js defines.
type NodeFunction struct {
	Name     string // "" for arrow functions, classes and functions without a name
	Script   Value
	ScriptID int
}

// CheckFunction checks what is read of a JSFunction against the text of its script: its
// parameters and its body in braces, and before them its name. Arrow functions, classes
// and functions without a name have other forms of text. ok is false for a function that
// no script of Node.js defines.
func (h *Heap) CheckFunction(fn Object) (_ NodeFunction, ok bool, err error) {
	shared, script, ok := h.nodeScript(fn)
	if !ok {
		return NodeFunction{}, false, nil
	}
	n := NodeFunction{Script: script.Ref()}
	f, err := h.Shared(shared)
	if err == nil && f.Script != uint64(n.Script) {
		err = fmt.Errorf("the script at %#x is not found", script.Address)
	}
	if err != nil {
		return n, true, err
	}
	n.ScriptID = f.ScriptID
	form, err := h.FormOf(fn)
	if err != nil || form != Bodied || f.Name == "" && f.Start == 0 { // or it is a whole script
		return n, true, err
	}
	if err := h.checkText(script, f); err != nil {
		return n, true, err
	}
	n.Name = f.Name
	return n, true, h.checkData(shared)
}

// nodeScript returns the SharedFunctionInfo and the script of a function that a script of
// Node.js defines, by metadata alone; ok is false for others, and for what a collector
// has left of a function.
func (h *Heap) nodeScript(fn Object) (shared, script Object, ok bool) {
	shared, err := h.SharedOf(fn)
	if err != nil {
		return shared, script, false
	}
	v, err := h.Field(shared, int(h.layout.SharedScript))
	if err != nil {
		return shared, script, false
	}
	if script, err = h.Object(v); err != nil || script.Map.Type != h.layout.Script {
		return shared, script, false
	}
	name, err := h.Field(script, int(h.layout.ScriptName))
	if err != nil {
		return shared, script, false
	}
	file, err := h.Name(name)
	return shared, script, err == nil && strings.HasPrefix(file, nodeScripts)
}

// A FunctionForm is what a function's kind says about its text.
type FunctionForm int

// The forms of functions.
const (
	Bodied      FunctionForm = iota // parameters and a body in braces
	OtherForm                       // an arrow function, a class or a module
	Initializer                     // initializes fields of a class
	UnknownForm
)

// FormOf returns the form of a JSFunction's text.
func (h *Heap) FormOf(fn Object) (FunctionForm, error) {
	shared, err := h.SharedOf(fn)
	if err != nil {
		return UnknownForm, err
	}
	flags, err := h.Uint32(shared, int(h.layout.SharedFlags))
	kind := flags & functionKindMask
	if kind < uint32(len(functionKinds)) {
		name := functionKinds[kind]
		if strings.Contains(name, "class") || strings.Contains(name, "arrow") || strings.Contains(name, "module") {
			return OtherForm, err
		}
		return Bodied, err
	}
	const preceding = 1 // the same kind where a member precedes it
	for _, initializer := range []uint8{h.layout.KindMembers, h.layout.KindStatic} {
		if kind == uint32(initializer) || kind == uint32(initializer)+preceding {
			return Initializer, err
		}
	}
	return UnknownForm, err
}

// checkText checks that a function's text has its name, parameters and body.
func (h *Heap) checkText(script Object, f Function) error {
	if f.Start < 0 || f.End <= f.Start {
		return fmt.Errorf("%s is at %d to %d", f.Name, f.Start, f.End)
	}
	source, err := h.Field(script, int(h.layout.ScriptSource))
	if err != nil {
		return err
	}
	before, err := h.textBetween(source, max(0, f.Start-maxDeclaration), f.Start+1)
	if err != nil {
		return err
	}
	last, err := h.textBetween(source, f.End-1, f.End)
	if err != nil {
		return err
	}
	declared, ok := strings.CutSuffix(before, "(")
	if !ok || last != "}" || !declares(declared, f.Name) {
		return fmt.Errorf("%s has the text %q to %q", f.Name, before[strings.LastIndexByte(before, '\n')+1:], last)
	}
	return nil
}

// declares reports whether text ends in a declaration of name, before the parameters:
// "name", "function name", "name: function" or "name = async function*". Without a name,
// it is a function expression, or a method with a computed key.
func declares(text, name string) bool {
	text = strings.TrimRight(text, " \n*")
	if name == "" {
		return strings.HasSuffix(text, "function") || strings.HasSuffix(text, "]")
	}
	if rest, ok := strings.CutSuffix(text, "function"); ok {
		text = strings.TrimSuffix(strings.TrimRight(rest, " \n"), "async")
		text = strings.TrimRight(text, " \n:='\"")
	}
	return strings.HasSuffix(strings.TrimRight(text, "'\"]"), name)
}

// checkData checks that a function's data is of a kind that there is of a function with
// a script.
func (h *Heap) checkData(shared Object) error {
	v, err := h.Field(shared, int(h.layout.SharedData))
	if err != nil {
		return err
	}
	data, err := h.Object(v)
	if err != nil {
		return err
	}
	switch t := data.Map.Type; {
	case t == h.layout.BytecodeArray, t == h.layout.Code, t >= h.layout.FirstUncompiled && t <= h.layout.LastUncompiled:
	case data.Map.Kind == "InterpreterData":
	default:
		return fmt.Errorf("a function's data is a %s", data.Map.KindName())
	}
	return nil
}

// CheckBuiltin returns the number of the builtin that a JSFunction without a script is;
// ok is false for any other function.
func (h *Heap) CheckBuiltin(fn Object) (id int, ok bool, err error) {
	shared, err := h.SharedOf(fn)
	if err != nil {
		return 0, false, err
	}
	f, err := h.Shared(shared)
	if err != nil || f.Script != 0 {
		return 0, false, err
	}
	v, err := h.Field(shared, int(h.layout.SharedID))
	if err != nil {
		return 0, false, err
	}
	if id, ok := v.Smi(); ok {
		return id, true, nil
	}
	data, err := h.Object(v)
	if err == nil && data.Map.Type != h.layout.FunctionTemplate {
		err = fmt.Errorf("a function without a script has a %s for its number", data.Map.KindName())
	}
	return 0, false, err
}

// CheckScript checks the fields of a Script of Node.js.
func (h *Heap) CheckScript(script Value) error {
	o, err := h.Object(script)
	if err != nil {
		return err
	}
	l := h.layout
	for _, field := range []struct {
		name   string
		offset uint16
		limit  int
	}{
		{"line", l.ScriptLineOffset, maxSource}, {"column", l.ScriptColumnOffset, maxSource}, {"type", l.ScriptType, scriptTypes},
	} {
		n, err := h.SmiField(o, int(field.offset))
		if err != nil {
			return err
		}
		if n < 0 || n >= field.limit {
			return fmt.Errorf("a script has %s %d", field.name, n)
		}
	}
	url, err := h.Field(o, int(l.ScriptSourceURL))
	if err != nil {
		return err
	}
	u, err := h.Object(url)
	if err != nil {
		return err
	}
	if !h.IsString(u) && h.Oddball(url) != "undefined" {
		return fmt.Errorf("a script's URL is a %s", u.Map.KindName())
	}
	return nil
}

// IsolateOf returns the address of the isolate whose Heap is at an address; 0 if the file
// does not say how far apart they are.
func (b *Binary) IsolateOf(heap uint64) uint64 {
	if b.heap == 0 || heap <= uint64(b.heap) {
		return 0
	}
	return heap - uint64(b.heap)
}
