package jscore

import (
	"fmt"
	"slices"
	"strings"

	"ustack/symbolize/v8"
	"ustack/symbolize/v8/stack"
	"ustack/symbolize/v8/value"
	"ustack/symbolize/v8/variables"
)

// A FrameVariable is a variable of a frame.
type FrameVariable struct {
	Name  string         `json:"name"`
	Kind  variables.Kind `json:"kind"`
	Value *Brief         `json:"value,omitempty"` // nil if it is not known
	State string         `json:"state,omitempty"` // why it is not known
	// Of an object that was not allocated, as far as they are known.
	Class string          `json:"class,omitempty"`
	Parts []FrameVariable `json:"parts,omitempty"` // its properties
}

// frameVariables returns a frame's variables, and how many arguments are among them.
func (d *Dump) frameVariables(f stack.Frame) (list []FrameVariable, arguments int) {
	h := d.v8.Heap
	if h == nil {
		return nil, 0
	}
	found, _ := d.variableReader().Of(f) // what cannot be read is not shown
	for _, v := range found.Variables {
		list = append(list, frameVariable(h, v))
	}
	return list, found.Arguments
}

func frameVariable(h *v8.Heap, v variables.Variable) FrameVariable {
	shown := FrameVariable{Name: v.Name, Kind: v.Kind}
	if v.State != variables.Known {
		shown.State = v.State.String()
		if v.Parts != nil {
			shown.Class = v.Parts.Class
			for _, part := range v.Parts.Properties {
				shown.Parts = append(shown.Parts, frameVariable(h, part))
			}
		}
		return shown
	}
	brief := variableBrief(h, v)
	shown.Value = &brief
	return shown
}

// variableBrief describes the value of a variable, or says why it has no value.
func variableBrief(h *v8.Heap, v variables.Variable) Brief {
	switch {
	case v.State != variables.Known:
		return Brief{Kind: "<" + v.State.String() + ">"}
	case v.IsNumber:
		return Brief{Kind: unboxed, Text: value.Text(value.FormatNumber(v.Number))}
	case v.Oddball != "":
		return Brief{Kind: "Oddball", Text: value.Text(v.Oddball)}
	case v.BigInt != "":
		return Brief{Kind: "BigInt", Text: value.Text(v.BigInt)}
	}
	return value.BriefOf(h, v.Value)
}

// addCall adds the receiver and the arguments of an inlined function.
func (t *FrameText) addCall(d *Dump, f stack.Frame) {
	call, ok := d.variableReader().CallOf(f)
	if !ok {
		return
	}
	t.Function, t.Construct, t.Count = Address(call.Function), call.Construct, len(call.Arguments)
	t.This = d.this(f)
	for _, argument := range call.Arguments {
		t.Arguments = append(t.Arguments, variableBrief(d.v8.Heap, argument))
	}
}

// variableReader returns the reader of variables; there must be a heap.
func (d *Dump) variableReader() *variables.Reader {
	if d.variables == nil {
		d.variables = variables.NewReader(d.v8.Heap)
	}
	return d.variables
}

// this returns the receiver of a frame's function; nil if the frame does not have it.
func (d *Dump) this(f stack.Frame) *Brief {
	this, ok := d.variableReader().This(f)
	if !ok {
		return nil
	}
	brief := value.BriefOf(d.v8.Heap, this)
	return &brief
}

// writeVariables writes a line for each variable.
func (f *FrameText) writeVariables(b *strings.Builder, margin string) {
	for _, v := range f.Variables {
		fmt.Fprintf(b, "%s%s %s: %s\n", margin, v.Kind, v.Name, v.text())
	}
}

// text describes the variable's value, or says why it is not known.
func (v FrameVariable) text() string {
	switch {
	case v.Value != nil:
		return addressed(*v.Value)
	case v.Class == "":
		return "<" + v.State + ">"
	}
	parts := make([]string, len(v.Parts))
	for i, part := range v.Parts {
		parts[i] = part.Name + ": " + part.text()
	}
	return fmt.Sprintf("<%s> (%s: { %s })", v.State, v.Class, strings.Join(parts, ", "))
}

// hasWord reports whether a value is a word of V8's, such as an object's address.
func hasWord(b Brief) bool { return b.Address != 0 || b.Kind == "SMI" }

// addressed describes a value after its address, if it has one.
func addressed(b Brief) string {
	switch {
	case b.Kind == unboxed:
		return fmt.Sprintf("%s (%s)", b.Text, unboxed)
	case hasWord(b):
		return fmt.Sprintf("%s (%v)", b.Address, b)
	case strings.HasPrefix(b.Kind, "<"):
		return b.Kind
	}
	return fmt.Sprintf("(%v)", b)
}

// PrintVariables prints variables, or their members, of a function's frame; of the innermost
// JavaScript function of the first thread for the zero FrameID.
func (d *Dump) PrintVariables(id FrameID, o PrintOptions) (*Printed, error) {
	at, err := d.frameAt(id)
	if err != nil {
		return nil, err
	}
	found, err := d.variableReader().Of(at)
	if err != nil {
		return nil, err
	}
	if this, ok := d.variableReader().This(at); ok {
		found.Variables = append(found.Variables, variables.Variable{Name: "this", Variable: v8.Variable{Value: this}})
	}
	all := &Printed{options: o.TextOptions}
	for _, path := range o.Paths {
		name := strings.TrimPrefix(path, ".")
		rest := ""
		if end := strings.IndexAny(name, ".["); end >= 0 {
			name, rest = name[:end], strings.TrimPrefix(name[end:], ".")
		}
		i := slices.IndexFunc(found.Variables, func(v variables.Variable) bool { return v.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("%s has no variable %q (jsstack -v lists them, jsframe selects another frame)", at.Name, name)
		}
		v := found.Variables[i]
		if v.State != variables.Known {
			return nil, fmt.Errorf("%s: the variable %q is %v", at.Name, name, v.State)
		}
		slot, err := value.Lookup(d.v8.Heap, slotOf(v), rest)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		all.Values = append(all.Values, printedValue(d.v8.Heap, path, slot, o))
	}
	return all, nil
}

// slotOf returns what a variable has.
func slotOf(v variables.Variable) value.Slot {
	return value.Slot{Value: v.Value, Number: v.Number, IsNumber: v.IsNumber, Oddball: v.Oddball, BigInt: v.BigInt}
}
