package variables

import (
	"slices"

	"ustack/symbolize"
	"ustack/symbolize/jsscope"
	"ustack/symbolize/v8"
	"ustack/symbolize/v8/code"
	"ustack/symbolize/v8/stack"
)

// A frame is one whose variables are read.
type frame struct {
	*Reader
	stack.Frame
	of      *function
	own     []Variable    // in Contexts that the call has made, innermost first
	outer   []v8.Variable // in those of the closure
	visible []jsscope.Local
	saved   code.Saved // of a generator
	kept    *code.Kept // what optimized code keeps; nil if it is not known
}

func (r *Reader) frame(f stack.Frame) (*frame, error) {
	shared := f.Shared
	if shared == 0 {
		fn, err := r.heap.Object(f.Call.Function)
		if err != nil {
			return nil, err
		}
		o, err := r.heap.SharedOf(fn)
		if err != nil {
			return nil, err
		}
		shared = o.Ref()
	}
	of, err := r.function(shared)
	if err != nil {
		return nil, err
	}
	at := &frame{Reader: r, Frame: f, of: of, kept: r.keptOf(f)}
	if of.names != nil && f.Offset >= of.Start {
		at.visible = of.names.At(f.Offset - of.Start)
	}
	if f.Generator != 0 {
		o, err := r.heap.Object(f.Generator)
		if err != nil {
			return nil, err
		}
		at.saved, err = code.SavedBy(r.heap, o)
		return at, err
	}
	return at, nil
}

// unoptimized reports whether registers are where the interpreter keeps them.
func (f *frame) unoptimized() bool {
	return f.Generator != 0 || !f.Inlined && (f.Tier == symbolize.Interpreted || f.Tier == symbolize.Baseline)
}

// context returns the Context that the function runs in; ok is false if it is not known.
func (f *frame) context() (context v8.Value, ok bool) {
	if f.kept != nil {
		return f.kept.Context.Value, f.kept.Context.Kind == code.HeldValue
	}
	return f.Call.Context, f.unoptimized()
}

// function returns the frame's JSFunction, 0 if it is not known.
func (f *frame) function() v8.Value {
	if f.Call.Function == 0 && f.kept != nil && f.kept.Function.Kind == code.HeldValue {
		return f.kept.Function.Value
	}
	return f.Call.Function
}

// readContexts reads the variables in Contexts.
func (f *frame) readContexts() error {
	closure := v8.Value(0)
	if function := f.function(); function != 0 {
		fn, err := f.heap.Object(function)
		if err != nil {
			return err
		}
		if closure, err = f.heap.FieldOf(fn, "JSFunction", "context"); err != nil {
			return err
		}
	}
	f.readOwn(closure)
	if closure == 0 {
		return nil
	}
	var err error
	f.outer, err = f.heap.Enclosing(closure, func(v8.Value) bool { return true })
	return err
}

// readOwn reads the variables in the Contexts that the call has made, within that of the
// closure. Some may exist only as their parts.
func (f *frame) readOwn(closure v8.Value) {
	context, ok := f.context()
	var own []Variable
	if f.kept != nil {
		context, own, ok = f.unmade(f.kept.Context)
	}
	if !ok {
		return
	}
	outermost, err := f.heap.Object(closure)
	reached := err == nil && outermost.Map.Kind == "NativeContext" // which is not visited
	variables, err := f.heap.Enclosing(context, func(context v8.Value) bool {
		if context == closure {
			reached = true
		}
		return context != closure
	})
	if !reached || err != nil {
		return
	}
	for _, v := range variables {
		v := Variable{Variable: v}
		f.checkHole(&v)
		own = append(own, v)
	}
	f.own = own
}

// maxUnmade bounds the Contexts within one another that were not allocated.
const maxUnmade = 64

// Words of a Context that was not allocated.
const (
	contextScope    = 2
	contextPrevious = 3
	contextSlots    = 2
)

// unmade returns the variables of a Context that was not allocated, and of those in which it
// is, up to the first that was, which it returns.
func (f *frame) unmade(held code.Held) (context v8.Value, own []Variable, ok bool) {
	for range maxUnmade {
		if held.Kind == code.HeldValue {
			return held.Value, own, true
		}
		if len(held.Words) <= contextPrevious || held.Words[contextScope].Kind != code.HeldValue {
			return 0, nil, false
		}
		o, err := f.heap.Object(held.Words[contextScope].Value)
		if err != nil {
			return 0, nil, false
		}
		scope, err := f.heap.Scope(o)
		if err != nil {
			return 0, nil, false
		}
		for i, name := range scope.Locals {
			at := contextSlots + scope.FirstSlot() + i
			if at >= len(held.Words) {
				return 0, nil, false
			}
			v := Variable{Variable: v8.Variable{Name: name}}
			if word := held.Words[at]; f.hold(&v, word) && word.Kind == code.HeldValue {
				f.heap.OpenCell(&v.Variable)
				f.checkHole(&v)
			}
			own = append(own, v)
		}
		held = held.Words[contextPrevious]
	}
	return 0, nil, false
}

// parameters returns the parameters that are names.
func (f *frame) parameters() []Variable {
	if f.of.names == nil || !f.of.names.Simple {
		return nil
	}
	var list []Variable
	for i, name := range f.of.names.Parameters {
		v := Variable{Name: name, Kind: Parameter}
		if f.hides(name) {
			continue
		}
		if !f.inContexts(&v) && !f.parameter(&v, i) && v.State == Known {
			v.State = OptimizedOut
		}
		list = append(list, v)
	}
	return list
}

// inContexts reads a variable from the Contexts of the call; false if it is not there.
func (f *frame) inContexts(v *Variable) bool {
	for _, in := range f.own {
		if in.Variable.Name == v.Name {
			in.Name, in.Kind = v.Name, v.Kind
			*v = in
			return true
		}
	}
	return false
}

// parameter reads the parameter with an index from where its caller pushed it.
func (f *frame) parameter(v *Variable, index int) bool {
	if f.Generator != 0 {
		if index >= len(f.saved.Parameters) {
			return false
		}
		v.Value = f.saved.Parameters[index]
		return true
	}
	if f.kept != nil && index < len(f.kept.Parameters) && f.hold(v, f.kept.Parameters[index]) {
		return true
	}
	if f.Inlined || f.FP == 0 || !f.HasCall || !f.unoptimized() && f.of.names.Assigned(v.Name) {
		return false
	}
	value, err := code.Argument(f.heap, f.FP, index)
	v.Value, v.State = value, Known
	return err == nil
}

// checkHole notes that a variable has no value yet if V8 has put the hole there.
func (f *frame) checkHole(v *Variable) {
	if !v.IsNumber && f.heap.Oddball(v.Value) == "hole" {
		v.State = Unset
	}
}

// locals returns the variables that the function declares and that are visible where it is.
func (f *frame) locals() []Variable {
	var list []Variable
	seen := map[string]bool{}
	for _, l := range f.visible {
		v := Variable{Name: l.Name, Kind: Local}
		if l.Parameter {
			v.Kind = Parameter
		}
		switch {
		case l.Parameter && f.of.names.Simple:
			seen[l.Name] = true
			continue
		case l.Unset:
			v.State = Unset
		case l.Shared && f.inContexts(&v):
		case l.Register >= 0 && f.register(&v, l.Register):
		case l.Register < 0 && !l.Shared:
			continue // V8 has dropped it
		case v.State == Known:
			v.State = OptimizedOut
		}
		seen[l.Name] = true
		list = append(list, v)
	}
	for _, in := range f.own {
		if name := in.Variable.Name; !seen[name] && visibleName(name) {
			seen[name] = true
			in.Name, in.Kind = name, Local
			list = append(list, in)
		}
	}
	return list
}

// hides reports whether another variable hides the parameter of that name.
func (f *frame) hides(name string) bool {
	return slices.ContainsFunc(f.visible, func(l jsscope.Local) bool { return l.Name == name && !l.Parameter })
}

func visibleName(name string) bool { return name != "" && name[0] != '.' && name != "this" }

// register reads a register, if it is proven to be the variable's.
func (f *frame) register(v *Variable, number int) bool {
	if !f.of.proven || number >= f.of.registers {
		return false
	}
	if f.kept != nil && number < len(f.kept.Registers) {
		return f.hold(v, f.kept.Registers[number])
	}
	value, ok := f.unoptimizedRegister(number)
	v.Value = value
	return ok && f.heap.Oddball(value) != "hole" // which V8 puts where it drops a value, too
}

// unoptimizedRegister returns a register of a frame of unoptimized code, or one that a
// generator has saved.
func (f *frame) unoptimizedRegister(number int) (v8.Value, bool) {
	switch {
	case f.Generator != 0 && number < len(f.saved.Registers):
		return f.saved.Registers[number], true
	case f.Generator != 0 || !f.unoptimized():
		return 0, false
	}
	value, err := code.Register(f.heap, f.FP, number)
	return value, err == nil
}

// maxClosure bounds the variables shown of closures if the function's text is not known.
const maxClosure = 32

// closures returns the variables of closures that the function uses.
func (f *frame) closures() []Variable {
	var list []Variable
	seen := map[string]bool{}
	for _, in := range f.outer {
		if !visibleName(in.Name) || seen[in.Name] {
			continue
		}
		seen[in.Name] = true
		if f.of.names != nil && !f.of.names.Free(in.Name) || f.of.names == nil && len(list) >= maxClosure {
			continue
		}
		v := Variable{Name: in.Name, Kind: Closure, Variable: in}
		f.checkHole(&v)
		list = append(list, v)
	}
	return list
}
