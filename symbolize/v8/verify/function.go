package verify

import (
	"fmt"
	"strings"

	"ustack/symbolize/v8"
)

// nodeScripts starts the names of the scripts that are part of Node.js.
const nodeScripts = "node:"

// maxDeclaration bounds the text before a function's parameters in which its name is
// searched, in UTF-16 code units: "static async *name" or "name = function".
const maxDeclaration = 1 << 8

const (
	scriptTypes = 8        // types of scripts
	maxPosition = 64 << 20 // of a script in its file: no source has as many characters
)

// A nodeFunction is a JSFunction that a script of Node.js defines.
type nodeFunction struct {
	name     string // "" for arrow functions, classes and functions without a name
	script   v8.Value
	scriptID int
}

// checkFunction checks what is read of a JSFunction against the text of its script: its
// parameters and its body in braces, and before them its name. Arrow functions, classes
// and functions without a name have other forms of text. ok is false for a function that
// no script of Node.js defines.
func checkFunction(h *v8.Heap, fn v8.Object) (_ nodeFunction, ok bool, err error) {
	shared, script, ok := nodeScript(h, fn)
	if !ok {
		return nodeFunction{}, false, nil
	}
	n := nodeFunction{script: script.Ref()}
	f, err := h.Shared(shared)
	if err == nil && f.Script != uint64(n.script) {
		err = fmt.Errorf("the script at %#x is not found", script.Address)
	}
	if err != nil {
		return n, true, err
	}
	n.scriptID = f.ScriptID
	form, err := formOf(h, fn)
	if err != nil || form != bodied || f.Name == "" && f.Start == 0 { // or it is a whole script
		return n, true, err
	}
	if err := checkText(h, script, f); err != nil {
		return n, true, err
	}
	n.name = f.Name
	return n, true, checkData(h, shared)
}

// nodeScript returns the SharedFunctionInfo and the script of a function that a script of
// Node.js defines, by metadata alone; ok is false for others, and for what a collector
// has left of a function.
func nodeScript(h *v8.Heap, fn v8.Object) (shared, script v8.Object, ok bool) {
	l := &h.Binary().Layout
	shared, err := h.SharedOf(fn)
	if err != nil {
		return shared, script, false
	}
	v, err := h.Field(shared, int(l.SharedScript))
	if err != nil {
		return shared, script, false
	}
	if script, err = h.Object(v); err != nil || script.Map.Type != l.Script {
		return shared, script, false
	}
	name, err := h.Field(script, int(l.ScriptName))
	if err != nil {
		return shared, script, false
	}
	file, err := h.Name(name)
	return shared, script, err == nil && strings.HasPrefix(file, nodeScripts)
}

// A functionForm is what a function's kind says about its text.
type functionForm int

// The forms of functions.
const (
	bodied      functionForm = iota // parameters and a body in braces
	otherForm                       // an arrow function, a class or a module
	initializer                     // initializes fields of a class
	unknownForm
)

// formOf returns the form of a JSFunction's text.
func formOf(h *v8.Heap, fn v8.Object) (functionForm, error) {
	shared, err := h.SharedOf(fn)
	if err != nil {
		return unknownForm, err
	}
	kind, name, err := h.KindOf(shared)
	switch {
	case strings.Contains(name, "class"), strings.Contains(name, "arrow"), strings.Contains(name, "module"):
		return otherForm, err
	case name != "":
		return bodied, err
	}
	const preceding = 1 // the same kind where a member precedes it
	l := &h.Binary().Layout
	for _, number := range []uint8{l.KindMembers, l.KindStatic} {
		if kind == number || kind == number+preceding {
			return initializer, err
		}
	}
	return unknownForm, err
}

// checkText checks that a function's text has its name, parameters and body.
func checkText(h *v8.Heap, script v8.Object, f v8.Function) error {
	if f.Start < 0 || f.End <= f.Start {
		return fmt.Errorf("%s is at %d to %d", f.Name, f.Start, f.End)
	}
	source, err := h.Field(script, int(h.Binary().Layout.ScriptSource))
	if err != nil {
		return err
	}
	before, err := h.TextBetween(source, max(0, f.Start-maxDeclaration), f.Start+1)
	if err != nil {
		return err
	}
	last, err := h.TextBetween(source, f.End-1, f.End)
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
func checkData(h *v8.Heap, shared v8.Object) error {
	l := &h.Binary().Layout
	v, err := h.Field(shared, int(l.SharedData))
	if err != nil {
		return err
	}
	data, err := h.Object(v)
	if err != nil {
		return err
	}
	switch t := data.Map.Type; {
	case t == l.BytecodeArray, t == l.Code, t >= l.FirstUncompiled && t <= l.LastUncompiled:
	case data.Map.Kind == "InterpreterData":
	default:
		return fmt.Errorf("a function's data is a %s", data.Map.KindName())
	}
	return nil
}

// builtinOf returns the number of the builtin that a JSFunction without a script is;
// ok is false for any other function.
func builtinOf(h *v8.Heap, fn v8.Object) (id int, ok bool, err error) {
	shared, err := h.SharedOf(fn)
	if err != nil {
		return 0, false, err
	}
	f, err := h.Shared(shared)
	if err != nil || f.Script != 0 {
		return 0, false, err
	}
	v, err := h.Field(shared, int(h.Binary().Layout.SharedID))
	if err != nil {
		return 0, false, err
	}
	if id, ok := v.Smi(); ok {
		return id, true, nil
	}
	data, err := h.Object(v)
	if err == nil && data.Map.Type != h.Binary().Layout.FunctionTemplate {
		err = fmt.Errorf("a function without a script has a %s for its number", data.Map.KindName())
	}
	return 0, false, err
}

// checkScript checks the fields of a Script of Node.js.
func checkScript(h *v8.Heap, script v8.Value) error {
	o, err := h.Object(script)
	if err != nil {
		return err
	}
	l := &h.Binary().Layout
	for _, field := range []struct {
		name   string
		offset uint16
		limit  int
	}{
		{"line", l.ScriptLineOffset, maxPosition}, {"column", l.ScriptColumnOffset, maxPosition}, {"type", l.ScriptType, scriptTypes},
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
