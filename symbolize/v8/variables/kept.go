package variables

import (
	"ustack/symbolize/v8"
	"ustack/symbolize/v8/code"
	"ustack/symbolize/v8/stack"
)

// keptOf returns what optimized code keeps of a frame's function; nil if nothing is known.
func (r *Reader) keptOf(f stack.Frame) *code.Kept {
	if f.Optimized == nil {
		return nil
	}
	all, err := r.codes.Kept(f.Optimized.Code, f.PC, f.Optimized.FP)
	level := f.Optimized.Level
	if err != nil || len(all) != f.Optimized.Levels || level >= len(all) || all[level].Shared != f.Shared {
		return nil
	}
	return &all[level]
}

// hold sets a variable to what optimized code keeps of it; false if it has no value then,
// and v's State says why.
func (r *Reader) hold(v *Variable, held code.Held) bool {
	switch held.Kind {
	case code.HeldValue:
		v.Variable.Value = held.Value
	case code.HeldNumber:
		v.Number, v.IsNumber = held.Number, true
	case code.HeldOddball:
		v.Oddball = held.Text
	case code.HeldBigInt:
		v.BigInt = held.Text
	case code.NotMade:
		v.State, v.Parts = NotAllocated, r.parts(held.Words, 0)
		return false
	default:
		v.State = OptimizedOut
		return false
	}
	return true
}

// maxPartDepth bounds objects within one another of which the parts are read.
const maxPartDepth = 8

// parts returns the properties of an object that was not allocated: its words begin with its
// map. It returns nil for what is no plain object.
func (r *Reader) parts(words []code.Held, depth int) *Parts {
	if len(words) == 0 || words[0].Kind != code.HeldValue || depth >= maxPartDepth {
		return nil
	}
	m, err := r.heap.MapAt(words[0].Value.Address())
	if err != nil || m.Kind != "JSObject" || m.Dictionary || m.Size != len(words)*wordSize {
		return nil
	}
	p := &Parts{}
	p.Class, _ = r.heap.Class(v8.Object{Map: m}) // empty if it cannot be read
	places, err := r.heap.FieldPlaces(m)
	if err != nil {
		return nil
	}
	for _, place := range places {
		if place.Word <= 0 || place.Word >= len(words) {
			return nil
		}
		v, held := Variable{Name: place.Name}, words[place.Word]
		switch held.Kind {
		case code.NotMade:
			v.State, v.Parts = NotAllocated, r.parts(held.Words, depth+1)
		default:
			r.hold(&v, held)
		}
		p.Properties = append(p.Properties, v)
	}
	return p
}

const wordSize = 8

// A Call is the call of an inlined function. Its arguments have no names.
type Call struct {
	Function  v8.Value // JSFunction, 0 if it is not known
	Arguments []Variable
	Construct bool // called by new
}

// CallOf returns the call of an inlined function; ok is false if V8 does not keep it.
func (r *Reader) CallOf(f stack.Frame) (call Call, ok bool) {
	kept := r.keptOf(f)
	if kept == nil || !f.Inlined {
		return Call{}, false
	}
	variable := func(h code.Held) (v Variable) {
		r.hold(&v, h)
		return v
	}
	call.Function, call.Construct = kept.Function.Value, kept.Construct
	for _, argument := range kept.Arguments {
		call.Arguments = append(call.Arguments, variable(argument))
	}
	return call, true
}
