// Package variables finds the variables of functions on a stack, by name: parameters,
// locals and what closures share. Names of variables in registers come from the source
// text; they are used only where V8's own data about the function agrees with the text.
package variables

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf16"

	"ustack/symbolize"
	"ustack/symbolize/jsscope"
	"ustack/symbolize/v8"
	"ustack/symbolize/v8/code"
	"ustack/symbolize/v8/stack"
)

// A Kind says what a variable belongs to.
type Kind int

// Kinds of variables.
const (
	Parameter Kind = iota
	Local
	Closure // of a function around it, or of the script
)

func (k Kind) String() string {
	switch k {
	case Parameter:
		return "parameter"
	case Local:
		return "local"
	case Closure:
		return "closure"
	}
	return fmt.Sprintf("Kind(%d)", int(k))
}

// MarshalText returns the kind's name.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// A State says whether the value of a variable is known.
type State int

// States of variables.
const (
	Known        State = iota
	Unset              // its declaration has not run yet
	OptimizedOut       // V8 does not keep it in the frame, or not where it can be found
	NotAllocated       // an object that exists only as its parts, which optimized code keeps
)

func (s State) String() string {
	switch s {
	case Known:
		return "known"
	case Unset:
		return "not initialized"
	case OptimizedOut:
		return "optimized out"
	case NotAllocated:
		return "not allocated"
	}
	return fmt.Sprintf("State(%d)", int(s))
}

// A Variable is a variable with its value.
type Variable struct {
	Name  string
	Kind  Kind
	State State
	v8.Variable
	Oddball string // "true", "false" or "undefined", for which there is no value; empty for others
	BigInt  string // in decimal, likewise
	Parts   *Parts // of an object that was not allocated; nil if they are not known
}

// Parts are the properties of an object that was not allocated.
type Parts struct {
	Class      string
	Properties []Variable
}

// A Reader finds variables. It must not be used concurrently.
type Reader struct {
	heap      *v8.Heap
	codes     *code.Finder
	functions map[v8.Value]*function // by SharedFunctionInfo
}

// NewReader returns a Reader of the objects that h reads.
func NewReader(h *v8.Heap) *Reader {
	codes, _ := code.NewFinder(h, 0) // what frames run is known
	return &Reader{h, codes, map[v8.Value]*function{}}
}

// A function is what is known of a function's variables.
type function struct {
	v8.Function
	names     *jsscope.Variables // nil if its text is not understood
	arrow     bool               // it has the receiver of the function around it
	registers int                // of its frames; 0 if not known
	proven    bool               // V8's data agrees with the text: registers have names
}

// maxAnalyzed bounds the functions that are kept.
const maxAnalyzed = 1 << 12

// maxText bounds the characters of a function's text.
const maxText = 1 << 22

// function analyzes the function of a SharedFunctionInfo.
func (r *Reader) function(shared v8.Value) (*function, error) {
	if f := r.functions[shared]; f != nil {
		return f, nil
	}
	o, err := r.heap.Object(shared)
	if err != nil {
		return nil, err
	}
	f := &function{}
	if f.Function, err = r.heap.Shared(o); err != nil {
		return nil, err
	}
	if err := r.analyze(f, o); err != nil {
		f.proven = false
	}
	if len(r.functions) < maxAnalyzed {
		r.functions[shared] = f
	}
	return f, nil
}

// analyze reads a function's text and compares it with what V8 knows.
func (r *Reader) analyze(f *function, shared v8.Object) error {
	h := r.heap
	scope, err := h.ScopeOf(shared)
	if err != nil {
		return err
	}
	_, kind, err := h.KindOf(shared)
	if err != nil {
		return err
	}
	f.arrow = strings.HasSuffix(kind, "arrow")
	script, err := h.Object(v8.Value(f.Script))
	if err != nil {
		return err
	}
	if f.Start < 0 || f.End < f.Start || f.End-f.Start > maxText {
		return errors.New("read variables: the text is too long")
	}
	source, err := h.Field(script, int(h.Binary().Layout.ScriptSource))
	if err != nil {
		return err
	}
	text, err := h.TextBetween(source, f.Start, f.End)
	if err != nil {
		return err
	}
	of := jsscope.Function{Text: utf16.Encode([]rune(text)), Kind: kind, Strict: scope.Strict}
	of.Own = scope.Own
	if of.Body = f.Start == 0 && kind == "function"; of.Body {
		if of.Parameters, err = code.WrappedParameters(h, f.Function); err != nil {
			return err
		}
	}
	if scope.Type != "function" {
		return errors.New("read variables: it is no function")
	}
	names, err := jsscope.Analyze(of)
	if names == nil || !r.agrees(names, shared) {
		return err
	}
	f.names = names
	if f.registers, err = code.Registers(h, shared); err != nil {
		return err
	}
	f.proven = names.Registers > 0 && names.Registers <= f.registers && slices.Equal(named(scope.Locals), named(names.Shared))
	return nil
}

// agrees reports whether V8 counts as many parameters as the text has.
func (r *Reader) agrees(names *jsscope.Variables, shared v8.Object) bool {
	count, err := code.Parameters(r.heap, shared)
	want := len(names.Parameters)
	if names.Rest {
		want--
	}
	return err == nil && count == want
}

// named returns the names that the text has, of those that V8 uses.
func named(names []string) []string {
	var list []string
	for _, name := range names {
		if name != "" && name[0] != '.' && name != "this" && name != "new.target" {
			list = append(list, name)
		}
	}
	return list
}

// A Frame is the variables of a frame.
type Frame struct {
	Variables []Variable // parameters, then locals, then what the function uses of closures
	Arguments int        // the first so many arguments are those of parameters with a name
}

// Of returns the variables that a function's frame can use.
func (r *Reader) Of(f stack.Frame) (Frame, error) {
	if f.Kind != symbolize.JS || f.Shared == 0 && f.Call.Function == 0 {
		return Frame{}, nil
	}
	frame, err := r.frame(f)
	if err != nil {
		return Frame{}, err
	}
	err = frame.readContexts()
	parameters := frame.parameters()
	list := slices.Concat(parameters, frame.locals(), frame.closures())
	slices.SortStableFunc(list, func(a, b Variable) int { return cmp.Compare(a.Kind, b.Kind) })
	return Frame{list, len(parameters)}, err
}

// This returns the receiver of a function's frame; ok is false if the frame does not have
// it. Arrow functions have that of the function around them, if they use it.
func (r *Reader) This(f stack.Frame) (this v8.Value, ok bool) {
	frame, err := r.frame(f)
	switch {
	case err == nil && frame.of.arrow:
		_ = frame.readContexts() // what cannot be read has no receiver
		for _, v := range frame.outer {
			if v.Name == "this" {
				return v.Value, true
			}
		}
		return 0, false
	case err == nil && f.Inlined && frame.kept != nil:
		return frame.kept.This.Value, frame.kept.This.Kind == code.HeldValue
	}
	return f.Call.This, f.HasCall || f.Generator != 0
}
