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
	own     []v8.Variable // in Contexts that the call has made, innermost first
	outer   []v8.Variable // in those of the closure
	has     bool          // own was read
	visible []jsscope.Local
	saved   []v8.Value // the parameters of a generator
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
	at := &frame{Reader: r, Frame: f, of: of}
	if of.names != nil && f.Offset >= of.Start {
		at.visible = of.names.At(f.Offset - of.Start)
	}
	if f.Generator != 0 {
		o, err := r.heap.Object(f.Generator)
		if err != nil {
			return nil, err
		}
		at.saved, err = code.SavedParameters(r.heap, o)
		return at, err
	}
	return at, nil
}

// unoptimized reports whether registers are where the interpreter keeps them.
func (f *frame) unoptimized() bool {
	return f.Generator != 0 || !f.Inlined && (f.Tier == symbolize.Interpreted || f.Tier == symbolize.Baseline)
}

// readContexts reads the variables in Contexts. Optimized code keeps the Contexts that it
// makes elsewhere.
func (f *frame) readContexts() error {
	closure := v8.Value(0)
	if f.Call.Function != 0 {
		fn, err := f.heap.Object(f.Call.Function)
		if err != nil {
			return err
		}
		if closure, err = f.heap.FieldOf(fn, "JSFunction", "context"); err != nil {
			return err
		}
	}
	if f.unoptimized() {
		outermost, err := f.heap.Object(closure)
		reached := err == nil && outermost.Map.Kind == "NativeContext" // which is not visited
		variables, err := f.heap.Enclosing(f.Call.Context, func(context v8.Value) bool {
			if context == closure {
				reached = true
			}
			return context != closure
		})
		if reached && err == nil {
			f.own, f.has = variables, true
		}
	}
	if closure == 0 {
		return nil
	}
	var err error
	f.outer, err = f.heap.Enclosing(closure, func(v8.Value) bool { return true })
	return err
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
		if !f.inContexts(&v) && !f.parameter(&v, i) {
			v.State = OptimizedOut
		}
		list = append(list, v)
	}
	return list
}

// inContexts reads a variable from the Contexts of the call; false if it is not there.
func (f *frame) inContexts(v *Variable) bool {
	for _, in := range f.own {
		if in.Name == v.Name {
			v.Variable = in
			f.checkHole(v)
			return true
		}
	}
	return false
}

// parameter reads the parameter with an index from where its caller pushed it.
func (f *frame) parameter(v *Variable, index int) bool {
	if f.Generator != 0 {
		if index >= len(f.saved) {
			return false
		}
		v.Value = f.saved[index]
		return true
	}
	if f.Inlined || f.FP == 0 || !f.HasCall || !f.unoptimized() && f.of.names.Assigned(v.Name) {
		return false
	}
	value, err := code.Argument(f.heap, f.FP, index)
	v.Value = value
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
		default:
			v.State = OptimizedOut
		}
		seen[l.Name] = true
		list = append(list, v)
	}
	for _, in := range f.own {
		if !seen[in.Name] && visibleName(in.Name) {
			seen[in.Name] = true
			v := Variable{Name: in.Name, Kind: Local, Variable: in}
			f.checkHole(&v)
			list = append(list, v)
		}
	}
	return list
}

// hides reports whether another variable hides the parameter of that name.
func (f *frame) hides(name string) bool {
	return slices.ContainsFunc(f.visible, func(l jsscope.Local) bool { return l.Name == name && !l.Parameter })
}

func visibleName(name string) bool { return name != "" && name[0] != '.' && name != "this" }

// register reads a register, if it is proven to be the variable's. Those that a generator has
// saved are not read: optimized code leaves what an earlier suspension saved in those that it
// no longer needs.
func (f *frame) register(v *Variable, number int) bool {
	if !f.of.proven || f.Generator != 0 || !f.unoptimized() || number >= f.of.registers {
		return false
	}
	value, err := code.Register(f.heap, f.FP, number)
	if err != nil {
		return false
	}
	v.Value = value
	if f.heap.Oddball(v.Value) == "optimized out" {
		return false
	}
	f.checkHole(v)
	return true
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
