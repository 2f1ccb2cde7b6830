package jscore

import (
	"fmt"
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
	switch {
	case v.State != variables.Known:
		shown.State = v.State.String()
	case v.IsNumber:
		shown.Value = &Brief{Kind: unboxed, Text: value.FormatNumber(v.Number)}
	default:
		brief := value.BriefOf(h, v.Value)
		shown.Value = &brief
	}
	return shown
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
		if v.Value == nil {
			fmt.Fprintf(b, "%s%s %s: <%s>\n", margin, v.Kind, v.Name, v.State)
			continue
		}
		fmt.Fprintf(b, "%s%s %s: %s (%v)\n", margin, v.Kind, v.Name, v.Value.Address, *v.Value)
	}
}
