package code

import (
	"fmt"

	"ustack/symbolize/v8"
)

// Slots of a JavaScript function's frame, relative to its frame pointer. What its
// caller pushed is above: first the receiver, then the arguments.
const (
	slotCount    = -24 // number of arguments: a plain integer
	slotReceiver = 16
)

// maxArguments bounds the arguments read from one call; V8 allows 65,534.
const maxArguments = 1 << 12

// A Call is the receiver and arguments of a JavaScript function, as they are in
// its frame: if the function assigned to an argument, it has the new value.
type Call struct {
	Function  v8.Value
	Context   v8.Value
	This      v8.Value // the hole in a constructor of a derived class that has not called super yet
	Count     int      // number of arguments that were passed, whatever the function declares
	Arguments []v8.Value
}

// Call reads the call of the JavaScript function whose frame is at fp. What was
// read is valid even with an error.
func (f *Finder) Call(fp uint64) (Call, error) {
	var call Call
	l := f.layout
	for _, s := range []struct {
		to   *v8.Value
		slot int
	}{{&call.Function, int(l.FPFunction)}, {&call.Context, int(l.FPContext)}, {&call.This, slotReceiver}} {
		w, err := f.slot(fp, s.slot)
		if err != nil {
			return call, err
		}
		*s.to = w
	}
	count, err := f.slot(fp, slotCount)
	if err != nil {
		return call, err
	}
	if f.code.frames.CountsReceiver {
		count--
	}
	return call, f.arguments(&call, fp, slotReceiver, int64(count))
}

// Slots of the frame of a call from JavaScript to a C++ builtin. The receiver
// comes later, then the arguments.
const (
	exitFirst = 16 // new.target, the first that is counted
	exitCount = 32 // a Smi
)

// Exit reads the call of a C++ builtin from its exit frame at fp. Parameters that
// it declares and its caller omitted were passed as undefined.
func (f *Finder) Exit(fp uint64) (Call, error) {
	var call Call
	function, err := f.slot(fp, int(f.layout.BuiltinExitFunction))
	if err != nil {
		return call, err
	}
	call.Function = function
	receiver, err := f.slot(fp, f.code.frames.ExitReceiver)
	if err != nil {
		return call, err
	}
	call.This = receiver
	count, err := f.slot(fp, exitCount)
	if err != nil {
		return call, err
	}
	n, _ := count.Smi()
	n -= (f.code.frames.ExitReceiver-exitFirst)/wordSize + 1
	return call, f.arguments(&call, fp, f.code.frames.ExitReceiver, int64(n))
}

// Template reads the function that an embedder implements in C++ from its exit
// frame at fp. It has only a name.
func (f *Finder) Template(fp uint64) (v8.Function, error) {
	l := f.layout
	tagged, err := f.slot(fp, int(l.APIExitFunction))
	if err != nil {
		return v8.Function{}, err
	}
	o, err := f.heap.Object(tagged)
	if err != nil {
		return v8.Function{}, err
	}
	if l.APIExitFunction == 0 || o.Map.Type != l.FunctionTemplate {
		return v8.Function{}, fmt.Errorf("read function at %#x: it has type %d", o.Address, o.Map.Type)
	}
	shared, err := f.heap.Field(o, int(l.TemplateShared))
	if err != nil {
		return v8.Function{}, err
	}
	return f.heap.FunctionOf(shared)
}

// arguments reads count arguments, which are above the receiver's slot.
func (f *Finder) arguments(call *Call, fp uint64, receiver int, count int64) error {
	if count < 0 || count > 1<<16 {
		return fmt.Errorf("read frame at %#x: %d arguments", fp, count)
	}
	call.Count = int(count)
	for i := range min(call.Count, maxArguments) {
		w, err := f.slot(fp, receiver+(i+1)*wordSize)
		if err != nil {
			return err
		}
		call.Arguments = append(call.Arguments, w)
	}
	return nil
}

// slot reads the word at an offset from the frame pointer fp.
func (f *Finder) slot(fp uint64, offset int) (v8.Value, error) {
	w, err := f.heap.Word(fp + uint64(int64(offset)))
	if err != nil {
		return 0, fmt.Errorf("read frame at %#x: %w", fp, err)
	}
	return v8.Value(w), nil
}
