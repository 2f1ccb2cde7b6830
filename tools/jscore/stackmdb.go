package jscore

import (
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
}

// Properties returns a property of JavaScript frames by mdb_v8's name for it: file, posn,
// this or arg1, arg2 and so on. Frames that lack it are left out.
func Properties(stacks StackList, property string) *FrameProperties {
	p := &FrameProperties{Property: property, Frames: []FrameProperty{}}
	for _, s := range stacks {
		for _, f := range s.Frames {
			if f.Kind != symbolize.JS {
				continue
			}
			if text, value := f.property(property); text != "" || value != nil {
				p.Frames = append(p.Frames, FrameProperty{f.Name, text, value})
			}
		}
	}
	return p
}

// IsProperty reports whether Properties knows a property of that name.
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

func (f *FrameText) property(name string) (text string, value *Brief) {
	switch name {
	case "file":
		return f.File, nil
	case "posn":
		if f.Line == 0 {
			return "", nil
		}
		return fmt.Sprintf("line %d column %d", f.Line, f.Column), nil
	case "this":
		return "", f.This
	}
	if n, ok := argumentNumber(name); ok && n <= len(f.Arguments) {
		return "", &f.Arguments[n-1]
	}
	return "", nil
}

// WriteText writes a line for each frame: a text, or the address of a value.
func (p *FrameProperties) WriteText(w io.Writer) error {
	for _, f := range p.Frames {
		text := f.Text
		if f.Value != nil {
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
		if f.Value != nil {
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
