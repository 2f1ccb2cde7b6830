package stack

import (
	"strings"

	"ustack/symbolize"
	"ustack/symbolize/space"
	"ustack/symbolize/v8"
)

// maxFrameType bounds the types of V8's frames; there are about 35.
const maxFrameType = 256

// builtinPrefix begins the name of each builtin's symbol.
const builtinPrefix = "Builtins_"

// slots returns what V8's frame at fp holds: the marker of its type, or the function's
// context, and its function. It returns false where no frame can be.
func (w *walker) slots(fp uint64) (marker, function uint64, ok bool) {
	if fp == 0 || fp&7 != 0 {
		return 0, 0, false
	}
	l := &w.v8.Binary.Layout
	marker, err := w.space.Word(fp + uint64(int64(l.FPContext)))
	if err != nil {
		return 0, 0, false
	}
	function, err = w.space.Word(fp + uint64(int64(l.FPFunction)))
	return marker, function, err == nil
}

// stepV8 is step for V8's code.
func (w *walker) stepV8(kind codeKind, p space.Part) bool {
	l := &w.v8.Binary.Layout
	if kind == codeBuiltin && w.deoptimizes(p) {
		w.pushCode(kind, p)
		return w.leap()
	}
	if w.at.Leaf && kind == codeBuiltin && w.called(p).Name == builtinPrefix+"BaselineOutOfLinePrologue" {
		switch w.pushBegun(p) {
		case frameBuilt:
			return w.climb()
		case frameOfCaller:
			kind = w.findReturn()
			_, p = w.codeAt(w.at.PC)
		}
	}
	fp := w.at.FP()
	if kind == codeJIT && w.executesRegExp(fp) {
		w.pushCode(kind, p)
		return w.climb()
	}
	marker, tagged, ok := w.slots(fp)
	if !ok {
		return w.giveUp(kind, p)
	}
	if w.at.Leaf && w.at.SP() > fp+uint64(int64(l.FPFunction)) { // the slots are not its own yet
		if !w.pushCallee(kind) {
			w.pushCode(kind, p)
		}
		return w.climb()
	}
	if marker&1 == 0 {
		w.pushTyped(marker>>1, kind, p)
		return w.climbGlue()
	}
	function := v8.Value(tagged)
	f, err := w.Function(function)
	switch {
	case err != nil && kind == codeJIT && w.runsOwn():
		w.pushCode(kind, p)
		return w.climb()
	case err != nil:
		w.push(symbolize.Frame{Name: symbolize.Unknown, Module: jit, Offset: w.at.PC}).Trouble = err
		return w.climb()
	}
	leaf := w.at.Leaf
	switch {
	case leaf && kind == codeJIT && !w.runs(function):
		if w.pushCallee(kind) { // the frame at fp is still its caller's
			kind = w.findReturn()
		}
	case leaf && kind == codeBuiltin && f.Script != 0:
		w.pushCode(kind, p) // a handler, or a stub that it calls
		if w.findReturn() == codeJIT {
			kind = codeJIT
		}
	}
	w.pushFunction(function, f, kind)
	return w.climb()
}

// executesRegExp reports whether the frame at fp, which has no type, is of a regular
// expression's code.
func (w *walker) executesRegExp(fp uint64) bool {
	l := &w.v8.Binary.Layout
	if l.FrameRegExp != 0 || l.RegExpArgument == 0 || w.v8.Heap == nil || w.thread.Isolate == 0 {
		return false
	}
	slot := l.RegExpIsolate
	if slot == 0 {
		slot = l.RegExpArgument - 8
	}
	isolate, err := w.space.Word(fp + uint64(int64(slot)))
	if err != nil || isolate != w.thread.Isolate {
		return false
	}
	expression, err := w.space.Word(fp + uint64(int64(l.RegExpArgument)))
	if err != nil {
		return false
	}
	o, err := w.v8.Heap.Object(v8.Value(expression))
	return err == nil && o.Map.Type == l.RegExp
}

// climbGlue is climb for a frame of V8's glue. A builtin that works within its caller's
// frame may build a frame over whatever it has pushed, to call C++: then that frame has
// no return address, but the next frame is the caller's, which is a function's.
func (w *walker) climbGlue() bool {
	fp := w.at.FP()
	next, err := w.space.Word(fp)
	if err != nil || next <= fp || next-fp > maxFrameBytes || w.exit != 0 && next >= w.exit {
		return w.climb()
	}
	pc, err := w.space.Word(fp + 8)
	if kind, _ := w.codeAt(pc &^ w.at.Signs); err != nil || kind != codeUnknown {
		return w.climb()
	}
	_, tagged, ok := w.slots(next)
	if _, err := w.Function(v8.Value(tagged)); !ok || err != nil {
		return w.climb()
	}
	w.reached = fp
	w.at.Climb(0, fp, next)
	return true
}

// jit is the module name of code compiled by V8.
const jit = "[jit]"

// giveUp handles what turns out not to be V8's frame. The innermost pc is still a fact,
// any other may be junk.
func (w *walker) giveUp(kind codeKind, p space.Part) bool {
	if !w.at.Leaf {
		return w.leap()
	}
	w.pushCode(kind, p)
	return w.climb()
}

// pushCode pushes V8 code that has no frame of its own, or an unidentified one.
func (w *walker) pushCode(kind codeKind, p space.Part) {
	f := symbolize.Frame{Name: "[code]", Module: jit, Offset: w.at.PC}
	if kind == codeBuiltin && w.at.PC != 0 {
		f = w.called(p)
		f.Name = strings.TrimPrefix(f.Name, builtinPrefix)
	}
	f.Kind = symbolize.Typed
	w.push(f)
}

// pushTyped pushes a frame of V8's glue. The frame of a C++ builtin also has the
// function.
func (w *walker) pushTyped(marker uint64, kind codeKind, p space.Part) {
	if marker >= maxFrameType {
		w.pushCode(kind, p)
		return
	}
	f := symbolize.Frame{Module: jit, Offset: w.at.PC}
	if kind == codeBuiltin && w.at.PC != 0 {
		f = w.called(p)
	}
	label, ok := w.v8.Binary.FrameTypes[uint8(marker)]
	if !ok {
		label = "typed"
	}
	name, _ := strings.CutPrefix(f.Name, builtinPrefix)
	if name == f.Name {
		name = ""
	}
	f.Kind, f.Name = symbolize.Typed, typedName(label, name)
	w.push(f)
	w.pushLeft(uint8(marker))
}

// pushLeft pushes the C++ function through which JavaScript was left, if the frame's type
// has it.
func (w *walker) pushLeft(frameType uint8) {
	l := &w.v8.Binary.Layout
	switch {
	case w.v8.Codes == nil:
	case frameType == l.FrameBuiltinExit:
		call, err := w.v8.Codes.Exit(w.at.FP())
		f, fnErr := w.Function(call.Function)
		if fnErr != nil {
			return
		}
		frame := w.pushNamed(f)
		frame.Call, frame.HasCall, frame.Trouble = call, err == nil, err
	case frameType == l.FrameAPICallbackExit && frameType != 0:
		if f, err := w.v8.Codes.Template(w.at.FP()); err == nil {
			w.pushNamed(f)
		}
	}
}

// typedName is the name of a frame of V8's glue: what DTrace's ustack helper called its
// type, and the builtin that made it.
func typedName(label, builtin string) string {
	name := "<< " + label + " >>"
	if builtin != "" {
		name += " " + builtin
	}
	return name
}

// labelOf returns the part of a typedName that names the type.
func labelOf(name string) string {
	label, _, _ := strings.Cut(name, ">>")
	return label + ">>"
}

// runs reports whether pc is in the function's code.
func (w *walker) runs(function v8.Value) bool {
	if w.v8.Codes == nil {
		return false
	}
	c, err := w.v8.Codes.OfFunction(function, w.thread.Isolate)
	return err == nil && c.Holds(w.at.PC)
}

// deoptimizes reports whether V8 has taken a function's frame apart to replace it by
// others: the memory at the frame pointer has been overwritten.
func (w *walker) deoptimizes(p space.Part) bool {
	return !w.at.Leaf && w.at.PC != 0 && strings.HasPrefix(w.called(p).Name, builtinPrefix+"DeoptimizationEntry")
}

// runsOwn reports whether the V8-compiled code at pc belongs to no function: it is a
// regular expression's, whose frame has a different layout.
func (w *walker) runsOwn() bool {
	r, ok := w.space.Region(w.at.PC)
	if !ok || w.v8.Codes == nil {
		return false
	}
	c, err := w.v8.Codes.At(w.at.PC, r.Start)
	return err == nil && c.Builtin
}

// callee returns the function that a register has while V8's code calls it.
func (w *walker) callee() v8.Value { return v8.Value(w.thread.Registers.General[w.machine.callee]) }

// pushCallee pushes the innermost function while its code is still building its frame: a
// register holds the function.
func (w *walker) pushCallee(kind codeKind) bool {
	function := w.callee()
	f, err := w.Function(function)
	if err != nil || w.v8.Codes == nil {
		return false
	}
	c, err := w.v8.Codes.OfFunction(function, w.thread.Isolate)
	if err != nil || !c.Holds(w.at.PC) || w.at.PC-c.Start > w.machine.maxPrologue {
		return false
	}
	frame := w.pushNamed(f)
	frame.FP = 0
	frame.Call.Function = function
	if f.Script != 0 {
		frame.Tier = c.Tier
		if kind == codeBuiltin {
			frame.Tier = symbolize.Interpreted
		}
		w.execute(frame, f, f.Start)
	}
	return true
}

// maxBegun bounds the bytes that V8's builtin pushes below the frame pointer when it
// builds a frame for code of the baseline compiler: six slots and, at its end, its return
// address and the frame pointer. Any frame that has called a function is larger.
const maxBegun = 8 * 8

// A frameState says whose frame the frame pointer refers to while a builtin builds one.
type frameState int

const (
	frameOther    frameState = iota // one of the builtin's own, above the function's, or not known
	frameOfCaller                   // the function's caller's
	frameBuilt                      // the function's
)

// pushBegun pushes the innermost function while the builtin builds its frame, whose slots
// are not reliable yet: a register holds the function. It pushes nothing for frameOther.
// Where calls are linked, the function itself has saved what leads to its caller.
func (w *walker) pushBegun(p space.Part) frameState {
	function := w.callee()
	f, err := w.Function(function)
	if err != nil || w.v8.Codes == nil {
		return frameOther
	}
	c, err := w.v8.Codes.OfFunction(function, w.thread.Isolate)
	if err != nil {
		return frameOther
	}
	returnsTo := func(address uint64) bool {
		pc, err := w.space.Word(address)
		return err == nil && c.Holds(pc)
	}
	fp, sp := w.at.FP(), w.at.SP()
	_, tagged, _ := w.slots(fp)
	hasSlot := fp-sp >= uint64(-int64(w.v8.Binary.Layout.FPFunction))
	built := fp-sp <= maxBegun && (!hasSlot || v8.Value(tagged) == function)
	if built && returnsTo(fp+8) {
		return frameOther
	}
	built = built || w.machine.arch.HasLink()
	w.pushCode(codeBuiltin, p)
	frame := w.pushNamed(f)
	frame.FP, frame.Tier, frame.Call.Function = 0, symbolize.Baseline, function
	w.execute(frame, f, f.Start)
	if built {
		return frameBuilt
	}
	if returnsTo(sp) { // at the top of the stack is the function's return address
		w.at.Set(w.at.PC, sp+8, fp)
	}
	return frameOfCaller
}

// findReturn moves the cursor to the return address of the innermost code, which has no
// frame of its own: it is in the link register, at the top of the stack, or follows a frame
// pointer just saved.
func (w *walker) findReturn() codeKind {
	w.at.Leaf = false
	var found []uint64
	if w.machine.arch.HasLink() {
		found = append(found, w.at.Regs[w.machine.arch.Link])
	}
	for i := range uint64(2) {
		if pc, err := w.space.Word(w.at.SP() + 8*i); err == nil {
			found = append(found, pc)
		}
	}
	for _, pc := range found {
		pc &^= w.at.Signs
		if kind, _ := w.codeAt(pc); kind == codeJIT || kind == codeBuiltin {
			w.at.PC = pc
			return kind
		}
	}
	w.at.PC = 0
	return codeBuiltin
}
