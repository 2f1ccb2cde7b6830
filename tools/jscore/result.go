package jscore

import (
	"io"
	"strconv"

	"ustack/symbolize/v8"
)

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

// An Address is a word of the program's memory in readable form, tagged if it is one of
// V8's: hexadecimal without 0x, in JSON too, where a number would be rounded.
type Address uint64

func (a Address) String() string { return strconv.FormatUint(uint64(a), 16) }

// MarshalText returns String's text.
func (a Address) MarshalText() ([]byte, error) { return strconv.AppendUint(nil, uint64(a), 16), nil }
