package stack

import (
	"errors"
	"fmt"

	"ustack/symbolize"
	"ustack/symbolize/sourcemap"
	"ustack/symbolize/v8"
	"ustack/symbolize/v8/code"
)

// maxFunctions bounds the functions that are cached, and the places in native code:
// recursive functions are on a stack many times.
const maxFunctions = 1 << 14

var errNoHeap = errors.New("read function: the layout of V8's heap is not known")

type scriptKey struct {
	address v8.Value
	id      int
}

// A Script is where functions are defined.
type Script struct {
	Name   string
	Source *code.Source // its lines; nil if they cannot be read
}

// Function reads a JSFunction.
func (u *Unwinder) Function(function v8.Value) (v8.Function, error) {
	if !function.IsObject() {
		return v8.Function{}, errors.New("read frame: it has no function")
	}
	if f, ok := u.functions[function]; ok {
		return f, nil
	}
	f, err := u.read(function)
	if err == nil && len(u.functions) < maxFunctions {
		u.functions[function] = f
	}
	return f, err
}

// read reads a JSFunction that is not cached.
func (u *Unwinder) read(function v8.Value) (v8.Function, error) {
	if u.v8.Heap == nil {
		return v8.Function{}, errNoHeap
	}
	o, err := u.v8.Heap.Object(function)
	if err != nil {
		return v8.Function{}, fmt.Errorf("read function: %w", err)
	}
	return u.v8.Heap.Function(o)
}

// Script returns the name and lines of a function's script.
func (u *Unwinder) Script(f v8.Function) Script {
	key := scriptKey{v8.Value(f.Script), f.ScriptID}
	if s, ok := u.scripts[key]; ok {
		return s
	}
	var s Script
	h := u.v8.Heap
	if h == nil {
		return s
	}
	s.Name = code.ScriptName(h, f.Script)
	if source, err := code.ReadScript(h, f.Script, f.ScriptID); err == nil {
		s.Source = &source
	}
	u.scripts[key] = s
	return s
}

// Named returns a function's frame with its name and where it is defined.
func (u *Unwinder) Named(f v8.Function) symbolize.Frame {
	frame := symbolize.Frame{Kind: symbolize.JS, Name: f.String()}
	if f.Script == 0 {
		frame.Kind, frame.Module = symbolize.Builtin, u.v8.Module.Path
		return frame
	}
	s := u.Script(f)
	frame.File = s.Name
	if s.Source == nil || f.Start < 0 {
		return frame
	}
	frame.Line, frame.Column = s.Source.Position(f.Start)
	return u.sourceMap(f, s).Defined(frame)
}

// maxMapURL bounds the characters of a source map's URL, which may be the map itself.
const maxMapURL = 64 << 20

// sourceMap returns the source map of a function's script, nil if it has none.
func (u *Unwinder) sourceMap(f v8.Function, s Script) *sourcemap.Map {
	if u.findMap == nil || u.v8.Heap == nil {
		return nil
	}
	key := scriptKey{v8.Value(f.Script), f.ScriptID}
	if m, ok := u.maps[key]; ok {
		return m
	}
	url, _ := code.ReadMapURL(u.v8.Heap, f.Script, f.ScriptID, maxMapURL) // it says nothing if it cannot be read
	m := u.findMap(s.Name, url)
	u.maps[key] = m
	return m
}

// DefinedAt returns where a function is defined, in readable form.
func (u *Unwinder) DefinedAt(f v8.Function) string {
	frame := u.Named(f)
	switch {
	case f.Script == 0:
		return "V8 or native code"
	case frame.Line > 0:
		return fmt.Sprintf("%s line %d", frame.File, frame.Line)
	}
	return fmt.Sprintf("%s position %d", frame.File, f.Start)
}

// pushNamed pushes a frame of a function.
func (w *walker) pushNamed(f v8.Function) *Frame {
	frame := w.push(w.Named(f))
	frame.Script = v8.Value(f.Script)
	return frame
}

// pushFunction pushes the frame of a function that runs code of that kind, after the
// frames of the functions inlined there.
func (w *walker) pushFunction(function v8.Value, f v8.Function, kind codeKind) {
	r, trouble := w.running(function, f, kind)
	last := len(r.places) - 1
	for i, p := range r.places[:max(last, 0)] {
		w.pushInlined(p, r.tier).Optimized = r.level(i)
	}
	frame := w.pushNamed(f)
	frame.Tier, frame.Trouble = r.tier, trouble
	if last >= 0 {
		frame.Shared, frame.Optimized = r.places[last].Shared, r.level(last)
		frame.Nearest = r.places[last].Nearest
		w.execute(frame, f, r.places[last].Offset)
	}
	if w.v8.Codes == nil {
		frame.Call.Function = function
		return
	}
	call, err := w.v8.Codes.Call(w.at.FP())
	frame.Call, frame.HasCall = call, err == nil
	frame.Trouble = errors.Join(frame.Trouble, err)
}

// pushInlined pushes a function that has no frame of its own.
func (w *walker) pushInlined(p code.Place, tier symbolize.Tier) *Frame {
	f, err := code.Function(w.v8.Heap, p)
	frame := w.pushNamed(f)
	frame.FP, frame.Inlined, frame.Tier, frame.Shared, frame.Trouble = 0, true, tier, p.Shared, err
	frame.Nearest = p.Nearest
	w.execute(frame, f, p.Offset)
	return frame
}

// execute records where in its script a frame is.
func (u *Unwinder) execute(frame *Frame, f v8.Function, offset int) {
	frame.Offset = offset
	if f.Script == 0 || offset < 0 {
		return
	}
	if s := u.Script(f); s.Source != nil {
		line, column := s.Source.Position(offset)
		frame.Frame = u.sourceMap(f, s).Executing(frame.Frame, line, column)
	}
}

// A running is the code that a function runs.
type running struct {
	tier      symbolize.Tier
	places    []code.Place // in the functions that are inlined there, innermost first, and in the frame's own
	optimized *Optimized   // of optimized code where a call is in progress
}

// level returns what r has for the function at a level; nil if it has nothing.
func (r running) level(level int) *Optimized {
	if r.optimized == nil {
		return nil
	}
	o := *r.optimized
	o.Level, o.Levels = level, len(r.places)
	return &o
}

// running returns the code of that kind that a function runs at the cursor.
func (w *walker) running(function v8.Value, f v8.Function, kind codeKind) (running, error) {
	own := func(offset int) []code.Place { return []code.Place{{Shared: w.sharedOf(function), Offset: offset}} }
	if f.Script == 0 || w.v8.Codes == nil {
		return running{places: own(-1)}, nil
	}
	begun := func(offset int, err error) []code.Place { // a function that has no position yet is at its start
		if offset < 0 && err == nil {
			offset = f.Start
		}
		return own(offset)
	}
	fp, pc := w.at.FP(), w.at.PC
	if kind == codeBuiltin && w.v8.Codes.IsBaseline(fp) {
		offset, err := w.atEnd()
		return running{tier: symbolize.Baseline, places: own(offset)}, err
	}
	if kind == codeBuiltin {
		offset, err := w.v8.Codes.Interpreted(fp)
		return running{tier: symbolize.Interpreted, places: begun(offset, err)}, err
	}
	c, err := w.v8.Codes.OfFunction(function, w.thread.Isolate)
	if err != nil || !c.Holds(pc) {
		r, _ := w.space.Region(pc)
		if c, err = w.v8.Codes.At(pc, r.Start); err != nil {
			return running{tier: symbolize.Optimized, places: own(-1)}, err
		}
	}
	if c.Tier == symbolize.Baseline {
		if w.at.Leaf {
			pc++ // of two bytecodes, take the one that begins there
		}
		offset, err := w.v8.Codes.Baseline(c, fp, pc)
		return running{tier: c.Tier, places: begun(offset, err)}, err
	}
	if c.Builtin {
		return running{places: own(-1)}, nil
	}
	r := running{tier: c.Tier}
	if !w.at.Leaf {
		r.optimized = &Optimized{Code: c, FP: fp}
		pc-- // within the call
	}
	if r.places, err = w.v8.Codes.Optimized(c, pc); len(r.places) == 0 {
		r.places = own(-1)
	}
	return r, err
}

// atEnd returns where in its script a function is whose frame is being torn down by one
// of V8's builtins. It is -1 if the running builtin is not known.
func (w *walker) atEnd() (int, error) {
	kind, p := w.codeAt(w.at.PC)
	if kind != codeBuiltin || w.called(p).Name != builtinPrefix+"BaselineLeaveFrame" {
		return -1, nil
	}
	return w.v8.Codes.Returning(w.at.FP())
}

// sharedOf returns a function's SharedFunctionInfo, 0 if it cannot be read.
func (u *Unwinder) sharedOf(function v8.Value) v8.Value {
	shared, err := u.space.Word(function.Address() + uint64(u.v8.Binary.Layout.FunctionShared))
	if err != nil {
		return 0
	}
	return v8.Value(shared)
}
