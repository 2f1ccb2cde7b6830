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
	if c.code.countsReceiver {
		count--
	}
	if count > 1<<16 {
		return call, fmt.Errorf("read frame at %#x: %d arguments", fp, int64(count))
	}
	call.Count = int(count)
	for i := range min(call.Count, maxArguments) {
		w, err := c.slot(fp, slotReceiver+(i+1)*wordSize)
		if err != nil {
			return call, err
		}
		call.Arguments = append(call.Arguments, Value(w))
	}
	return call, nil
}

// slot reads the word at an offset from the frame pointer fp.
func (c *Codes) slot(fp uint64, offset int) (uint64, error) {
	w, err := c.word(fp + uint64(int64(offset)))
	if err != nil {
		return 0, fmt.Errorf("read frame at %#x: %w", fp, err)
	}
	return w, nil
}
