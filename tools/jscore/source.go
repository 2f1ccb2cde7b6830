package jscore

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"ustack/symbolize/v8"
	"ustack/symbolize/v8/value"
)

// maxScriptText bounds the characters read of a script in order to show a part.
const maxScriptText = 1 << 26

// A FunctionSource is the text of a function with surrounding lines.
type FunctionSource struct {
	Address  Address `json:"address"`
	Function string  `json:"function"`
	File     string  `json:"file"`
	Line     int     `json:"line"`      // of the function, from 1
	LastLine int     `json:"last_line"` // of the function
	Lines    []Line  `json:"lines"`
}

// A Line is a line of a script.
type Line struct {
	Number int    `json:"number"`
	Text   string `json:"text"`
}

// JSSource returns the text of v's function, where v is a function or V8's
// SharedFunctionInfo, with up to around lines before and after it.
func (d *Dump) JSSource(v v8.Value, around int) (*FunctionSource, error) {
	f, err := value.FunctionOf(d.Heap(), v)
	if err != nil {
		return nil, err
	}
	if f.Script == 0 {
		return nil, fmt.Errorf("read source of %s: it is V8's or native code", f)
	}
	script := d.Script(f)
	if script.Source == nil || f.Start < 0 {
		return nil, fmt.Errorf("read source of %s: its place in %s is not known", f, script.Name)
	}
	lines, err := d.scriptLines(f)
	if err != nil {
		return nil, fmt.Errorf("read source of %s: %w", f, err)
	}
	s := &FunctionSource{Address: Address(v), Function: f.String(), File: script.Name, Lines: []Line{}}
	s.Line, _ = script.Source.Position(f.Start)
	s.LastLine, _ = script.Source.Position(max(f.End-1, f.Start))
	first, _ := script.Source.Position(0)
	for i, text := range lines {
		if n := first + i; n >= s.Line-around && n <= s.LastLine+around {
			s.Lines = append(s.Lines, Line{n, text})
		}
	}
	return s, nil
}

// scriptLines returns the lines of a function's script, divided as V8 does.
func (d *Dump) scriptLines(f v8.Function) ([]string, error) {
	h := d.Heap()
	script, err := h.Object(v8.Value(f.Script))
	if err != nil {
		return nil, err
	}
	source, err := h.Field(script, int(d.v8.Binary.Layout.ScriptSource))
	if err != nil {
		return nil, err
	}
	text, _, err := h.Text(source, maxScriptText)
	if err != nil {
		return nil, err
	}
	return strings.Split(lineEnds.Replace(text), "\n"), nil
}

// lineEnds replaces all of JavaScript's line terminators with one.
var lineEnds = strings.NewReplacer("\r\n", "\n", "\r", "\n", "\u2028", "\n", "\u2029", "\n")

// WriteText writes the file's name and the lines with their numbers.
func (s *FunctionSource) WriteText(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "file: %s\n\n", s.File)
	for _, l := range s.Lines {
		b.WriteString(strings.TrimRight(fmt.Sprintf("%5d %s", l.Number, l.Text), " ") + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Addresses returns the function's address.
func (s *FunctionSource) Addresses() []v8.Value { return []v8.Value{v8.Value(s.Address)} }

// JSFunction returns what the function v is and where it is defined; if v was made by
// bind(), also its target.
func (d *Dump) JSFunction(v v8.Value) (*Table, error) {
	h := d.Heap()
	target := value.Unbound(h, v)
	o, err := value.ObjectOf(h, target, "JSFunction")
	if err != nil {
		return nil, err
	}
	c, err := h.Callable(o)
	if err != nil {
		return nil, err
	}
	t := &Table{Title: "function: " + c.String(), value: v}
	if target != v {
		t.Title = "bound " + t.Title
		t.addValue(h, "target", target)
	}
	kind := c.Kind
	if c.Static {
		kind = "static " + kind
	}
	t.add("kind", "%s", kind)
	t.add("defined at", "%s", d.DefinedAt(c.Function))
	if c.Inferred != "" && c.Inferred != c.String() {
		t.add("also known as", "%s", c.Inferred)
	}
	t.addField(h, o, "JSFunction", "context")
	t.addField(h, o, "JSFunction", "shared")
	return t, nil
}

// A Constructor is what created an object.
type Constructor struct {
	Object   Address `json:"object"`
	Name     string  `json:"name"`
	Function *Brief  `json:"function,omitempty"` // nil if only the name is known

	verbose bool
}

// JSConstructor returns what created the object v.
func JSConstructor(h *v8.Heap, v v8.Value, verbose bool) (*Constructor, error) {
	o, err := h.Object(v)
	if err != nil {
		return nil, err
	}
	if !h.IsReceiver(o) {
		return nil, fmt.Errorf("a %s is no JavaScript object", o.Map.KindName())
	}
	name, err := h.Class(o)
	if err != nil {
		return nil, err
	}
	c := &Constructor{Object: Address(v), Name: name, verbose: verbose}
	for m, depth := o.Map, 0; depth < maxPrototypes; depth++ {
		p, err := h.Object(m.Prototype)
		if err != nil || !h.IsReceiver(p) {
			break
		}
		if function, ok, err := h.Own(p, "constructor"); err == nil && ok && function.IsObject() {
			brief := value.BriefOf(h, function)
			c.Function = &brief
			break
		}
		m = p.Map
	}
	return c, nil
}

// maxPrototypes bounds the prototypes of one object that are read.
const maxPrototypes = 1 << 7

// WriteText writes the name, with the function if requested.
func (c *Constructor) WriteText(w io.Writer) error {
	text := c.Name
	if c.verbose && c.Function != nil {
		text += fmt.Sprintf(" (%s: %s)", c.Function.Kind, c.Function.Address)
	}
	_, err := fmt.Fprintln(w, text)
	return err
}

// Addresses returns the constructor's address.
func (c *Constructor) Addresses() []v8.Value {
	if c.Function == nil {
		return nil
	}
	return []v8.Value{v8.Value(c.Function.Address)}
}

// JSArray returns the elements of the JavaScript array v, skipping holes.
func JSArray(h *v8.Heap, v v8.Value, indices bool) (*Values, error) {
	o, err := h.Object(v)
	if err != nil {
		return nil, err
	}
	if !h.IsReceiver(o) {
		return nil, fmt.Errorf("a %s is no JavaScript object", o.Map.KindName())
	}
	values := &Values{Address: Address(v), Values: []Indexed{}, indices: indices}
	err = h.Elements(o, func(e v8.Element) bool {
		element := Indexed{Index: e.Index}
		if e.IsNumber {
			element.Brief = Brief{Kind: unboxed, Text: value.Text(value.FormatNumber(e.Number))}
		} else {
			element.Brief = value.BriefOf(h, e.Value)
		}
		values.Values = append(values.Values, element)
		return len(values.Values) < maxArray
	})
	if err != nil && len(values.Values) == 0 {
		return nil, err
	}
	return values, nil
}

// A Closure is the variables that a function sees and that are not its own.
type Closure struct {
	Function Brief      `json:"function"`
	Scopes   []Captured `json:"scopes"` // from the innermost outward
}

// Captured are the variables of one scope.
type Captured struct {
	Type      string             `json:"type"`
	Function  string             `json:"function,omitempty"`
	Variables []CapturedVariable `json:"variables"`
}

// A CapturedVariable is a variable with its value.
type CapturedVariable struct {
	Name    string      `json:"name"`
	Address *Address    `json:"address,omitempty"` // its word; nil if V8 keeps a number outside of the heap's objects
	Value   *value.Node `json:"value"`
}

// JSClosure returns what the function v has captured.
func JSClosure(h *v8.Heap, v v8.Value) (*Closure, error) {
	o, err := value.ObjectOf(h, value.Unbound(h, v), "JSFunction")
	if err != nil {
		return nil, err
	}
	contexts, err := h.Closure(o)
	if err != nil && len(contexts) == 0 {
		return nil, err
	}
	c := &Closure{Function: value.BriefOf(h, v), Scopes: []Captured{}}
	for _, context := range contexts {
		captured := Captured{Type: context.Scope.Type, Variables: []CapturedVariable{}}
		if captured.Type == "function" {
			captured.Function = context.Scope.Function.String()
		}
		for _, variable := range context.Variables {
			slot := value.Slot{Value: variable.Value, Number: variable.Number, IsNumber: variable.IsNumber}
			described := value.Describe(h, slot, value.Options{Depth: 0, Members: DefaultMembers})
			shown := CapturedVariable{Name: variable.Name, Value: described}
			if !variable.IsNumber {
				address := Address(variable.Value)
				shown.Address = &address
			}
			captured.Variables = append(captured.Variables, shown)
		}
		c.Scopes = append(c.Scopes, captured)
	}
	return c, nil
}

// WriteText writes a line for each variable, inner ones first.
func (c *Closure) WriteText(w io.Writer) error {
	var all error
	for _, scope := range c.Scopes {
		title := scope.Type + " scope"
		if scope.Function != "" {
			title = "function " + scope.Function
		}
		_, err := fmt.Fprintf(w, "%s:\n", title)
		all = errors.Join(all, err)
		for _, variable := range scope.Variables {
			word := ""
			if variable.Address != nil {
				word = variable.Address.String() + ": "
			}
			_, err := fmt.Fprintf(w, "%s%q: %s", indent, variable.Name, word)
			all = errors.Join(all, err, variable.Value.Render(w, value.TextOptions{}))
		}
	}
	return all
}

// Addresses returns the variables' values.
func (c *Closure) Addresses() []v8.Value {
	var values []v8.Value
	for _, scope := range c.Scopes {
		for _, variable := range scope.Variables {
			if variable.Address != nil {
				values = append(values, v8.Value(*variable.Address))
			}
		}
	}
	return values
}
