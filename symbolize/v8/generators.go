package v8

import "fmt"

// A GeneratorState says whether a generator or an async function is suspended,
// running or finished.
type GeneratorState int

// States of a generator.
const (
	Suspended GeneratorState = iota // also before its first step
	Running
	Closed
)

func (s GeneratorState) String() string {
	switch s {
	case Suspended:
		return "suspended"
	case Running:
		return "running"
	case Closed:
		return "closed"
	}
	return fmt.Sprintf("GeneratorState(%d)", int(s))
}

// Values of a generator's continuation if it is not suspended.
const (
	generatorRunning = -2
	generatorClosed  = -1
)

// A Generator is the state of a generator, or of a call of an async function.
type Generator struct {
	Function, Context, Receiver Value
	State                       GeneratorState
	Bytecode                    int   // offset of the yield or await in the function's BytecodeArray; -1 if not suspended
	Promise                     Value // of an async function's call; 0 for others
}

// isGenerator reports whether Generator can read o.
func isGenerator(o Object) bool {
	switch o.Map.Kind {
	case "JSGeneratorObject", "JSAsyncFunctionObject", "JSAsyncGeneratorObject":
		return true
	}
	return false
}

// Generator reads a JSGeneratorObject, of any kind.
func (h *Heap) Generator(o Object) (Generator, error) {
	g := Generator{Bytecode: -1}
	if !isGenerator(o) {
		return g, fmt.Errorf("read generator at %#x: it is a %s", o.Address, o.Map.Kind)
	}
	var continuation, position Value
	err := h.Fields(o, "JSGeneratorObject", map[string]*Value{
		"function": &g.Function, "context": &g.Context, "receiver": &g.Receiver,
		"continuation": &continuation, "input_or_debug_pos": &position,
	})
	if err != nil {
		return g, err
	}
	n, ok := continuation.Smi()
	if !ok {
		return g, fmt.Errorf("read generator at %#x: it continues at %#x", o.Address, uint64(continuation))
	}
	if o.Map.Kind == "JSAsyncFunctionObject" {
		if g.Promise, err = h.FieldOf(o, "JSAsyncFunctionObject", "promise"); err != nil {
			return g, err
		}
	}
	switch n {
	case generatorRunning:
		g.State = Running
	case generatorClosed:
		g.State = Closed
	default:
		if at, ok := position.Smi(); ok {
			g.Bytecode = at
		}
	}
	return g, err
}
