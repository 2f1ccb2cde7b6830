package v8

import "fmt"

// Slots of a JavaScript function's frame, from its frame pointer: what its caller
// has pushed is above, first the receiver, then the arguments.
const (
	slotCount    = -24 // how many arguments there are: a plain number
	slotReceiver = 16
)

// maxArguments bounds the arguments that are read of one call; V8 allows 65,534.
const maxArguments = 1 << 12

// A Call is what a JavaScript function was called with, as its frame has it: an
// argument that the function has assigned to has its new value.
type Call struct {
	Function  Value
	Context   Value
	This      Value // the hole in a constructor of a derived class that has not called super yet
	Count     int   // of the arguments that were given, whatever the function declares
	Arguments []Value
}

// Call reads the call of the JavaScript function whose frame is at fp. What was
// read is valid even with an error.
func (c *Codes) Call(fp uint64) (Call, error) {
	var call Call
	l := &c.layout
	for _, s := range []struct {
		to   *Value
		slot int
	}{{&call.Function, int(l.FPFunction)}, {&call.Context, int(l.FPContext)}, {&call.This, slotReceiver}} {
		w, err := c.slot(fp, s.slot)
		if err != nil {
			return call, err
		}
		*s.to = Value(w)
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

// Slots of the frame by which JavaScript calls a builtin that is C++. The receiver
// comes later, then the arguments.
const (
	exitFirst = 16 // what "new" was applied to, the first that is counted
	exitCount = 32 // a Smi
)

// Exit reads the call of a builtin in C++, by whose frame, at fp, JavaScript was
// left. It was given undefined for what it declares and its caller left out.
func (c *Codes) Exit(fp uint64) (Call, error) {
	var call Call
	function, err := c.slot(fp, int(c.layout.BuiltinExitFunction))
	if err != nil {
		return call, err
	}
	call.Function = Value(function)
	receiver, err := c.slot(fp, c.code.frames.ExitReceiver)
	if err != nil {
		return call, err
	}
	call.This = Value(receiver)
	count, err := c.slot(fp, exitCount)
	if err != nil {
		return call, err
	}
	n, _ := smi(count)
	n -= (c.code.frames.ExitReceiver-exitFirst)/wordSize + 1
	return call, c.arguments(&call, fp, c.code.frames.ExitReceiver, int64(n))
}

// Template reads the function that an embedder's C++ implements, by whose frame, at
// fp, JavaScript was left. It has no more than a name.
func (c *Codes) Template(fp uint64) (Function, error) {
	l := &c.layout
	tagged, err := c.slot(fp, int(l.APIExitFunction))
	if err != nil {
		return Function{}, err
	}
	o, err := c.object(tagged)
	if err != nil {
		return Function{}, err
	}
	if l.APIExitFunction == 0 || o.typ != l.FunctionTemplate {
		return Function{}, fmt.Errorf("read function at %#x: it has type %d", o.address, o.typ)
	}
	shared, err := c.field(o, l.TemplateShared)
	if err != nil {
		return Function{}, err
	}
	return c.shared(shared)
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
		call.Arguments = append(call.Arguments, Value(w))
	}
	return nil
}

// slot reads the word at an offset from the frame pointer fp.
func (c *Codes) slot(fp uint64, offset int) (uint64, error) {
	w, err := c.word(fp + uint64(int64(offset)))
	if err != nil {
		return 0, fmt.Errorf("read frame at %#x: %w", fp, err)
	}
	return w, nil
}
