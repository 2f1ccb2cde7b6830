package jscore

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"ustack/symbolize"
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

// maxFrameNumber is above the numbers of frames, and below all frame pointers.
const maxFrameNumber = 4096

// FramePointer returns the frame pointer that an address is, or that of the frame with a
// number: its digits are decimal.
func (d *Dump) FramePointer(address uint64) (uint64, error) {
	number, err := strconv.Atoi(strconv.FormatUint(address, 16))
	if err != nil || address >= maxFrameNumber || len(d.Threads()) == 0 {
		return address, nil
	}
	frames := d.WalkJSFrame(d.Threads()[0]).Values
	if number >= len(frames) {
		return 0, fmt.Errorf("no frame has the number %d (walk jsframe lists %d, from 0)", number, len(frames))
	}
	return uint64(frames[number].Address), nil
}

// PrintVariables prints variables, or their members, of the frame at a frame pointer; of
// the innermost JavaScript function of the first thread if that is 0.
func (d *Dump) PrintVariables(fp uint64, o PrintOptions) (*Printed, error) {
	at, err := d.frameAt(fp)
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
		slot, err := value.Lookup(d.v8.Heap, value.Slot{Value: v.Value, Number: v.Number, IsNumber: v.IsNumber}, rest)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		printed := PrintedValue{Path: path, Node: value.Describe(d.v8.Heap, slot, o.Options)}
		if slot.HasValue() {
			printed.value = slot.Value
		}
		all.Values = append(all.Values, printed)
	}
	return all, nil
}

// frameAt returns the JavaScript frame at a frame pointer; the innermost one for 0.
func (d *Dump) frameAt(fp uint64) (stack.Frame, error) {
	for _, t := range d.Threads() {
		for _, f := range d.Stack(t).Frames {
			if f.Kind == symbolize.JS && (f.FP == fp || fp == 0) {
				return f, nil
			}
		}
	}
	return stack.Frame{}, errors.New("no JavaScript frame (walk jsframe lists them)")
}
