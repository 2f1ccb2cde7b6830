package v8

import "fmt"

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
	Function  Value
	Context   Value
	This      Value // the hole in a constructor of a derived class that has not called super yet
	Count     int   // number of arguments that were passed, whatever the function declares
	Arguments []Value
}

// Call reads the call of the JavaScript function whose frame is at fp. What was
// read is valid even with an error.
func (c *Codes) Call(fp uint64) (Call, error) {
	var call Call
	l := c.layout
	for _, s := range []struct {
		to   *Value
		slot int
	}{{&call.Function, int(l.FPFunction)}, {&call.Context, int(l.FPContext)}, {&call.This, slotReceiver}} {
		w, err := c.slot(fp, s.slot)
		if err != nil {
			return call, err
		}
		*s.to = w
	}
	count, err := c.slot(fp, slotCount)
	if err != nil {
		return call, err
	}
	if c.code.frames.CountsReceiver {
		count--
	}
	return call, c.arguments(&call, fp, slotReceiver, int64(count))
}

// Slots of the frame of a call from JavaScript to a C++ builtin. The receiver
// comes later, then the arguments.
const (
	exitFirst = 16 // new.target, the first that is counted
	exitCount = 32 // a Smi
)

// Exit reads the call of a C++ builtin from its exit frame at fp. Parameters that
// it declares and its caller omitted were passed as undefined.
func (c *Codes) Exit(fp uint64) (Call, error) {
	var call Call
	function, err := c.slot(fp, int(c.layout.BuiltinExitFunction))
	if err != nil {
		return call, err
	}
	call.Function = function
	receiver, err := c.slot(fp, c.code.frames.ExitReceiver)
	if err != nil {
		return call, err
	}
	call.This = receiver
	count, err := c.slot(fp, exitCount)
	if err != nil {
		return call, err
	}
	n, _ := count.Smi()
	n -= (c.code.frames.ExitReceiver-exitFirst)/wordSize + 1
	return call, c.arguments(&call, fp, c.code.frames.ExitReceiver, int64(n))
}

// Template reads the function that an embedder implements in C++ from its exit
// frame at fp. It has only a name.
func (c *Codes) Template(fp uint64) (Function, error) {
	l := c.layout
	tagged, err := c.slot(fp, int(l.APIExitFunction))
	if err != nil {
		return Function{}, err
	}
	o, err := c.Object(tagged)
	if err != nil {
		return Function{}, err
	}
	if l.APIExitFunction == 0 || o.Map.Type != l.FunctionTemplate {
		return Function{}, fmt.Errorf("read function at %#x: it has type %d", o.Address, o.Map.Type)
	}
	shared, err := c.Field(o, int(l.TemplateShared))
	if err != nil {
		return Function{}, err
	}
	return c.FunctionOf(shared)
}

// arguments reads count arguments, which are above the receiver's slot.
func (c *Codes) arguments(call *Call, fp uint64, receiver int, count int64) error {
	if count < 0 || count > 1<<16 {
		return fmt.Errorf("read frame at %#x: %d arguments", fp, count)
	}
	call.Count = int(count)
	for i := range min(call.Count, maxArguments) {
		w, err := c.slot(fp, receiver+(i+1)*wordSize)
		if err != nil {
			return err
		}
		call.Arguments = append(call.Arguments, w)
	}
	return nil
}

// slot reads the word at an offset from the frame pointer fp.
func (c *Codes) slot(fp uint64, offset int) (Value, error) {
	w, err := c.Word(fp + uint64(int64(offset)))
	if err != nil {
		return 0, fmt.Errorf("read frame at %#x: %w", fp, err)
	}
	return Value(w), nil
}
