package nodetest

// A Call is what V8 says of one call on a program's stack.
type Call struct {
	Function string `json:"function"` // as in a stack trace; empty if it has no name
	Type     string `json:"type"`     // of the receiver
	Method   string `json:"method"`   // property of the receiver that holds the function
	File     string `json:"file"`
	Line     int    `json:"line"` // where it calls the next one, from 1; 0 for a builtin
	Column   int    `json:"column"`

	Builtin   bool `json:"builtin"` // has no script
	Construct bool `json:"construct"`
	Eval      bool `json:"eval"`
	Async     bool `json:"async"` // awaits: not on the machine's stack

	Tier string `json:"tier"` // word of the tier that compiled it, where it was asked for

	Definition *Definition `json:"definition"` // nil for a builtin and an awaiting function
}

// A Definition is where a function begins, at its parameters, as V8's debugger
// and profilers give it.
type Definition struct {
	Name   string `json:"name"` // as V8's debugger gives it
	Line   int    `json:"line"` // from 1
	Column int    `json:"column"`
}

// A Nested is what nested.js says of itself.
type Nested struct {
	PID      int    `json:"pid"`
	Scenario string `json:"scenario"`
	Calls    []Call `json:"calls"` // leaf first
}

// Physical returns the calls that have a frame on the machine's stack, unless
// a compiler put one into another or a builtin jumps rather than calls.
func (n Nested) Physical() []Call {
	var calls []Call
	for _, c := range n.Calls {
		if !c.Async {
			calls = append(calls, c)
		}
	}
	return calls
}
