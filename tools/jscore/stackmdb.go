package jscore

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"ustack/symbolize"
	"ustack/symbolize/v8"
	"ustack/symbolize/v8/stack"
)

// FrameProperties are one property of several frames.
type FrameProperties struct {
	Property string          `json:"property"`
	Frames   []FrameProperty `json:"frames"` // those that have it
}

// A FrameProperty is a property of a frame.
type FrameProperty struct {
	Function string `json:"function"`
	Text     string `json:"text,omitempty"`  // of file and posn
	Value    *Brief `json:"value,omitempty"` // of the others
	State    string `json:"state,omitempty"` // of a variable: why its value is not known
}

// Properties returns a property of JavaScript frames by mdb_v8's name for it, which is file, posn,
// this or arg1, arg2 and so on, or else a variable by its name, for which the stacks must be
// verbose. Frames that lack it are left out; it is an error if there are frames, and all lack a
// variable of that name.
func Properties(stacks StackList, property string) (*FrameProperties, error) {
	p := &FrameProperties{Property: property, Frames: []FrameProperty{}}
	frames := 0
	for _, s := range stacks {
		for _, f := range s.Frames {
			if f.Kind != symbolize.JS {
				continue
			}
			frames++
			if one := f.property(property); one != (FrameProperty{}) {
				one.Function = f.Name
				p.Frames = append(p.Frames, one)
			}
		}
	}
	if frames > 0 && len(p.Frames) == 0 && !IsProperty(property) {
		return nil, fmt.Errorf("%w %q (jsstack -v lists them; there are file, posn, this, arg1, arg2 and so on, too)", ErrNoVariable, property)
	}
	return p, nil
}

// ErrNoVariable reports that frames lack a variable.
var ErrNoVariable = errors.New("no frame has a variable")

// IsProperty reports whether mdb_v8 has a property of that name; else it is a variable.
func IsProperty(name string) bool {
	_, isArgument := argumentNumber(name)
	return isArgument || slices.Contains([]string{"file", "posn", "this"}, name)
}

// argumentNumber returns the number in arg1, arg2 and so on.
func argumentNumber(name string) (int, bool) {
	number, ok := strings.CutPrefix(name, "arg")
	n, err := strconv.Atoi(number)
	return n, ok && err == nil && n >= 1
}

func (f *FrameText) property(name string) FrameProperty {
	switch name {
	case "file":
		return FrameProperty{Text: f.File}
	case "posn":
		if f.Line == 0 {
			return FrameProperty{}
		}
		return FrameProperty{Text: fmt.Sprintf("line %s column %d", f.line(), f.Column)}
	case "this":
		return FrameProperty{Value: f.This}
	}
	if n, ok := argumentNumber(name); ok {
		if n > len(f.Arguments) {
			return FrameProperty{}
		}
		argument := &f.Arguments[n-1]
		if state, ok := strings.CutPrefix(argument.Kind, "<"); ok {
			return FrameProperty{State: strings.TrimSuffix(state, ">")}
		}
		return FrameProperty{Value: argument}
	}
	for _, v := range f.Variables {
		if v.Name == name {
			return FrameProperty{Value: v.Value, State: v.State}
		}
	}
	return FrameProperty{}
}

// WriteText writes a line for each frame: a text, the address of a value, or why it is not known.
func (p *FrameProperties) WriteText(w io.Writer) error {
	for _, f := range p.Frames {
		text := f.Text
		switch {
		case f.State != "":
			text = "<" + f.State + ">"
		case f.Value != nil && f.Value.Kind == unboxed:
			text = string(f.Value.Text)
		case f.Value != nil && !hasWord(*f.Value):
			text = addressed(*f.Value)
		case f.Value != nil:
			text = f.Value.Address.String()
		}
		if _, err := fmt.Fprintln(w, text); err != nil {
			return err
		}
	}
	return nil
}

// Addresses returns the values.
func (p *FrameProperties) Addresses() []v8.Value {
	var values []v8.Value
	for _, f := range p.Frames {
		if f.Value != nil && hasWord(*f.Value) {
			values = append(values, v8.Value(f.Value.Address))
		}
	}
	return values
}

// A NativeStack is a thread's stack, as mdb's $c and $C show it.
type NativeStack struct {
	*StackText
	addresses bool
}

// NativeStack returns the stack of a thread with V8's own frames; with the addresses of
// all frames if requested.
func (d *Dump) NativeStack(t stack.Thread, addresses bool) *NativeStack {
	return &NativeStack{d.JSStack(t, StackOptions{All: true}), addresses}
}

// WriteText writes a line for each frame.
func (s *NativeStack) WriteText(w io.Writer) error {
	var b strings.Builder
	for _, f := range s.Frames {
		if s.addresses {
			fmt.Fprintf(&b, "%012x ", uint64(f.FP))
		}
		fmt.Fprintln(&b, f.title(s.options))
	}
	switch {
	case s.Truncated:
		b.WriteString("(more frames than are followed)\n")
	case s.Broken:
		b.WriteString("(the stack cannot be followed further)\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}
