package jscore

import (
	"io"

	"ustack/symbolize/v8"
	"ustack/symbolize/v8/value"
)

// indent precedes what belongs to the line above it.
const indent = "    "

// A Result is what a command found. Its struct tags define its JSON.
type Result interface {
	// WriteText writes the result for people, in whole lines.
	WriteText(w io.Writer) error
}

// An Addressed result can be passed on in a pipeline.
type Addressed interface {
	Result
	// Addresses returns what the next command gets, in order.
	Addresses() []v8.Value
}

// An Address is a word of the program's memory in readable form.
type Address = value.Address

// A Brief is a short description of a V8 value.
type Brief = value.Brief
