package nodetest

// A Call is what V8 reports about one call on a program's stack.
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

// A Nested is what nested.js reports about itself.
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

// A Kind is what names.js reports about one function with an awkward name.
type Kind struct {
	Kind       string `json:"kind"`
	Wrapper    string `json:"wrapper"`    // function further down the stack, which tells the kinds apart
	Name       string `json:"name"`       // in a stack trace
	DebugName  string `json:"debugName"`  // the same without the word "eval"
	SharedName string `json:"sharedName"` // as V8 knows it without looking at the function's properties
	File       string `json:"file"`
	Line       int    `json:"line"` // of the definition, from 1
	Column     int    `json:"column"`
}

// Names is what names.js reports about itself.
type Names struct {
	PID   int    `json:"pid"`
	Kinds []Kind `json:"kinds"`
}

// Shares is what shares.js reports about itself.
type Shares struct {
	PID       int     `json:"pid"`
	File      string  `json:"file"`
	Functions []Share `json:"functions"`
}

// A Share is a function and how much CPU time goes to what it calls.
type Share struct {
	Definition
	Percent float64 `json:"percent"`
}

// Spent is what shares.js has measured, printed after the word "shares".
type Spent struct {
	Percents     []float64 `json:"percents"` // in the order of Shares.Functions
	Microseconds float64   `json:"microseconds"`
	Churn        float64   `json:"churn"` // microseconds in churn, no part of the others
}
